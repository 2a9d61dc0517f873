"""Stores when a writer's name was last registered or got an owner, so that names that never commit can be removed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    op.add_column(
        "writer",
        sa.Column("used_at", sa.TIMESTAMP(timezone=True), nullable=False, server_default=sa.text("now()")),
    )
