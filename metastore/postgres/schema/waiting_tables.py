"""The table of what waits in the whole metastore; see `tables`."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Integer, Table
from sqlalchemy.dialects.postgresql import JSONB

from .tables import metadata

# One row. The metastore that measures locks it, so that it measures for all.
waiting_work = Table(
    "waiting_work",
    metadata,
    Column("only", Boolean, primary_key=True),
    Column("measured_at_ms", BigInteger, nullable=False),
    Column("took_ms", BigInteger, nullable=False),
    # Which fields the content has.
    Column("form", Integer, nullable=False),
    Column("content", JSONB),
)
