"""How alembic runs our migrations: over the connection that `migration.py` hands in, in one transaction.

Alembic loads this file by its path, outside of any package, so everything comes in through the configuration.
"""

from __future__ import annotations

from alembic import context

attributes = context.config.attributes
context.configure(
    connection=attributes["connection"],
    target_metadata=attributes["metadata"],
    version_table=attributes["version_table"],
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
    attributes["finish"](attributes["connection"])
