"""The statements that write a group of commits: a handful, however many commits and files there are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Final

from lakelog.format.commit.facts import AttemptState, MovedFile, PlacedChangelogFile, PlacedFile, TableHead
from lakelog.format.commit.request import DroppedGroup
from lakelog.format.jobs.job import DueJob
from lakelog.format.tables.packed_statistics import encode_statistics
from lakelog.format.tables.snapshot import ChangelogState, LogContent, Snapshot

from ...heavy_work import SLICE, slices
from ...store.records import Attachment, GroupRecords, NewResult
from ..catalog import NOW_MS
from ..connection import arrays
from ..connection.session import Statement
from .baseline import baseline_statements

# Three in one statement: the client pays more for each statement than the server pays for these.
_RECORD: Final = """
WITH snapshots AS (
INSERT INTO snapshot (table_id, snapshot_id, snapshot_uuid, parent_uuid, kind, schema_id, committed_at_ms, watermark_ms,
    total_rows, total_files, total_bytes, added_rows, added_files, removed_files, writer, identifier, properties,
    next_file_id, changelog, co_committed, log, attempt_id, sent_offsets)
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::uuid[], %s::uuid[], %s::text[], %s::int[], %s::bigint[],
    %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::int[], %s::int[], %s::text[],
    %s::bigint[], %s::jsonb[], %s::bigint[], %s::text[], %s::jsonb[], %s::text[], %s::uuid[], %s::jsonb[])
), results AS (
INSERT INTO commit_result (table_id, writer, identifier, snapshot_id, snapshot_uuid, committed_at_ms, attempt_id,
    properties, dropped)
SELECT * FROM unnest(%s::bigint[], %s::text[], %s::bigint[], %s::bigint[], %s::uuid[], %s::bigint[], %s::uuid[],
    %s::jsonb[], %s::jsonb[])
)
UPDATE table_head h SET latest_snapshot_id = n.latest_snapshot_id, latest_uuid = n.latest_uuid,
    committed_at_ms = n.committed_at_ms, watermark_ms = n.watermark_ms, total_rows = n.total_rows,
    total_files = n.total_files, total_bytes = n.total_bytes, next_file_id = n.next_file_id,
    first_pending_snapshot = n.first_pending_snapshot, last_full_snapshot = n.last_full_snapshot
FROM unnest(%s::bigint[], %s::bigint[], %s::uuid[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[],
    %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[]) AS n(table_id, latest_snapshot_id, latest_uuid,
    committed_at_ms, watermark_ms, total_rows, total_files, total_bytes, next_file_id, first_pending_snapshot,
    last_full_snapshot)
WHERE h.table_id = n.table_id
"""

_INSERT_PARTITIONS: Final = """
INSERT INTO table_partition (table_id, encoded)
SELECT DISTINCT n.table_id, n.encoded FROM unnest(%s::bigint[], %s::bytea[]) AS n(table_id, encoded)
WHERE NOT EXISTS (SELECT FROM table_partition p WHERE p.table_id = n.table_id AND p.encoded = n.encoded)
ON CONFLICT (table_id, encoded) DO NOTHING
"""

_FILE_COLUMNS: Final = """
    table_id, file_id, row_count, delete_count, size_bytes, added_snapshot, order_snapshot, order_time_ms,
    order_ordinal, bucket, schema_id, level, path, min_key, max_key, statistics, deletion_vector_path
"""

_FILE_ARRAYS: Final = """
    %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[],
    %s::int[], %s::int[], %s::int[], %s::smallint[], %s::text[], %s::bytea[], %s::bytea[], %s::bytea[], %s::text[]
"""

_INSERT_FILES: Final = f"""
INSERT INTO data_file ({_FILE_COLUMNS}, partition_id) SELECT *, 0 FROM unnest({_FILE_ARRAYS})
"""

_INSERT_PARTITIONED_FILES: Final = f"""
INSERT INTO data_file ({_FILE_COLUMNS}, partition_id)
SELECT {_FILE_COLUMNS}, coalesce(p.partition_id, 0)
FROM unnest({_FILE_ARRAYS}, %s::bytea[]) AS n({_FILE_COLUMNS}, encoded)
LEFT JOIN table_partition p USING (table_id, encoded)
"""

# A deletion vector was built for the files of the moment in which it was added. Other files may be in their places
# since; then the rows are looked up again, unless the new entry has a deletion vector.
_INSERT_MOVED: Final = """
INSERT INTO data_file (table_id, file_id, partition_id, row_count, delete_count, size_bytes, added_snapshot,
    order_snapshot, order_time_ms, order_ordinal, bucket, schema_id, level, path, min_key, max_key, statistics,
    deletion_vector_path)
SELECT f.table_id, n.file_id, f.partition_id, f.row_count, coalesce(n.delete_count, f.delete_count), f.size_bytes,
    n.added_snapshot, f.order_snapshot, f.order_time_ms, f.order_ordinal, f.bucket, f.schema_id, n.level, f.path,
    f.min_key, f.max_key, f.statistics, n.deletion_vector_path
FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::int[], %s::text[], %s::bigint[]) AS n(table_id,
    file_id, source_id, added_snapshot, level, deletion_vector_path, delete_count)
JOIN data_file f ON f.table_id = n.table_id AND f.file_id = n.source_id
"""

_INSERT_CHANGELOG: Final = """
INSERT INTO changelog_file (table_id, snapshot_id, ordinal, partition_id, row_count, delete_count, size_bytes, time_ms,
    bucket, schema_id, path, min_key, max_key, statistics)
SELECT table_id, snapshot_id, ordinal, coalesce(p.partition_id, 0), row_count, delete_count, size_bytes, time_ms,
    bucket, schema_id, path, min_key, max_key, statistics
FROM unnest(%s::bigint[], %s::bigint[], %s::int[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::int[],
    %s::int[], %s::text[], %s::bytea[], %s::bytea[], %s::bytea[], %s::bytea[]) AS n(table_id, snapshot_id, ordinal,
    row_count, delete_count, size_bytes, time_ms, bucket, schema_id, path, min_key, max_key, statistics, encoded)
LEFT JOIN table_partition p USING (table_id, encoded)
"""

_SET_ATTEMPTS: Final = """
UPDATE attempt a SET state = n.state FROM unnest(%s::uuid[], %s::text[]) AS n(attempt_id, state)
WHERE a.attempt_id = n.attempt_id
"""


_LONGEST_KEY: Final = 1024

# Of six arrays (`to_due_arrays`). The scope of a bucket names its partition, which may be longer than an entry of an
# index may be (2704 bytes); a digest then stands in its place.
INSERT_DUE: Final = f"""
INSERT INTO job AS j (table_id, kind, scope, long_scope, state, priority, payload, attempts, reason, outcome, epoch,
    holder, due_at, created_at_ms, updated_at_ms)
SELECT n.table_id, n.kind,
    CASE WHEN length(n.scope) > {_LONGEST_KEY} THEN 'sha256:' || encode(sha256(n.scope::bytea), 'hex') ELSE n.scope END,
    CASE WHEN length(n.scope) > {_LONGEST_KEY} THEN n.scope END,
    'due', n.priority, n.payload, 0, '', '', 0, '', clock_timestamp() + n.delay_ms * interval '1 millisecond',
    {NOW_MS}, {NOW_MS}
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::jsonb[], %s::bigint[]) AS n(table_id, kind, scope,
    priority, payload, delay_ms)
"""

# A job that is being done, or is due already, stays as it is; a failed one rests as if it had been tried again.
_MAKE_DUE: Final = f"""
{INSERT_DUE}
ON CONFLICT (table_id, kind, scope) DO UPDATE SET state = 'due', priority = excluded.priority,
    payload = excluded.payload, updated_at_ms = excluded.updated_at_ms,
    due_at = CASE j.state WHEN 'failed' THEN j.due_at ELSE excluded.due_at END
WHERE j.state IN ('done', 'failed')
"""

_ATTACH: Final = """
UPDATE snapshot SET changelog = 'attached' WHERE table_id = %s AND snapshot_id = ANY(%s::bigint[])
"""

_SET_FIRST_PENDING: Final = "UPDATE table_head SET first_pending_snapshot = %s::bigint WHERE table_id = %s"


def attachment_statements(attachment: Attachment) -> list[Statement]:
    """The statements that write changelogs of snapshots that were committed before."""
    table_id, first_pending = attachment.head.table_id, attachment.head.first_pending_snapshot
    return [
        Statement(_ATTACH, (str(table_id), arrays.integers(attachment.snapshot_ids))),
        Statement(_SET_FIRST_PENDING, (str(first_pending) if first_pending else None, str(table_id))),
        Statement(_SET_ATTEMPTS, (arrays.words([attachment.attempt_id]), arrays.words([AttemptState.COMMITTED.value]))),
    ]


def count_files(records: GroupRecords) -> int:
    """How many entries of files a group writes."""
    return len(records.files) + len(records.moved_files) + len(records.changelog_files)


def split_records(records: GroupRecords) -> tuple[list[GroupRecords], GroupRecords]:
    """Splits off the files of a large group: returns slices with files only, and the records without files."""
    if count_files(records) <= SLICE:
        return [], records
    kinds = ("files", "moved_files", "changelog_files")
    parts = [
        GroupRecords(**{kind: rows[start:stop]})
        for kind in kinds
        for rows in [getattr(records, kind)]
        for start, stop in slices(len(rows))
    ]
    return parts, replace(records, files=[], moved_files=[], changelog_files=[])


def file_statements(records: GroupRecords) -> list[Statement]:
    """The statements that write the files of a group; none refers to what another one writes."""
    statements: list[Statement] = []
    if records.files:
        statements += _files(records.files)
    if records.moved_files:
        statements.append(Statement(_INSERT_MOVED, _moved(records.moved_files)))
    if records.changelog_files:
        statements += _changelog_files(records.changelog_files)
    return statements


def group_statements(records: GroupRecords) -> list[Statement]:
    """The statements that write a group: at most ten, and at most four if all commits only add data."""
    statements = [Statement(_RECORD, (*_snapshots(records), *_results(records.results), *_heads(records.heads)))]
    statements += file_statements(records)
    statements += baseline_statements(records.baseline)
    if records.attempts:
        states = [state.value for state in records.attempts.values()]
        statements.append(Statement(_SET_ATTEMPTS, (arrays.words(records.attempts), arrays.words(states))))
    if records.jobs:
        statements.append(Statement(_MAKE_DUE, to_due_arrays(list(records.jobs.values()))))
    return statements


def to_key(scope: str) -> str:
    """The key that finds the job of a scope, as in `INSERT_DUE`."""
    return scope if len(scope) <= _LONGEST_KEY else f"sha256:{hashlib.sha256(scope.encode()).hexdigest()}"


def to_due_arrays(due: Sequence[DueJob]) -> tuple[str, ...]:
    """Jobs as arrays of their tables' ids, kinds, scopes, priorities, payloads and delays."""
    return (
        arrays.integers([job.table_id for job in due]),
        arrays.words([job.kind for job in due]),
        arrays.texts([job.scope for job in due]),
        arrays.integers([job.priority for job in due]),
        arrays.texts([to_json(job.payload) for job in due]),
        arrays.integers([job.delay_ms for job in due]),
    )


def _snapshots(records: GroupRecords) -> tuple[str, ...]:
    rows: Sequence[tuple[int, Snapshot]] = records.snapshots
    # The last snapshot of a table ends where its head ends; each one before ends where the next one's files begin.
    next_file_ids: dict[int, int] = {head.table_id: head.next_file_id for head in records.heads}
    ends = []
    for table_id, snapshot in reversed(rows):
        ends.append(next_file_ids[table_id])
        next_file_ids[table_id] -= snapshot.added_files
    ends.reverse()
    found = [snapshot for _, snapshot in rows]
    return (
        arrays.integers([table_id for table_id, _ in rows]),
        arrays.integers([s.snapshot_id for s in found]),
        arrays.words([s.snapshot_uuid for s in found]),
        arrays.words([s.parent_uuid for s in found]),
        arrays.words([s.kind.value for s in found]),
        arrays.integers([s.schema_id for s in found]),
        arrays.integers([s.committed_at_ms for s in found]),
        arrays.integers([s.watermark_ms for s in found]),
        arrays.integers([s.total_rows for s in found]),
        arrays.integers([s.total_files for s in found]),
        arrays.integers([s.total_bytes for s in found]),
        arrays.integers([s.added_rows for s in found]),
        arrays.integers([s.added_files for s in found]),
        arrays.integers([s.removed_files for s in found]),
        arrays.texts([s.writer for s in found]),
        arrays.integers([s.identifier for s in found]),
        arrays.texts([to_json(s.properties) for s in found]),
        arrays.integers(ends),
        arrays.words(["" if s.changelog is ChangelogState.NONE else s.changelog.value for s in found]),
        arrays.texts([to_json(s.co_committed) for s in found]),
        arrays.words(["" if s.log is LogContent.NONE else s.log.value for s in found]),
        arrays.words([s.attempt_id for s in found]),
        arrays.texts([None if s.sent_offsets is None else json.dumps(dict(s.sent_offsets)) for s in found]),
    )


def _files(rows: Sequence[tuple[int, PlacedFile]]) -> list[Statement]:
    table_ids = arrays.integers([table_id for table_id, _ in rows])
    placed = [file for _, file in rows]
    files = [file.file for file in placed]
    columns = (
        table_ids,
        arrays.integers([p.file_id for p in placed]),
        arrays.integers([f.row_count for f in files]),
        arrays.integers([f.delete_count for f in files]),
        arrays.integers([f.size_bytes for f in files]),
        arrays.integers([p.added_snapshot for p in placed]),
        arrays.integers([p.order_key.snapshot_id for p in placed]),
        arrays.integers([p.order_key.time_ms for p in placed]),
        arrays.integers([p.order_key.ordinal for p in placed]),
        arrays.integers([f.bucket for f in files]),
        arrays.integers([f.schema_id for f in files]),
        arrays.integers([f.level for f in files]),
        arrays.words([f.path for f in files]),
        arrays.blobs([f.min_key for f in files]),
        arrays.blobs([f.max_key for f in files]),
        arrays.blobs([encode_statistics(f.statistics) for f in files]),
        arrays.texts([f.deletion_vector_path for f in files]),
    )
    if not any(f.partition for f in files):
        return [Statement(_INSERT_FILES, columns)]
    partitions = arrays.blobs([f.partition for f in files])
    new = _partitions({(table_id, p.file.partition) for table_id, p in rows if p.file.partition})
    return [new, Statement(_INSERT_PARTITIONED_FILES, (*columns, partitions))]


def _moved(rows: Sequence[tuple[int, MovedFile]]) -> tuple[str, ...]:
    files = [file for _, file in rows]
    return (
        arrays.integers([table_id for table_id, _ in rows]),
        arrays.integers([f.file_id for f in files]),
        arrays.integers([f.source_id for f in files]),
        arrays.integers([f.added_snapshot for f in files]),
        arrays.integers([f.level for f in files]),
        arrays.texts([f.deletion_vector_path for f in files]),
        arrays.integers([f.delete_count for f in files]),
    )


def _partitions(distinct: Collection[tuple[int, bytes]]) -> Statement:
    named = (arrays.integers([t for t, _ in distinct]), arrays.blobs([partition for _, partition in distinct]))
    return Statement(_INSERT_PARTITIONS, named)


def _changelog_files(rows: Sequence[tuple[int, PlacedChangelogFile]]) -> list[Statement]:
    placed = [file for _, file in rows]
    files = [file.file for file in placed]
    columns = (
        arrays.integers([table_id for table_id, _ in rows]),
        arrays.integers([p.snapshot_id for p in placed]),
        arrays.integers([p.ordinal for p in placed]),
        arrays.integers([f.row_count for f in files]),
        arrays.integers([f.delete_count for f in files]),
        arrays.integers([f.size_bytes for f in files]),
        arrays.integers([p.time_ms for p in placed]),
        arrays.integers([f.bucket for f in files]),
        arrays.integers([f.schema_id for f in files]),
        arrays.words([f.path for f in files]),
        arrays.blobs([f.min_key for f in files]),
        arrays.blobs([f.max_key for f in files]),
        arrays.blobs([encode_statistics(f.statistics) for f in files]),
        arrays.blobs([f.partition for f in files]),
    )
    # A changelog may name partitions in which no data file has ever been.
    distinct = {(table_id, p.file.partition) for table_id, p in rows if p.file.partition}
    insert = Statement(_INSERT_CHANGELOG, columns)
    return [_partitions(distinct), insert] if distinct else [insert]


def _results(rows: Sequence[NewResult]) -> tuple[str, ...]:
    return (
        arrays.integers([row.table_id for row in rows]),
        arrays.texts([row.writer for row in rows]),
        arrays.integers([row.identifier for row in rows]),
        arrays.integers([row.result.snapshot_id for row in rows]),
        arrays.words([row.result.snapshot_uuid for row in rows]),
        arrays.integers([row.result.committed_at_ms for row in rows]),
        arrays.words([row.result.attempt_id for row in rows]),
        arrays.texts([to_json(row.properties) for row in rows]),
        arrays.texts([_dropped(row.result.dropped) for row in rows]),
    )


def _dropped(groups: Sequence[DroppedGroup]) -> str | None:
    return json.dumps([asdict(group) for group in groups], ensure_ascii=False) if groups else None


def _heads(heads: Sequence[TableHead]) -> tuple[str, ...]:
    return (
        arrays.integers([head.table_id for head in heads]),
        arrays.integers([head.latest_snapshot_id for head in heads]),
        arrays.words([head.latest_uuid for head in heads]),
        arrays.integers([head.committed_at_ms for head in heads]),
        arrays.integers([head.watermark_ms for head in heads]),
        arrays.integers([head.total_rows for head in heads]),
        arrays.integers([head.total_files for head in heads]),
        arrays.integers([head.total_bytes for head in heads]),
        arrays.integers([head.next_file_id for head in heads]),
        arrays.integers([head.first_pending_snapshot or None for head in heads]),
        arrays.integers([head.last_full_snapshot or None for head in heads]),
    )


def to_json(values: Mapping[str, str] | Mapping[str, int]) -> str | None:
    """Values as JSON; None if there are none."""
    return json.dumps(dict(values), ensure_ascii=False) if values else None
