"""Failed jobs by an index, so that whoever asks how many jobs wait does not go through all that were ever done."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    # Few jobs have failed, so that it is small; a million of jobs is gone through within a second, once.
    op.create_index("job_failed", "job", ["kind"], postgresql_where=sa.text("state = 'failed'"))
