"""Jobs, and snapshots whose changelog is still to be made."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    op.create_table(
        "job",
        sa.Column("job_id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("table_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(collation="C"), nullable=False),
        sa.Column("scope", sa.Text(collation="C"), nullable=False),
        sa.Column("state", sa.Text(collation="C"), nullable=False),
        sa.Column("priority", sa.BigInteger(), nullable=False),
        sa.Column("payload", postgresql.JSONB(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("due_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job_id"),
    )
    op.create_index("job_of_table", "job", ["table_id", "kind", "scope"], unique=True)
    op.create_index("job_waiting", "job", ["kind", "due_at"], postgresql_where=sa.text("state IN ('due', 'leased')"))
    # A column without a default is added without touching the rows there are.
    op.add_column("table_head", sa.Column("first_open_snapshot", sa.BigInteger(), nullable=True))
    op.create_index(
        "snapshot_open", "snapshot", ["table_id", "snapshot_id"], postgresql_where=sa.text("changelog = 'open'")
    )
    op.create_index(
        "attempt_of_job",
        "attempt",
        ["writer"],
        postgresql_where=sa.text("state = 'open' AND writer LIKE 'job/%'"),
    )
