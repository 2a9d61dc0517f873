"""The tables in Postgres.

There are no foreign keys on purpose: everything is written under the lock of its table's head, and checking each file
against its table would cost a quarter of a commit. Texts that are compared use the collation "C": no locale may change
what is equal or the order of an index. All times are milliseconds since the epoch by this database's clock.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    ARRAY,
    TIMESTAMP,
    BigInteger,
    Boolean,
    Column,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, UUID

metadata: Final = MetaData()

NAME: Final = Text(collation="C")
NAMES: Final = ARRAY(Text(collation="C"))
HEX_UUID: Final = UUID(as_uuid=False)

database = Table(
    "database",
    metadata,
    Column("name", NAME, primary_key=True),
    Column("comment", Text, nullable=False),
)

catalog_table = Table(
    "catalog_table",
    metadata,
    Column("table_id", BigInteger, Identity(always=True), primary_key=True),
    Column("table_uuid", HEX_UUID, nullable=False),
    Column("database", NAME, nullable=False),
    Column("name", NAME, nullable=False),
    Column("location", Text, nullable=False),
    Column("options", JSONB, nullable=False),
    Column("comment", Text, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    # A dropped table stays, its head without a uuid, until it is purged.
    Column("dropped_at_ms", BigInteger),
    Column("kept_until_ms", BigInteger),
    # Set: its files are being deleted, and it can no longer be restored.
    Column("purged_at_ms", BigInteger),
    # Whether the database of a dropped table was dropped, too; NULL: it was not.
    Column("database_gone", Boolean),
    Index("catalog_table_uuid", "table_uuid", unique=True),
    Index("catalog_table_name", "database", "name", unique=True, postgresql_where=text("dropped_at_ms IS NULL")),
    Index(
        "catalog_table_dropped",
        "database",
        "name",
        "dropped_at_ms",
        postgresql_where=text("dropped_at_ms IS NOT NULL"),
    ),
)

schema_version = Table(
    "schema_version",
    metadata,
    Column("table_id", BigInteger, primary_key=True, autoincrement=False),
    Column("schema_id", Integer, primary_key=True, autoincrement=False),
    Column("arrow_schema", LargeBinary, nullable=False),
    Column("primary_key", NAMES, nullable=False),
    Column("partition_by", NAMES, nullable=False),
    # NULL: it was made by a metastore that did not store them.
    Column("created_at_ms", BigInteger),
    Column("created_by", NAME),
)

# Narrow and half empty, because each commit updates it: with room on the page and no index on the updated columns, the
# new version stays on the page, and the next reader cleans up the old one.
table_head = Table(
    "table_head",
    metadata,
    Column("table_id", BigInteger, primary_key=True, autoincrement=False),
    # NULL: the table was dropped. So a request by its uuid neither finds nor locks it.
    Column("table_uuid", HEX_UUID),
    Column("name", NAME, nullable=False),
    Column("schema_id", Integer, nullable=False),
    Column("bucket_count", Integer, nullable=False),
    Column("partitioned", Boolean, nullable=False),
    Column("latest_snapshot_id", BigInteger, nullable=False),
    Column("latest_uuid", HEX_UUID),
    Column("earliest_snapshot_id", BigInteger, nullable=False),
    Column("committed_at_ms", BigInteger, nullable=False),
    Column("watermark_ms", BigInteger),
    Column("total_rows", BigInteger, nullable=False),
    Column("total_files", BigInteger, nullable=False),
    Column("total_bytes", BigInteger, nullable=False),
    Column("next_file_id", BigInteger, nullable=False),
    # NULL: no changelog is pending.
    Column("first_pending_snapshot", BigInteger),
    # The first snapshot whose changes are retained; NULL: the earliest snapshot.
    Column("earliest_change_id", BigInteger),
    # Whether the changelog producer is full-compaction; NULL: it is not.
    Column("defers_changelog", Boolean),
    # The newest snapshot in which a bucket was compacted as a whole; NULL: none is known.
    Column("last_full_snapshot", BigInteger),
    # What an APPEND must bring to the external log; NULL: nothing.
    Column("log", NAME),
    Index("table_head_uuid", "table_uuid", unique=True),
    postgresql_with={"fillfactor": 10},
)

snapshot = Table(
    "snapshot",
    metadata,
    Column("table_id", BigInteger, primary_key=True, autoincrement=False),
    Column("snapshot_id", BigInteger, primary_key=True, autoincrement=False),
    Column("snapshot_uuid", HEX_UUID, nullable=False),
    Column("parent_uuid", HEX_UUID),
    Column("kind", NAME, nullable=False),
    Column("schema_id", Integer, nullable=False),
    Column("committed_at_ms", BigInteger, nullable=False),
    Column("watermark_ms", BigInteger),
    Column("total_rows", BigInteger, nullable=False),
    Column("total_files", BigInteger, nullable=False),
    Column("total_bytes", BigInteger, nullable=False),
    Column("added_rows", BigInteger, nullable=False),
    Column("added_files", Integer, nullable=False),
    Column("removed_files", Integer, nullable=False),
    Column("writer", NAME, nullable=False),
    Column("identifier", BigInteger, nullable=False),
    Column("properties", JSONB),
    # NULL: none.
    Column("changelog", NAME),
    # The snapshots of other tables that the same commit made: ids by table uuid. NULL: none.
    Column("co_committed", JSONB),
    # What it brings to the external log; NULL: nothing.
    Column("log", NAME),
    # In a table with an external log: the attempt that made it.
    Column("attempt_id", HEX_UUID),
    # Offsets by partition of records that were sent before the commit; NULL: none were.
    Column("sent_offsets", JSONB),
    # File ids rise with snapshots, so that this makes "added in these snapshots" a range of the files' primary key.
    Column("next_file_id", BigInteger, nullable=False),
    Index("snapshot_time", "table_id", "committed_at_ms", "snapshot_id"),
    # A few entries at most, and none for commits that bring their changelog or have none.
    Index("snapshot_pending", "table_id", "snapshot_id", postgresql_where=text("changelog = 'pending'")),
)

table_partition = Table(
    "table_partition",
    metadata,
    Column("partition_id", BigInteger, Identity(always=True), primary_key=True),
    Column("table_id", BigInteger, nullable=False),
    Column("encoded", LargeBinary, nullable=False),
    Index("table_partition_encoded", "table_id", "encoded", unique=True),
)

data_file = Table(
    "data_file",
    metadata,
    Column("table_id", BigInteger, primary_key=True, autoincrement=False),
    Column("file_id", BigInteger, primary_key=True, autoincrement=False),
    # 0 for a table without partition columns.
    Column("partition_id", BigInteger, nullable=False),
    Column("row_count", BigInteger, nullable=False),
    Column("delete_count", BigInteger, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("added_snapshot", BigInteger, nullable=False),
    Column("order_snapshot", BigInteger, nullable=False),
    Column("order_time_ms", BigInteger, nullable=False),
    Column("removed_snapshot", BigInteger),
    Column("order_ordinal", Integer, nullable=False),
    Column("bucket", Integer, nullable=False),
    Column("schema_id", Integer, nullable=False),
    Column("level", SmallInteger, nullable=False),
    Column("path", NAME, nullable=False),
    Column("min_key", LargeBinary),
    Column("max_key", LargeBinary),
    Column("statistics", LargeBinary),
    Column("deletion_vector_path", NAME),
    Index("data_file_live", "table_id", "partition_id", "bucket", postgresql_where=text("removed_snapshot IS NULL")),
    Index("data_file_removed", "table_id", "removed_snapshot", postgresql_where=text("removed_snapshot IS NOT NULL")),
    # Finds other references to a file whose entry expires. Hashes, because paths are long and have no order.
    Index("data_file_path", "path", postgresql_using="hash"),
    Index(
        "data_file_deletion_vector",
        "deletion_vector_path",
        postgresql_using="hash",
        postgresql_where=text("deletion_vector_path <> ''"),
    ),
    postgresql_with={"fillfactor": 90},
)

# The changes of snapshots; from ordinal 500,000,000 on, what they bring to the external log. Never part of a state, so
# only expiry removes them.
changelog_file = Table(
    "changelog_file",
    metadata,
    Column("table_id", BigInteger, primary_key=True, autoincrement=False),
    Column("snapshot_id", BigInteger, primary_key=True, autoincrement=False),
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
    # 0 for a table without partition columns.
    Column("partition_id", BigInteger, nullable=False),
    Column("row_count", BigInteger, nullable=False),
    Column("delete_count", BigInteger, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("time_ms", BigInteger, nullable=False),
    Column("bucket", Integer, nullable=False),
    Column("schema_id", Integer, nullable=False),
    Column("path", NAME, nullable=False),
    Column("min_key", LargeBinary),
    Column("max_key", LargeBinary),
    Column("statistics", LargeBinary),
    # Finds references to a file in the store.
    Index("changelog_file_path", "path", postgresql_using="hash"),
)

# Never deleted: a repeat is answered with the first result, however late.
commit_result = Table(
    "commit_result",
    metadata,
    Column("table_id", BigInteger, primary_key=True, autoincrement=False),
    Column("writer", NAME, primary_key=True),
    Column("identifier", BigInteger, primary_key=True, autoincrement=False),
    Column("snapshot_id", BigInteger),
    Column("snapshot_uuid", HEX_UUID),
    Column("committed_at_ms", BigInteger, nullable=False),
    Column("attempt_id", HEX_UUID),
    Column("properties", JSONB),
    # Of a compaction: the groups that were dropped, whose files its attempt left over. NULL: none.
    Column("dropped", JSONB),
)

writer = Table(
    "writer",
    metadata,
    Column("writer", NAME, primary_key=True),
    # 0: the name was used and never registered.
    Column("epoch", BigInteger, nullable=False),
    # The principal that used it first; NULL: it belongs to the next one that uses it.
    Column("owner", NAME),
    # When it was last registered or got its owner.
    Column("used_at", TIMESTAMP(timezone=True), nullable=False, server_default=text("now()")),
)

attempt = Table(
    "attempt",
    metadata,
    Column("attempt_id", HEX_UUID, primary_key=True),
    Column("state", NAME, nullable=False),
    Column("table_uuids", ARRAY(HEX_UUID), nullable=False),
    Column("writer", NAME, nullable=False),
    Column("opened_at", TIMESTAMP(timezone=True), nullable=False, server_default=text("now()")),
    # The writer's number of the commit that it is for, and the writer's epoch. NULL: the writer gave none.
    Column("identifier", BigInteger),
    Column("epoch", BigInteger),
    # When its writer last reported that it is alive, if it has sent rows before the commit. NULL: never.
    Column("heard_at", TIMESTAMP(timezone=True)),
    # The principal that opened it; NULL: every principal may use it.
    Column("owner", NAME),
    # For the clean-up of attempts that were never committed; the committed ones, which are most, are not in it.
    Index("attempt_unfinished", "opened_at", postgresql_where=text("state <> 'committed'")),
    # The attempts of jobs, which a new holder of the job aborts.
    Index("attempt_of_job", "writer", postgresql_where=text("state = 'open' AND writer LIKE 'job/%'")),
    # Finds the attempts for one commit, which the commit aborts.
    Index(
        "attempt_of_commit",
        "writer",
        "identifier",
        postgresql_where=text("state = 'open' AND identifier IS NOT NULL"),
    ),
)

lease = Table(
    "lease",
    metadata,
    Column("name", NAME, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    Column("deadline", TIMESTAMP(timezone=True), nullable=False),
    # The principal that took it last; NULL: it is not known.
    Column("owner", NAME),
    # For the count of a principal's leases, when it takes a new one.
    Index("lease_owner", "owner"),
)

pipeline = Table(
    "pipeline",
    metadata,
    Column("name", NAME, primary_key=True),
    Column("table_name", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("last_batch_id", BigInteger),
    Column("position", Text, nullable=False),
    Column("lag", BigInteger),
    Column("total_rows", BigInteger, nullable=False),
    Column("dead_letter_rows", BigInteger, nullable=False),
    Column("last_error", Text, nullable=False),
    Column("reported_at_ms", BigInteger, nullable=False),
    # The owner of its lease at the last report; NULL: it is not known.
    Column("owner", NAME),
    Index("pipeline_owner", "owner"),
)

# One row for each table, kind and scope, however often it becomes due.
job = Table(
    "job",
    metadata,
    Column("job_id", BigInteger, Identity(always=True), primary_key=True),
    Column("table_id", BigInteger, nullable=False),
    Column("kind", NAME, nullable=False),
    Column("scope", NAME, nullable=False),
    Column("state", NAME, nullable=False),
    Column("priority", BigInteger, nullable=False),
    Column("payload", JSONB),
    Column("attempts", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    # While it is leased its deadline, else the time from which on it may be taken.
    Column("due_at", TIMESTAMP(timezone=True), nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("updated_at_ms", BigInteger, nullable=False),
    # What was requested since it was taken.
    Column("requested", JSONB),
    # NULL: it has never ended with success.
    Column("done_epoch", BigInteger),
    # A scope that is too long for an entry of an index; `scope` is a digest of it then.
    Column("long_scope", NAME),
    # The principal that holds it; NULL: none does, or it is not known.
    Column("owner", NAME),
    # When its holder took it; NULL: none holds it, or a metastore of an earlier version leased it.
    Column("leased_at_ms", BigInteger),
    Index("job_of_table", "table_id", "kind", "scope", unique=True),
    # Finds the jobs of a table that are being done: there are never more of them than compactors.
    Index("job_leased", "table_id", postgresql_where=text("state = 'leased'")),
    Index("job_waiting", "kind", "due_at", postgresql_where=text("state IN ('due', 'leased')")),
    # Few rows. The row of each bucket that was ever compacted is in neither of these.
    Index("job_failed", "kind", postgresql_where=text("state = 'failed'")),
)

# The counts of small files of append tables, so that no one lists the files to find out that nothing is due.
small_files = Table(
    "small_files",
    metadata,
    Column("table_id", BigInteger, primary_key=True, autoincrement=False),
    # 0 for a table without partition columns.
    Column("partition_id", BigInteger, primary_key=True, autoincrement=False),
    # 0 for a table without buckets.
    Column("bucket", Integer, primary_key=True, autoincrement=False),
    # The options by which they were counted.
    Column("rule", NAME, nullable=False),
    Column("file_count", Integer, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("first_snapshot", BigInteger, nullable=False),
    # With buckets: the position of the last file that needs no further check.
    Column("after_snapshot", BigInteger, nullable=False),
    Column("after_ordinal", Integer, nullable=False),
)

# How far the work that commits make due has been planned; no row: not at all. Written while the head is locked.
work_cursor = Table(
    "work_cursor",
    metadata,
    Column("table_id", BigInteger, primary_key=True, autoincrement=False),
    Column("planned_until", BigInteger, nullable=False),
    # How often planning was requested without a new snapshot, and how many of these requests were heard.
    Column("requested", BigInteger, nullable=False),
    Column("answered", BigInteger, nullable=False),
)

consumer = Table(
    "consumer",
    metadata,
    Column("table_id", BigInteger, primary_key=True, autoincrement=False),
    Column("consumer_id", NAME, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("snapshot_id", BigInteger),
    Column("snapshot_uuid", HEX_UUID),
    Column("holder", Text, nullable=False),
    Column("used_at_ms", BigInteger, nullable=False),
    # The principal that opened it first; NULL: it belongs to the next one that opens it.
    Column("owner", NAME),
)

packing = Table(
    "packing",
    metadata,
    Column("table_id", BigInteger, primary_key=True, autoincrement=False),
    Column("packed_until", BigInteger, nullable=False),
    # How many files had ever been added and removed by then: the difference to the head is what came since.
    Column("packed_added", BigInteger, nullable=False),
    Column("packed_removed", BigInteger, nullable=False),
)

file_chunk = Table(
    "file_chunk",
    metadata,
    Column("chunk_id", BigInteger, Identity(always=True), primary_key=True),
    Column("table_id", BigInteger, nullable=False),
    Column("order_after", BigInteger, nullable=False),
    Column("order_until", BigInteger, nullable=False),
    Column("part", Integer, nullable=False),
    Column("file_count", Integer, nullable=False),
    Column("max_added", BigInteger, nullable=False),
    Column("first_key", LargeBinary),
    Column("last_key", LargeBinary),
    Column("without_file_ids", ARRAY(BigInteger), nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    # A plan that is being sent may still need a chunk that was packed again; it is deleted some minutes later.
    Column("replaced_at", TIMESTAMP(timezone=True)),
    # Compressed already: Postgres should not try again.
    Column("entries", LargeBinary, nullable=False),
    Column("statistics", LargeBinary, nullable=False),
    Index(
        "file_chunk_current",
        "table_id",
        "order_after",
        "part",
        unique=True,
        postgresql_where=text("replaced_at IS NULL"),
    ),
    Index("file_chunk_replaced", "replaced_at", postgresql_where=text("replaced_at IS NOT NULL")),
)
