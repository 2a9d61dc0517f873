"""Which service processes run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    op.create_table(
        "service",
        sa.Column("instance_id", sa.UUID(as_uuid=False), nullable=False),
        sa.Column("kind", sa.Text(collation="C"), nullable=False),
        sa.Column("host", sa.Text(collation="C"), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(collation="C"), nullable=False),
        sa.Column("work", sa.ARRAY(sa.Text(collation="C")), nullable=False),
        sa.Column("metrics", sa.Text(), nullable=False),
        sa.Column("ttl_ms", sa.BigInteger(), nullable=False),
        sa.Column("started_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("reported_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("instance_id"),
    )
