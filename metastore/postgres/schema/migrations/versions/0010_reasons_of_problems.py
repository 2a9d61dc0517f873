"""Stores the reason of the problem that stops a log's publishing, so that programs need not read its text."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None
served_from = "0007"


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    op.add_column("publish_state", sa.Column("problem_reason", sa.Text, nullable=False, server_default=sa.text("''")))
