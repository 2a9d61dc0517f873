"""Stores what waits in the whole metastore, in numbers: one metastore measures, all read it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None
served_from = "0007"


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    made = op.create_table(
        "waiting_work",
        sa.Column("only", sa.Boolean, primary_key=True),
        sa.Column("measured_at_ms", sa.BigInteger, nullable=False),
        sa.Column("took_ms", sa.BigInteger, nullable=False),
        sa.Column("form", sa.Integer, nullable=False),
        sa.Column("content", JSONB, nullable=True),
    )
    op.bulk_insert(made, [{"only": True, "measured_at_ms": 0, "took_ms": 0, "form": 0}])
