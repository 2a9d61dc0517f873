"""The table of service processes; see `tables`."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Table, Text

from .tables import HEX_UUID, NAME, NAMES, metadata

# Small: the metastore bounds its rows, and removes those of services that are gone.
service = Table(
    "service",
    metadata,
    Column("instance_id", HEX_UUID, primary_key=True),
    Column("kind", NAME, nullable=False),
    Column("host", NAME, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("version", Text, nullable=False),
    Column("state", NAME, nullable=False),
    Column("work", NAMES, nullable=False),
    Column("metrics", Text, nullable=False),
    Column("ttl_ms", BigInteger, nullable=False),
    Column("started_at_ms", BigInteger, nullable=False),
    Column("reported_at_ms", BigInteger, nullable=False),
)
