"""Topics of tables' external logs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB, UUID

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

NAME = sa.Text(collation="C")


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    op.create_table(
        "log_topic",
        sa.Column("table_uuid", UUID(as_uuid=False), primary_key=True),
        sa.Column("generation", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("topic", NAME, nullable=False),
        sa.Column("topic_id", NAME, nullable=False),
        sa.Column("starts_after", sa.BigInteger(), nullable=False),
        sa.Column("named", sa.Boolean(), nullable=False),
        sa.Column("state", NAME, nullable=False),
        sa.Column("options", JSONB(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("changed_at_ms", sa.BigInteger(), nullable=False),
    )
    op.create_index("log_topic_unsettled", "log_topic", ["state"], postgresql_where=sa.text("state <> 'live'"))
    op.create_index("log_topic_id", "log_topic", ["topic_id"])
