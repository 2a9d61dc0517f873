"""When the commits begin that full compactions wait for, and with which files: their snapshots may expire meanwhile."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    op.add_column("full_count", sa.Column("first_ms", sa.BigInteger()))
    op.add_column("full_count", sa.Column("first_file_id", sa.BigInteger()))
