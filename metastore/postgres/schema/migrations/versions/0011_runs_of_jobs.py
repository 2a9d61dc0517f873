"""Stores what became of a job each time it was done, and since when it is being done."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None
served_from = "0007"


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    op.add_column("job", sa.Column("leased_at_ms", sa.BigInteger, nullable=True))
    name = sa.Text(collation="C")
    op.create_table(
        "job_run",
        sa.Column("run_id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column("table_id", sa.BigInteger, nullable=False),
        sa.Column("job_id", sa.BigInteger, nullable=False),
        sa.Column("kind", name, nullable=False),
        sa.Column("scope", name, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("started_at_ms", sa.BigInteger, nullable=True),
        sa.Column("ended_at_ms", sa.BigInteger, nullable=False),
        sa.Column("result", name, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
    )
    op.create_index("job_run_of_table", "job_run", ["table_id"])
    op.create_index("job_run_bad", "job_run", ["run_id"], postgresql_where=sa.text("result IN ('failed', 'lost')"))
