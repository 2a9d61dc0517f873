"""Consumers: named readers and where they are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    op.create_table(
        "consumer",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("consumer_id", sa.Text(collation="C"), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=True),
        sa.Column("snapshot_uuid", sa.UUID(as_uuid=False), nullable=True),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("used_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "consumer_id"),
    )
