"""Data files: where the positions of the rows stand that they supersede."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    # A column without a default is added without touching the rows there are.
    op.add_column("data_file", sa.Column("superseded_path", sa.Text(collation="C"), nullable=True))
    # Packed entries lack the column: they are packed anew from the rows, which are the truth.
    op.execute("UPDATE file_chunk SET replaced_at = now() WHERE replaced_at IS NULL")
    op.execute("UPDATE packing SET packed_until = 0, packed_added = 0, packed_removed = 0")
