"""The table of what became of jobs each time they were done; see `tables`."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Identity, Index, Table, Text, text

from .tables import NAME, metadata

# Written when a job ends, in the same statement. `metastore/retention/old_runs.py` bounds the rows of each table.
job_run = Table(
    "job_run",
    metadata,
    Column("run_id", BigInteger, Identity(always=True), primary_key=True),
    Column("table_id", BigInteger, nullable=False),
    Column("job_id", BigInteger, nullable=False),
    Column("kind", NAME, nullable=False),
    Column("scope", NAME, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    # NULL: a metastore of an earlier version leased it.
    Column("started_at_ms", BigInteger),
    Column("ended_at_ms", BigInteger, nullable=False),
    Column("result", NAME, nullable=False),
    # What was done, or why it failed.
    Column("message", Text, nullable=False),
    Index("job_run_of_table", "table_id"),
    Index("job_run_bad", "run_id", postgresql_where=text("result IN ('failed', 'lost')")),
)
