"""Stores the owner of a pipeline, and indexes leases and pipelines by owner, so that those of a caller can be counted.

Existing pipelines belong to the owner of their lease: they go on reporting, however many there are.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    op.add_column("pipeline", sa.Column("owner", sa.Text(collation="C"), nullable=True))
    op.execute("UPDATE pipeline SET owner = lease.owner FROM lease WHERE lease.name = 'pipeline/' || pipeline.name")
    op.create_index("lease_owner", "lease", ["owner"])
    op.create_index("pipeline_owner", "pipeline", ["owner"])
