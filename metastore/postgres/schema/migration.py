"""Bringing a database to the tables of this version, forward only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from lakelog.errors import InvalidArgument, Unavailable

from ..connection.connections import libpq_url
from .all_tables import metadata

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
        _check_known(connection)
        connection.commit()
        command.upgrade(_config(connection), "head")
        connection.commit()
        return _current(connection) or ""


def check_current(url: str) -> None:
    """Checks that a database has the tables of this version; blocks.

    Raises:
        Unavailable: The database cannot be reached.
        InvalidArgument: It must be migrated, or was migrated by a newer version.
    """
    with _connect(url) as connection:
        _check_known(connection)
        current, wanted = _current(connection), _scripts().get_current_head()
        if current != wanted:
            raise InvalidArgument(
                f"The database has the tables of revision {current or '(none)'}, this metastore needs {wanted}. Run "
                "`lakelog metastore migrate` first.",
                reason="MIGRATION_NEEDED",
                metadata={"current": current or "", "needed": wanted or ""},
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
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        return [str(difference) for difference in compare_metadata(context, metadata)]


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes.update(connection=connection, metadata=metadata, version_table=VERSION_TABLE)
    return config


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


def _current(connection: Connection) -> str | None:
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    return context.get_current_revision()


def _check_known(connection: Connection) -> None:
    current = _current(connection)
    known = {script.revision for script in _scripts().walk_revisions()}
    if current is not None and current not in known:
        raise InvalidArgument(
            f"The database has the tables of revision {current}, which this version does not know: a newer metastore "
            "migrated it. Run that version, or a newer one.",
            reason="MIGRATION_UNKNOWN",
            metadata={"current": current},
        )
