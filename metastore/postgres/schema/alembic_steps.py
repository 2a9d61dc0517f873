"""What only alembic can do: to run migrations, and to compare a database with the declared tables.

Imported when a database has to be migrated, which at most starts of the service it has not.
"""

from __future__ import annotations

from collections.abc import Callable

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, MetaData

from .revisions import MIGRATIONS


def upgrade(
    connection: Connection,
    metadata: MetaData,
    version_table: str,
    *,
    to: str,
    finish: Callable[[Connection], None] = lambda _: None,
) -> None:
    """Runs every migration up to a revision that the database lacks, and `finish`, in one transaction."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes.update(connection=connection, metadata=metadata, version_table=version_table, finish=finish)
    command.upgrade(config, to)


def find_differences(connection: Connection, metadata: MetaData, version_table: str) -> list[str]:
    """What the database lacks of the declared tables, in words."""
    context = MigrationContext.configure(connection, opts={"version_table": version_table, "compare_type": True})
    return [str(difference) for difference in compare_metadata(context, metadata)]
