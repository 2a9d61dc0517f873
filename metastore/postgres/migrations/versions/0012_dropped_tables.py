"""Dropped tables can be restored for a while, and are purged then; files of changelogs are found by their paths."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

# Those that were dropped before have lost their heads, so that nobody can restore them. Their files are still there:
# a day is left to whoever wants to take them by hand.
_PURGE = """
WITH dropped AS (
    UPDATE catalog_table SET kept_until_ms = dropped_at_ms, purged_at_ms = dropped_at_ms
    WHERE dropped_at_ms IS NOT NULL RETURNING table_id
)
INSERT INTO job (table_id, kind, scope, state, priority, payload, attempts, reason, outcome, epoch, holder, due_at,
    created_at_ms, updated_at_ms)
SELECT table_id, 'purge', '', 'due', -100, '{}', 0, '', '', 0, '', clock_timestamp() + interval '1 day',
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM dropped
"""


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    # Columns without a default are added without touching the rows there are.
    op.add_column("catalog_table", sa.Column("kept_until_ms", sa.BigInteger(), nullable=True))
    op.add_column("catalog_table", sa.Column("purged_at_ms", sa.BigInteger(), nullable=True))
    op.create_index(
        "catalog_table_dropped",
        "catalog_table",
        ["database", "name", "dropped_at_ms"],
        postgresql_where=sa.text("dropped_at_ms IS NOT NULL"),
    )
    op.alter_column("table_head", "table_uuid", nullable=True)
    op.execute(_PURGE)
    # Some seconds for a million files, once.
    op.create_index("changelog_file_path", "changelog_file", ["path"], postgresql_using="hash")
