"""Stores when a version of a schema was made, and who made it; NULL: a metastore of before this step made it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None
served_from = "0007"


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    op.add_column("schema_version", sa.Column("created_at_ms", sa.BigInteger, nullable=True))
    op.add_column("schema_version", sa.Column("created_by", sa.Text(collation="C"), nullable=True))
