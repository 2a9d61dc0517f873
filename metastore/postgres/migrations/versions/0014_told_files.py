"""Changelogs that full compactions tell: which files' rows they have told."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    op.create_table(
        "told_file",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("file_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("told_from", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("told_until", sa.BigInteger(), nullable=True),
        sa.Column("partition_id", sa.BigInteger(), nullable=False),
        sa.Column("bucket", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "file_id", "told_from"),
    )
    op.create_index("told_file_bucket", "told_file", ["table_id", "partition_id", "bucket"])
    op.create_index(
        "told_file_ended", "told_file", ["table_id", "told_until"], postgresql_where=sa.text("told_until IS NOT NULL")
    )
    op.create_table(
        "full_count",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("settled_until", sa.BigInteger(), nullable=False),
        sa.Column("counted_until", sa.BigInteger(), nullable=False),
        sa.Column("commit_count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id"),
    )
    # Columns without a default are added without touching the rows there are.
    op.add_column("table_head", sa.Column("tells_later", sa.Boolean(), nullable=True))
    op.add_column("table_head", sa.Column("last_full_snapshot", sa.BigInteger(), nullable=True))
