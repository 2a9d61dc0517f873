"""Results of compactions: which groups were dropped."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    # A column without a default is added without touching the rows there are.
    op.add_column("commit_result", sa.Column("dropped", JSONB, nullable=True))
