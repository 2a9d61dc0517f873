"""All tables of the first release: catalog, heads, snapshots, files, changelogs, jobs, logs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only; there is no way back but a restored backup."""
    op.create_table(
        "attempt",
        sa.Column("attempt_id", sa.UUID(as_uuid=False), nullable=False),
        sa.Column("state", sa.Text(collation="C"), nullable=False),
        sa.Column("table_uuids", sa.ARRAY(sa.UUID(as_uuid=False)), nullable=False),
        sa.Column("writer", sa.Text(collation="C"), nullable=False),
        sa.Column("opened_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("attempt_id"),
    )
    op.create_index(
        "attempt_of_job",
        "attempt",
        ["writer"],
        unique=False,
        postgresql_where=sa.text("state = 'open' AND writer LIKE 'job/%'"),
    )
    op.create_index(
        "attempt_unfinished", "attempt", ["opened_at"], unique=False, postgresql_where=sa.text("state <> 'committed'")
    )
    op.create_table(
        "baseline_file",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("file_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("baseline_from", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("baseline_until", sa.BigInteger(), nullable=True),
        sa.Column("partition_id", sa.BigInteger(), nullable=False),
        sa.Column("bucket", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "file_id", "baseline_from"),
    )
    op.create_index("baseline_file_bucket", "baseline_file", ["table_id", "partition_id", "bucket"], unique=False)
    op.create_index(
        "baseline_file_ended",
        "baseline_file",
        ["table_id", "baseline_until"],
        unique=False,
        postgresql_where=sa.text("baseline_until IS NOT NULL"),
    )
    op.create_table(
        "catalog_table",
        sa.Column("table_id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("table_uuid", sa.UUID(as_uuid=False), nullable=False),
        sa.Column("database", sa.Text(collation="C"), nullable=False),
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("options", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("dropped_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("kept_until_ms", sa.BigInteger(), nullable=True),
        sa.Column("purged_at_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("table_id"),
    )
    op.create_index(
        "catalog_table_dropped",
        "catalog_table",
        ["database", "name", "dropped_at_ms"],
        unique=False,
        postgresql_where=sa.text("dropped_at_ms IS NOT NULL"),
    )
    op.create_index(
        "catalog_table_name",
        "catalog_table",
        ["database", "name"],
        unique=True,
        postgresql_where=sa.text("dropped_at_ms IS NULL"),
    )
    op.create_index("catalog_table_uuid", "catalog_table", ["table_uuid"], unique=True)
    op.create_table(
        "changelog_file",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("ordinal", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("partition_id", sa.BigInteger(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.Column("delete_count", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("time_ms", sa.BigInteger(), nullable=False),
        sa.Column("bucket", sa.Integer(), nullable=False),
        sa.Column("schema_id", sa.Integer(), nullable=False),
        sa.Column("path", sa.Text(collation="C"), nullable=False),
        sa.Column("min_key", sa.LargeBinary(), nullable=True),
        sa.Column("max_key", sa.LargeBinary(), nullable=True),
        sa.Column("statistics", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("table_id", "snapshot_id", "ordinal"),
    )
    op.create_index("changelog_file_path", "changelog_file", ["path"], unique=False, postgresql_using="hash")
    op.create_table(
        "commit_result",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("writer", sa.Text(collation="C"), nullable=False),
        sa.Column("identifier", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=True),
        sa.Column("snapshot_uuid", sa.UUID(as_uuid=False), nullable=True),
        sa.Column("committed_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("attempt_id", sa.UUID(as_uuid=False), nullable=True),
        sa.Column("properties", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("dropped", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.PrimaryKeyConstraint("table_id", "writer", "identifier"),
    )
    op.create_table(
        "consumer",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("consumer_id", sa.Text(collation="C"), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=True),
        sa.Column("snapshot_uuid", sa.UUID(as_uuid=False), nullable=True),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("used_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "consumer_id"),
    )
    op.create_table(
        "data_file",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("file_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("partition_id", sa.BigInteger(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.Column("delete_count", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("added_snapshot", sa.BigInteger(), nullable=False),
        sa.Column("order_snapshot", sa.BigInteger(), nullable=False),
        sa.Column("order_time_ms", sa.BigInteger(), nullable=False),
        sa.Column("removed_snapshot", sa.BigInteger(), nullable=True),
        sa.Column("order_ordinal", sa.Integer(), nullable=False),
        sa.Column("bucket", sa.Integer(), nullable=False),
        sa.Column("schema_id", sa.Integer(), nullable=False),
        sa.Column("level", sa.SmallInteger(), nullable=False),
        sa.Column("path", sa.Text(collation="C"), nullable=False),
        sa.Column("min_key", sa.LargeBinary(), nullable=True),
        sa.Column("max_key", sa.LargeBinary(), nullable=True),
        sa.Column("statistics", sa.LargeBinary(), nullable=True),
        sa.Column("deletion_vector_path", sa.Text(collation="C"), nullable=True),
        sa.PrimaryKeyConstraint("table_id", "file_id"),
        postgresql_with={"fillfactor": 90},
    )
    op.create_index(
        "data_file_deletion_vector",
        "data_file",
        ["deletion_vector_path"],
        unique=False,
        postgresql_using="hash",
        postgresql_where=sa.text("deletion_vector_path <> ''"),
    )
    op.create_index(
        "data_file_live",
        "data_file",
        ["table_id", "partition_id", "bucket"],
        unique=False,
        postgresql_where=sa.text("removed_snapshot IS NULL"),
    )
    op.create_index("data_file_path", "data_file", ["path"], unique=False, postgresql_using="hash")
    op.create_index(
        "data_file_removed",
        "data_file",
        ["table_id", "removed_snapshot"],
        unique=False,
        postgresql_where=sa.text("removed_snapshot IS NOT NULL"),
    )
    op.create_table(
        "database",
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "expired_file",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("path", sa.Text(collation="C"), nullable=False),
        sa.Column("expired_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "path"),
    )
    op.create_table(
        "expiry",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("cleared_until", sa.BigInteger(), nullable=False),
        sa.Column("kept", sa.ARRAY(sa.BigInteger()), nullable=False),
        sa.PrimaryKeyConstraint("table_id"),
    )
    op.create_table(
        "file_chunk",
        sa.Column("chunk_id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("table_id", sa.BigInteger(), nullable=False),
        sa.Column("order_after", sa.BigInteger(), nullable=False),
        sa.Column("order_until", sa.BigInteger(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("file_count", sa.Integer(), nullable=False),
        sa.Column("max_added", sa.BigInteger(), nullable=False),
        sa.Column("first_key", sa.LargeBinary(), nullable=True),
        sa.Column("last_key", sa.LargeBinary(), nullable=True),
        sa.Column("without_file_ids", sa.ARRAY(sa.BigInteger()), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("replaced_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("entries", sa.LargeBinary(), nullable=False),
        sa.Column("statistics", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("chunk_id"),
    )
    op.create_index(
        "file_chunk_current",
        "file_chunk",
        ["table_id", "order_after", "part"],
        unique=True,
        postgresql_where=sa.text("replaced_at IS NULL"),
    )
    op.create_index(
        "file_chunk_replaced",
        "file_chunk",
        ["replaced_at"],
        unique=False,
        postgresql_where=sa.text("replaced_at IS NOT NULL"),
    )
    op.create_table(
        "full_count",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("resolved_until", sa.BigInteger(), nullable=False),
        sa.Column("counted_until", sa.BigInteger(), nullable=False),
        sa.Column("commit_count", sa.BigInteger(), nullable=False),
        sa.Column("first_ms", sa.BigInteger(), nullable=True),
        sa.Column("first_file_id", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("table_id"),
    )
    op.create_table(
        "job",
        sa.Column("job_id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("table_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(collation="C"), nullable=False),
        sa.Column("scope", sa.Text(collation="C"), nullable=False),
        sa.Column("state", sa.Text(collation="C"), nullable=False),
        sa.Column("priority", sa.BigInteger(), nullable=False),
        sa.Column("payload", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("due_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("requested", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("done_epoch", sa.BigInteger(), nullable=True),
        sa.Column("long_scope", sa.Text(collation="C"), nullable=True),
        sa.PrimaryKeyConstraint("job_id"),
    )
    op.create_index("job_failed", "job", ["kind"], unique=False, postgresql_where=sa.text("state = 'failed'"))
    op.create_index("job_leased", "job", ["table_id"], unique=False, postgresql_where=sa.text("state = 'leased'"))
    op.create_index("job_of_table", "job", ["table_id", "kind", "scope"], unique=True)
    op.create_index(
        "job_waiting", "job", ["kind", "due_at"], unique=False, postgresql_where=sa.text("state IN ('due', 'leased')")
    )
    op.create_table(
        "lease",
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("deadline", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "log_topic",
        sa.Column("table_uuid", sa.UUID(as_uuid=False), nullable=False),
        sa.Column("generation", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("topic", sa.Text(collation="C"), nullable=False),
        sa.Column("topic_id", sa.Text(collation="C"), nullable=False),
        sa.Column("starts_after", sa.BigInteger(), nullable=False),
        sa.Column("named", sa.Boolean(), nullable=False),
        sa.Column("state", sa.Text(collation="C"), nullable=False),
        sa.Column("options", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("changed_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_uuid", "generation"),
    )
    op.create_index("log_topic_id", "log_topic", ["topic_id"], unique=False)
    op.create_index(
        "log_topic_unsettled", "log_topic", ["state"], unique=False, postgresql_where=sa.text("state <> 'live'")
    )
    op.create_table(
        "packing",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("packed_until", sa.BigInteger(), nullable=False),
        sa.Column("packed_added", sa.BigInteger(), nullable=False),
        sa.Column("packed_removed", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id"),
    )
    op.create_table(
        "pipeline",
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("last_batch_id", sa.BigInteger(), nullable=True),
        sa.Column("position", sa.Text(), nullable=False),
        sa.Column("lag", sa.BigInteger(), nullable=True),
        sa.Column("total_rows", sa.BigInteger(), nullable=False),
        sa.Column("dead_letter_rows", sa.BigInteger(), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=False),
        sa.Column("reported_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "publish_state",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=False),
        sa.Column("snapshot_uuid", sa.UUID(as_uuid=False), nullable=True),
        sa.Column("next_index", sa.BigInteger(), nullable=False),
        sa.Column("next_uuid", sa.UUID(as_uuid=False), nullable=True),
        sa.Column("reported_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("table_id"),
        postgresql_with={"fillfactor": 50},
    )
    op.create_table(
        "schema_version",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("schema_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("arrow_schema", sa.LargeBinary(), nullable=False),
        sa.Column("primary_key", sa.ARRAY(sa.Text(collation="C")), nullable=False),
        sa.Column("partition_by", sa.ARRAY(sa.Text(collation="C")), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "schema_id"),
    )
    op.create_table(
        "small_files",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("partition_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("bucket", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("rule", sa.Text(collation="C"), nullable=False),
        sa.Column("file_count", sa.Integer(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("first_snapshot", sa.BigInteger(), nullable=False),
        sa.Column("after_snapshot", sa.BigInteger(), nullable=False),
        sa.Column("after_ordinal", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "partition_id", "bucket"),
    )
    op.create_table(
        "snapshot",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("snapshot_uuid", sa.UUID(as_uuid=False), nullable=False),
        sa.Column("parent_uuid", sa.UUID(as_uuid=False), nullable=True),
        sa.Column("kind", sa.Text(collation="C"), nullable=False),
        sa.Column("schema_id", sa.Integer(), nullable=False),
        sa.Column("committed_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("watermark_ms", sa.BigInteger(), nullable=True),
        sa.Column("total_rows", sa.BigInteger(), nullable=False),
        sa.Column("total_files", sa.BigInteger(), nullable=False),
        sa.Column("total_bytes", sa.BigInteger(), nullable=False),
        sa.Column("added_rows", sa.BigInteger(), nullable=False),
        sa.Column("added_files", sa.Integer(), nullable=False),
        sa.Column("removed_files", sa.Integer(), nullable=False),
        sa.Column("writer", sa.Text(collation="C"), nullable=False),
        sa.Column("identifier", sa.BigInteger(), nullable=False),
        sa.Column("properties", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("changelog", sa.Text(collation="C"), nullable=True),
        sa.Column("co_committed", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("log", sa.Text(collation="C"), nullable=True),
        sa.Column("attempt_id", sa.UUID(as_uuid=False), nullable=True),
        sa.Column("sent_offsets", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("next_file_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "snapshot_id"),
    )
    op.create_index(
        "snapshot_pending",
        "snapshot",
        ["table_id", "snapshot_id"],
        unique=False,
        postgresql_where=sa.text("changelog = 'pending'"),
    )
    op.create_index("snapshot_time", "snapshot", ["table_id", "committed_at_ms", "snapshot_id"], unique=False)
    op.create_table(
        "snapshot_lease",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("holder", sa.Text(collation="C"), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=False),
        sa.Column("deadline_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "holder"),
    )
    op.create_table(
        "snapshot_log_offset",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("generation", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("snapshot_uuid", sa.UUID(as_uuid=False), nullable=False),
        sa.Column("offsets", sa.ARRAY(sa.BigInteger()), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "generation", "snapshot_id"),
    )
    op.create_table(
        "table_head",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("table_uuid", sa.UUID(as_uuid=False), nullable=True),
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("schema_id", sa.Integer(), nullable=False),
        sa.Column("bucket_count", sa.Integer(), nullable=False),
        sa.Column("partitioned", sa.Boolean(), nullable=False),
        sa.Column("latest_snapshot_id", sa.BigInteger(), nullable=False),
        sa.Column("latest_uuid", sa.UUID(as_uuid=False), nullable=True),
        sa.Column("earliest_snapshot_id", sa.BigInteger(), nullable=False),
        sa.Column("committed_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("watermark_ms", sa.BigInteger(), nullable=True),
        sa.Column("total_rows", sa.BigInteger(), nullable=False),
        sa.Column("total_files", sa.BigInteger(), nullable=False),
        sa.Column("total_bytes", sa.BigInteger(), nullable=False),
        sa.Column("next_file_id", sa.BigInteger(), nullable=False),
        sa.Column("first_pending_snapshot", sa.BigInteger(), nullable=True),
        sa.Column("earliest_change_id", sa.BigInteger(), nullable=True),
        sa.Column("defers_changelog", sa.Boolean(), nullable=True),
        sa.Column("last_full_snapshot", sa.BigInteger(), nullable=True),
        sa.Column("log", sa.Text(collation="C"), nullable=True),
        sa.PrimaryKeyConstraint("table_id"),
        postgresql_with={"fillfactor": 10},
    )
    op.create_index("table_head_uuid", "table_head", ["table_uuid"], unique=True)
    op.create_table(
        "table_partition",
        sa.Column("partition_id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("table_id", sa.BigInteger(), nullable=False),
        sa.Column("encoded", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("partition_id"),
    )
    op.create_index("table_partition_encoded", "table_partition", ["table_id", "encoded"], unique=True)
    op.create_table(
        "tag",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "name"),
    )
    op.create_table(
        "work_cursor",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("planned_until", sa.BigInteger(), nullable=False),
        sa.Column("requested", sa.BigInteger(), nullable=False),
        sa.Column("answered", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id"),
    )
    op.create_table(
        "writer",
        sa.Column("writer", sa.Text(collation="C"), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("writer"),
    )

    # Packed entries are compressed already.
    op.execute("ALTER TABLE file_chunk ALTER COLUMN entries SET STORAGE EXTERNAL")
    op.execute("ALTER TABLE file_chunk ALTER COLUMN statistics SET STORAGE EXTERNAL")
