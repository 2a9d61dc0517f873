"""The table of grants; see `tables`."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, SmallInteger, Table

from .tables import NAME, metadata

# What a caller may do with a database (its name, and the table 0) or with a table (no name, and its number).
access_grant = Table(
    "access_grant",
    metadata,
    Column("principal", NAME, primary_key=True),
    Column("table_id", BigInteger, primary_key=True, autoincrement=False),
    Column("database", NAME, primary_key=True),
    Column("level", SmallInteger, nullable=False),
    # Empty: the metastore identified no callers.
    Column("granted_by", NAME, nullable=False),
    Column("granted_at_ms", BigInteger, nullable=False),
    Index("access_grant_scope", "table_id", "database", "principal", unique=True),
)
