"""Changelog files: what snapshots say that they changed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    op.create_table(
        "changelog_file",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("ordinal", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("partition_id", sa.BigInteger(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.Column("delete_count", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("time_ms", sa.BigInteger(), nullable=False),
        sa.Column("bucket", sa.Integer(), nullable=False),
        sa.Column("schema_id", sa.Integer(), nullable=False),
        sa.Column("path", sa.Text(collation="C"), nullable=False),
        sa.Column("min_key", sa.LargeBinary(), nullable=True),
        sa.Column("max_key", sa.LargeBinary(), nullable=True),
        sa.Column("statistics", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("table_id", "snapshot_id", "ordinal"),
    )
    # A column without a default is added without touching the rows there are.
    op.add_column("snapshot", sa.Column("changelog", sa.Text(collation="C"), nullable=True))
