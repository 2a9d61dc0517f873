"""The tables of full compactions and of changelog baselines; see `tables`."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, Table, text

from .tables import metadata

# The files whose rows full compactions have emitted, live or not: those in a table's baseline at some snapshot are the
# state to which its changelog has led by then. While a snapshot below `baseline_until` is retained, so is the file.
baseline_file = Table(
    "baseline_file",
    metadata,
    Column("table_id", BigInteger, primary_key=True, autoincrement=False),
    Column("file_id", BigInteger, primary_key=True, autoincrement=False),
    Column("baseline_from", BigInteger, primary_key=True, autoincrement=False),
    # NULL: it is in the baseline now.
    Column("baseline_until", BigInteger),
    # The file's, so that the files of a bucket are a range of the index.
    Column("partition_id", BigInteger, nullable=False),
    Column("bucket", Integer, nullable=False),
    Index("baseline_file_bucket", "table_id", "partition_id", "bucket"),
    Index("baseline_file_ended", "table_id", "baseline_until", postgresql_where=text("baseline_until IS NOT NULL")),
)

# The commits since the last full compaction that their number made due, for tables with that option.
full_count = Table(
    "full_count",
    metadata,
    Column("table_id", BigInteger, primary_key=True, autoincrement=False),
    Column("resolved_until", BigInteger, nullable=False),
    Column("counted_until", BigInteger, nullable=False),
    Column("commit_count", BigInteger, nullable=False),
    # When the first of them was made; NULL: there is none, or it is not known.
    Column("first_ms", BigInteger),
    # Files that came after the last full compaction have this id or a higher one; NULL: not known.
    Column("first_file_id", BigInteger),
)
