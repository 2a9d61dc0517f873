"""The tables that say what is retained of a table, for whom, and what is to be deleted; see `tables`."""

from __future__ import annotations

from sqlalchemy import ARRAY, BigInteger, Column, Table

from .tables import NAME, metadata

# A snapshot that has a tag, and the files that are live at it, outlive expiry.
tag = Table(
    "tag",
    metadata,
    Column("table_id", BigInteger, primary_key=True, autoincrement=False),
    Column("name", NAME, primary_key=True),
    Column("snapshot_id", BigInteger, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
)

# Snapshots that readers need for a while.
snapshot_lease = Table(
    "snapshot_lease",
    metadata,
    Column("table_id", BigInteger, primary_key=True, autoincrement=False),
    Column("holder", NAME, primary_key=True),
    Column("snapshot_id", BigInteger, nullable=False),
    Column("deadline_ms", BigInteger, nullable=False),
    # The principal that opened it; NULL: every principal may use it.
    Column("owner", NAME),
)

expiry = Table(
    "expiry",
    metadata,
    Column("table_id", BigInteger, primary_key=True, autoincrement=False),
    # Of the files removed up to this snapshot only those are left that a named snapshot retains.
    Column("cleared_until", BigInteger, nullable=False),
    # The expired snapshots that tags or leases retained then.
    Column("kept", ARRAY(BigInteger), nullable=False),
)

# Files that nothing refers to any more, until they are deleted.
expired_file = Table(
    "expired_file",
    metadata,
    Column("table_id", BigInteger, primary_key=True, autoincrement=False),
    Column("path", NAME, primary_key=True),
    Column("expired_at_ms", BigInteger, nullable=False),
)
