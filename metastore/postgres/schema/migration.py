"""Bringing a database to the tables of this version, forward only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from lakelog.errors import InvalidArgument, Unavailable

from ..connection.connections import libpq_url
from .all_tables import metadata
from .revisions import read_revisions

VERSION_TABLE: Final = "lakelog_schema_version"

_LOCK_KEY: Final = 0x6C616B656C6F67
"""Of the advisory lock that a migration holds: "lakelog". Two at once would both begin with the same step."""


def migrate(url: str) -> str:
    """Brings a database up to date; blocks; idempotent; several at once wait for each other.

    Args:
        url: In libpq's form, `postgresql://...`.

    Returns:
        The revision that the database has now.

    Raises:
        Unavailable: The database cannot be reached.
        InvalidArgument: The database was migrated by a newer version, or the URL is not valid.
    """
    with _connect(url) as connection:
        connection.exec_driver_sql("SELECT pg_advisory_lock(%s)", (_LOCK_KEY,))
        current, wanted = _check_known(connection), read_revisions().head
        if current != wanted:
            from .alembic_steps import upgrade

            connection.commit()
            upgrade(connection, metadata, VERSION_TABLE, to=wanted)
        connection.commit()
        return wanted


def check_current(url: str) -> None:
    """Checks that a database has the tables of this version; blocks.

    Raises:
        Unavailable: The database cannot be reached.
        InvalidArgument: It must be migrated, or was migrated by a newer version.
    """
    with _connect(url) as connection:
        current, wanted = _check_known(connection), read_revisions().head
        if current != wanted:
            raise InvalidArgument(
                f"The database has the tables of revision {current or '(none)'}, this metastore needs {wanted}. Run "
                "`lakelog metastore migrate` first.",
                reason="MIGRATION_NEEDED",
                metadata={"current": current or "", "needed": wanted},
            )


@contextmanager
def _connect(url: str) -> Iterator[Connection]:
    try:
        # libpq reads the URL, so that it means the same here as for the service.
        opened = psycopg.connect(libpq_url(url))
    except psycopg.OperationalError as error:
        raise Unavailable(
            f"The database cannot be reached: {' '.join(str(error).split())}", reason="DATABASE_UNREACHABLE"
        ) from error
    except psycopg.ProgrammingError as error:
        raise InvalidArgument(
            f"The database URL is not one: {error}. Give one like postgresql://user@host:5432/name.",
            metadata={"field": "database_url"},
        ) from error
    with opened:
        engine = create_engine("postgresql+psycopg://", creator=lambda: opened, poolclass=NullPool)
        try:
            with engine.connect() as connection:
                yield connection
        except OperationalError as error:
            raise Unavailable(
                f"The database was lost: {' '.join(str(error.orig).split())}", reason="DATABASE_UNREACHABLE"
            ) from error


def differences(url: str) -> list[str]:
    """What a database lacks of the tables in `tables.py`, in words; empty when nothing is missing. Blocks."""
    with _connect(url) as connection:
        from .alembic_steps import find_differences

        return find_differences(connection, metadata, VERSION_TABLE)


def _current(connection: Connection) -> str | None:
    """The revision that the database says it has; None: it has no tables of ours."""
    if connection.exec_driver_sql("SELECT to_regclass(%s)", (VERSION_TABLE,)).scalar() is None:
        return None
    return connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalar_one_or_none()


def _check_known(connection: Connection) -> str | None:
    """The revision of the database."""
    current = _current(connection)
    if current is not None and current not in read_revisions().previous:
        raise InvalidArgument(
            f"The database has the tables of revision {current}, which this version does not know: a newer metastore "
            "migrated it. Run that version, or a newer one.",
            reason="MIGRATION_UNKNOWN",
            metadata={"current": current},
        )
    return current
