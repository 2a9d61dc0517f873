"""Stores what callers may do with single databases and tables.

A dropped table notes that its database was dropped, too: a later database of the same name has no claim on it. Which
tables that holds for is not known of those that were dropped before, so they count as such; admins can restore them.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    op.create_table(
        "access_grant",
        sa.Column("principal", sa.Text(collation="C"), primary_key=True),
        sa.Column("table_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("database", sa.Text(collation="C"), primary_key=True),
        sa.Column("level", sa.SmallInteger, nullable=False),
        sa.Column("granted_by", sa.Text(collation="C"), nullable=False),
        sa.Column("granted_at_ms", sa.BigInteger, nullable=False),
    )
    op.create_index("access_grant_scope", "access_grant", ["table_id", "database", "principal"], unique=True)
    op.add_column("catalog_table", sa.Column("database_gone", sa.Boolean, nullable=True))
    op.execute("UPDATE catalog_table SET database_gone = true WHERE dropped_at_ms IS NOT NULL")
