"""Bringing a database to the tables of this version, forward only.

A newer version may have migrated the database. Its steps say whether they only add to what was there. If all that are
unknown here do, metastores of this version serve the database as well: during a rollout, and when it is taken back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final

import psycopg
from sqlalchemy import Connection, create_engine, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from lakelog.errors import InvalidArgument, Unavailable

from ..connection.connections import libpq_url
from .all_tables import metadata
from .revision_tables import schema_revision
from .revisions import Revisions, read_revisions

VERSION_TABLE: Final = "lakelog_schema_version"

_LOCK_KEY: Final = 0x6C616B656C6F67
"""Of the advisory lock that a migration holds: "lakelog". Two at once would both begin with the same step."""


def migrate(url: str) -> str:
    """Brings a database up to date; blocks; idempotent; several at once wait for each other.

    A database of a newer version that metastores of this one can serve stays as it is.

    Args:
        url: In libpq's form, `postgresql://...`.

    Returns:
        The revision that the database has now.

    Raises:
        Unavailable: The database cannot be reached.
        InvalidArgument: A newer version migrated the database, and this one cannot serve it, or the URL is not valid.
    """
    with _connect(url) as connection:
        connection.exec_driver_sql("SELECT pg_advisory_lock(%s)", (_LOCK_KEY,))
        # SUBTLE: after the lock. Python 3.11 may fail if several threads parse at once.
        revisions = read_revisions()
        current, wanted = _current(connection), revisions.head
        noted = {"revision": wanted, "served_from": revisions.find_served_from(wanted)}
        if _is_newer(connection, revisions, current):
            connection.commit()
            return str(current)
        if current != wanted:
            from .alembic_steps import upgrade

            connection.commit()
            upgrade(connection, metadata, VERSION_TABLE, to=wanted, finish=partial(_note, noted))
        connection.commit()
        return wanted


def check_current(url: str) -> str | None:
    """Checks that metastores of this version can serve a database; blocks.

    Returns:
        The revision of the database if a newer version migrated it; None: it has the tables of this version.

    Raises:
        Unavailable: The database cannot be reached.
        InvalidArgument: It must be migrated, or a newer version migrated it and this one cannot serve it.
    """
    revisions = read_revisions()
    with _connect(url) as connection:
        current, wanted = _current(connection), revisions.head
        if _is_newer(connection, revisions, current):
            return current
        if current != wanted:
            raise InvalidArgument(
                f"The database has the tables of revision {current or '(none)'}, this metastore needs {wanted}. Run "
                "`lakelog metastore migrate` first.",
                reason="MIGRATION_NEEDED",
                metadata={"current": current or "", "needed": wanted},
            )
    return None


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


def _is_newer(connection: Connection, revisions: Revisions, current: str | None) -> bool:
    """Whether a newer version migrated the database, in such a way that this one can serve it; raises if it cannot."""
    if current is None or current in revisions.previous:
        return False
    served_from = _find_served_from(connection, current)
    if served_from in revisions.previous:
        return True
    needed = f", and it needs metastores of revision {served_from} or newer" if served_from else ""
    raise InvalidArgument(
        f"The database has the tables of revision {current}, which this version does not know: a newer metastore "
        f"migrated it{needed}. This version has revision {revisions.head}. Run that version, or a newer one.",
        reason="MIGRATION_UNKNOWN",
        metadata={"current": current, "known": revisions.head},
    )


def _note(values: Mapping[str, str], connection: Connection) -> None:
    """Notes in the database which metastores can serve it."""
    connection.execute(insert(schema_revision).values(values).on_conflict_do_nothing())


def _find_served_from(connection: Connection, revision: str) -> str | None:
    """The oldest revision whose metastores can serve the database; None: the version that migrated it did not say."""
    if connection.exec_driver_sql("SELECT to_regclass(%s)", (schema_revision.name,)).scalar() is None:
        return None
    wanted = select(schema_revision.c.served_from).where(schema_revision.c.revision == revision)
    found: str | None = connection.execute(wanted).scalar_one_or_none()
    return found
