"""The table of logs' topics; see `tables`."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, Table, Text, text
from sqlalchemy.dialects.postgresql import JSONB

from .tables import HEX_UUID, NAME, metadata

# By the table's uuid, not by its number: a topic may outlive all other records of its table, until it is deleted.
log_topic = Table(
    "log_topic",
    metadata,
    Column("table_uuid", HEX_UUID, primary_key=True),
    Column("generation", Integer, primary_key=True, autoincrement=False),
    Column("topic", NAME, nullable=False),
    Column("topic_id", NAME, nullable=False),
    Column("starts_after", BigInteger, nullable=False),
    Column("named", Boolean, nullable=False),
    Column("state", NAME, nullable=False),
    Column("options", JSONB, nullable=False),
    Column("problem", Text, nullable=False),
    Column("changed_at_ms", BigInteger, nullable=False),
    # A step looks for topics with work every few seconds: nearly always there are none.
    Index("log_topic_unsettled", "state", postgresql_where=text("state <> 'live'")),
    Index("log_topic_id", "topic_id"),
)
