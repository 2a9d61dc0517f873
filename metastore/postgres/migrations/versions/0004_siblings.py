"""Snapshots know what the same commit made of other tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    # A column without a default is added without touching the rows there are.
    op.add_column("snapshot", sa.Column("siblings", postgresql.JSONB(), nullable=True))
