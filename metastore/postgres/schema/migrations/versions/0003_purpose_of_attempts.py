"""Stores which commit an attempt is for, and when its writer last reported."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    op.add_column("attempt", sa.Column("identifier", sa.BigInteger(), nullable=True))
    op.add_column("attempt", sa.Column("epoch", sa.BigInteger(), nullable=True))
    op.add_column("attempt", sa.Column("heard_at", sa.TIMESTAMP(timezone=True), nullable=True))
    op.create_index(
        "attempt_of_commit",
        "attempt",
        ["writer", "identifier"],
        postgresql_where=sa.text("state = 'open' AND identifier IS NOT NULL"),
    )
