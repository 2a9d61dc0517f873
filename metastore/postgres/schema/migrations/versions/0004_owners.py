"""Stores which principal owns an attempt, a writer's name, a lease, a job, a consumer or a snapshot lease.

Existing things have no owner: everyone with the role may act on them, and the next user of a name owns the name.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_OWNED = ("attempt", "writer", "lease", "job", "consumer", "snapshot_lease")


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    for table in _OWNED:
        op.add_column(table, sa.Column("owner", sa.Text(collation="C"), nullable=True))
    # The epoch of a job fences its commits. A caller that registered such a name fenced all holders of the job.
    op.execute("DELETE FROM writer WHERE writer LIKE 'job/%'")
