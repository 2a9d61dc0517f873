"""Jobs of buckets, and jobs that are asked for: what was since they were taken, and when they last went well."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    # Columns without a default are added without touching the rows there are.
    op.add_column("job", sa.Column("requested", JSONB, nullable=True))
    op.add_column("job", sa.Column("done_epoch", sa.BigInteger(), nullable=True))
    # Metastores of the version before, which go on serving, rest on the index of `scope` as it is.
    op.add_column("job", sa.Column("long_scope", sa.Text(collation="C"), nullable=True))
