"""Expiry: where changes begin, pins of readers, how far was cleared away, and files that are to be deleted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

NAME = sa.Text(collation="C")


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    # A column without a default is added without touching the rows there are.
    op.add_column("table_head", sa.Column("earliest_change_id", sa.BigInteger(), nullable=True))
    op.create_table(
        "snapshot_pin",
        sa.Column("table_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("holder", NAME, primary_key=True),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=False),
        sa.Column("deadline_ms", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "expiry",
        sa.Column("table_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("cleared_until", sa.BigInteger(), nullable=False),
        sa.Column("kept", ARRAY(sa.BigInteger()), nullable=False),
    )
    op.create_table(
        "doomed_file",
        sa.Column("table_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("path", NAME, primary_key=True),
        sa.Column("doomed_at_ms", sa.BigInteger(), nullable=False),
    )
    # Some seconds for a million files, once: hashes are small, and nothing is sorted.
    op.create_index("data_file_path", "data_file", ["path"], postgresql_using="hash")
    op.create_index(
        "data_file_superseded",
        "data_file",
        ["superseded_path"],
        postgresql_using="hash",
        postgresql_where=sa.text("superseded_path <> ''"),
    )
