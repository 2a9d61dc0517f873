"""Stores what waits in the whole metastore, in numbers: one metastore measures, all read it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    op.create_table(
        "waiting_work",
        sa.Column("only", sa.Boolean, primary_key=True),
        sa.Column("measured_at_ms", sa.BigInteger, nullable=False),
        sa.Column("took_ms", sa.BigInteger, nullable=False),
        sa.Column("form", sa.Integer, nullable=False),
        sa.Column("content", JSONB, nullable=True),
    )
    op.execute("INSERT INTO waiting_work VALUES (true, 0, 0, 0, NULL)")
