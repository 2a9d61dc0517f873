"""What is remembered of the small files of append tables, and how many jobs of a table are being done."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    op.create_table(
        "small_files",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("partition_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("bucket", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("rule", sa.Text(collation="C"), nullable=False),
        sa.Column("file_count", sa.Integer(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("first_snapshot", sa.BigInteger(), nullable=False),
        sa.Column("after_snapshot", sa.BigInteger(), nullable=False),
        sa.Column("after_ordinal", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "partition_id", "bucket"),
    )
    # Jobs that are being done are few, so that this is made at once.
    op.create_index("job_leased", "job", ["table_id"], postgresql_where=sa.text("state = 'leased'"))
