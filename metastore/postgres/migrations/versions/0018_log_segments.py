"""What snapshots bring to external logs, and how far these are published."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_NAME = sa.Text(collation="C")


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup. Columns without a default rewrite no row."""
    op.add_column("table_head", sa.Column("log", _NAME, nullable=True))
    op.add_column("snapshot", sa.Column("log", _NAME, nullable=True))
    op.add_column("snapshot", sa.Column("attempt_id", sa.Uuid(), nullable=True))
    op.add_column("snapshot", sa.Column("sent_offsets", JSONB(), nullable=True))
    op.create_table(
        "publish_state",
        sa.Column("table_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=False),
        sa.Column("snapshot_uuid", sa.Uuid(), nullable=True),
        sa.Column("next_index", sa.BigInteger(), nullable=False),
        sa.Column("next_uuid", sa.Uuid(), nullable=True),
        sa.Column("reported_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        postgresql_with={"fillfactor": 50},
    )
    op.create_table(
        "snapshot_log_offset",
        sa.Column("table_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("generation", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("snapshot_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("snapshot_uuid", sa.Uuid(), nullable=False),
        sa.Column("offsets", sa.ARRAY(sa.BigInteger()), nullable=False),
    )
