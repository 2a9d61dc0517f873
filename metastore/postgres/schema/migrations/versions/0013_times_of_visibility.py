"""Stores when a published snapshot became visible to readers of the log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None
served_from = "0007"


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    op.add_column("snapshot_log_offset", sa.Column("visible_at_ms", sa.BigInteger, nullable=True))
