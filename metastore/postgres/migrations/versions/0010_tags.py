"""Tags: names of snapshots."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

NAME = sa.Text(collation="C")


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    op.create_table(
        "tag",
        sa.Column("table_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("name", NAME, primary_key=True),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
    )
