"""The tables that say how far the external logs of tables are published; see `tables`."""

from __future__ import annotations

from sqlalchemy import ARRAY, BigInteger, Column, Integer, Table, Text, text

from .tables import HEX_UUID, metadata

# Narrow, because each transaction of a publisher updates it.
publish_state = Table(
    "publish_state",
    metadata,
    Column("table_id", BigInteger, primary_key=True, autoincrement=False),
    # The log's; the following columns hold for it alone.
    Column("generation", Integer, nullable=False),
    # All snapshots up to it are published. NULL: no uuid if it is the one after which the log begins.
    Column("snapshot_id", BigInteger, nullable=False),
    Column("snapshot_uuid", HEX_UUID),
    # How many rows of the next snapshot are published; 0: none, and no uuid.
    Column("next_index", BigInteger, nullable=False),
    Column("next_uuid", HEX_UUID),
    Column("reported_at_ms", BigInteger, nullable=False),
    # Why publishing stands still; empty: it does not.
    Column("problem", Text, nullable=False),
    # The reason of that error, for programs; empty: none. Metastores of older versions leave it as it is.
    Column("problem_reason", Text, nullable=False, server_default=text("''")),
    postgresql_with={"fillfactor": 50},
)

# Where snapshots end in the log. They are deleted with the snapshots, except the newest.
snapshot_log_offset = Table(
    "snapshot_log_offset",
    metadata,
    Column("table_id", BigInteger, primary_key=True, autoincrement=False),
    Column("generation", Integer, primary_key=True, autoincrement=False),
    Column("snapshot_id", BigInteger, primary_key=True, autoincrement=False),
    Column("snapshot_uuid", HEX_UUID, nullable=False),
    # By partition: the next offset to read.
    Column("offsets", ARRAY(BigInteger), nullable=False),
    # When its publisher reported that it had just become visible; NULL: the publisher found it published, or metastore
    # or publisher were of an older version.
    Column("visible_at_ms", BigInteger),
)
