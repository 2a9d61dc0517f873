"""Stores of each newest revision which metastores can serve the database, so that those of an earlier version can tell.

Without it a metastore refuses to start on a revision that it does not know, also if that revision only added to it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None
served_from = "0007"


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    op.create_table(
        "schema_revision",
        sa.Column("revision", sa.Text(collation="C"), primary_key=True),
        sa.Column("served_from", sa.Text(collation="C"), nullable=False),
    )
