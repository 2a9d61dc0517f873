"""What the gate reads and writes in Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from lakelog.format.commit.facts import (
    Attempt,
    AttemptState,
    FileFacts,
    OrderKey,
    RecordedResult,
    RemovedTotals,
    TableHead,
)
from lakelog.format.commit.request import (
    BucketRef,
    DroppedGroup,
    RemoveEverything,
    RemoveFiles,
    RemovePartitions,
)
from lakelog.format.jobs.job import JOB_LEASES
from lakelog.format.tables.snapshot import LogContent, Snapshot

from ...heavy_work import SLICE
from ...store.records import MAX_RIVALS, Attachment, GroupFacts, GroupKeys, GroupRecords, ResultKey
from ..catalog import NOW_MS
from ..connection import arrays
from ..connection.session import Row, Statement
from .group_records import attachment_statements, count_files, file_statements, group_statements, split_records
from .snapshot_rows import SNAPSHOT_COLUMNS, to_snapshot
from .writers import PostgresWriters, job_ids, writer_key

_HEAD_COLUMNS: Final = """
    table_id, replace(table_uuid::text, '-', ''), name, schema_id, bucket_count, partitioned, latest_snapshot_id,
    replace(latest_uuid::text, '-', ''), earliest_snapshot_id, committed_at_ms, watermark_ms, total_rows, total_files,
    total_bytes, next_file_id, coalesce(first_pending_snapshot, 0), coalesce(earliest_change_id, earliest_snapshot_id),
    coalesce(defers_changelog, false), coalesce(last_full_snapshot, 0), coalesce(log, 'none')
"""

_LOCK_HEADS: Final = f"""
SELECT {_HEAD_COLUMNS} FROM table_head WHERE table_uuid = ANY(%s::uuid[]) ORDER BY table_id FOR UPDATE
"""

FIND_HEADS: Final = f"SELECT {_HEAD_COLUMNS} FROM table_head WHERE table_uuid = ANY(%s::uuid[])"

# Locks on names and not on rows, because a writer that never registered has no row yet. They are taken in one order.
_SHARE_WRITERS: Final = "SELECT pg_advisory_xact_lock_shared(key) FROM unnest(%s::bigint[]) AS k(key) ORDER BY key"

# For each key the result, if there is one, the writer's highest identifier at the table, and its epoch.
# SUBTLE: LIMIT 1 keeps each lookup separate, by all columns of its index, here and below. Without it Postgres joins
# the results; planned while there were none, that join read all results of a table for each commit.
_FIND_RESULTS: Final = f"""
SELECT k.place, {NOW_MS}, coalesce(w.epoch, 0), coalesce(w.owner, ''), last.identifier, r.identifier,
    replace(r.attempt_id::text, '-', ''), r.snapshot_id,
    replace(r.snapshot_uuid::text, '-', ''), r.committed_at_ms, r.dropped
FROM unnest(%s::uuid[], %s::text[], %s::bigint[]) WITH ORDINALITY AS k(table_uuid, writer, identifier, place)
JOIN table_head h ON h.table_uuid = k.table_uuid
LEFT JOIN writer w ON w.writer = k.writer COLLATE "C"
LEFT JOIN LATERAL (
    SELECT identifier, attempt_id, snapshot_id, snapshot_uuid, committed_at_ms, dropped FROM commit_result
    WHERE table_id = h.table_id AND writer = k.writer COLLATE "C" AND identifier = k.identifier LIMIT 1
) r ON true
LEFT JOIN LATERAL (
    SELECT identifier FROM commit_result
    WHERE table_id = h.table_id AND writer = k.writer COLLATE "C" ORDER BY identifier DESC LIMIT 1
) last ON true
"""

# It locks the named attempts, and open ones for the same commits. All in one order, so that groups never deadlock.
# SUBTLE: LIMIT keeps the lookup of each commit separate, by the index of open attempts; see _FIND_RESULTS.
_LOCK_ATTEMPTS: Final = f"""
SELECT replace(attempt_id::text, '-', ''), state, replace(table_uuids::text, '-', ''), writer, identifier,
    coalesce(epoch, 0), coalesce(owner, '')
FROM attempt WHERE attempt_id = ANY(ARRAY(
    SELECT unnest(%s::uuid[])
    UNION ALL
    SELECT s.attempt_id FROM unnest(%s::text[], %s::bigint[]) AS k(writer, identifier)
    CROSS JOIN LATERAL (
        SELECT attempt_id FROM attempt
        WHERE writer = k.writer COLLATE "C" AND identifier = k.identifier AND state = 'open' LIMIT {MAX_RIVALS}
    ) s
)) ORDER BY attempt_id FOR UPDATE
"""

_LOCK_LEASES: Final = "SELECT name, epoch FROM lease WHERE name = ANY(%s::text[]) ORDER BY name FOR SHARE"

_LOCK_JOBS: Final = f"""
SELECT '{JOB_LEASES}' || job_id, epoch, state = 'leased', coalesce(owner, '')
FROM job WHERE job_id = ANY(%s::bigint[]) ORDER BY job_id FOR SHARE
"""

_FILE_FACTS: Final = """
    f.order_snapshot, f.order_ordinal, f.order_time_ms, f.file_id, f.path, f.bucket, f.level, f.row_count, f.size_bytes,
    f.min_key, f.max_key, f.schema_id, f.delete_count, f.deletion_vector_path
"""

_FIND_FILES: Final = f"""
SELECT coalesce(p.encoded, ''), f.removed_snapshot, coalesce(s.writer, ''), {_FILE_FACTS}
FROM data_file f
LEFT JOIN table_partition p ON p.partition_id = f.partition_id
LEFT JOIN snapshot s ON s.table_id = f.table_id AND s.snapshot_id = f.removed_snapshot
WHERE f.table_id = %s AND f.file_id = ANY(%s::bigint[])
"""

# SUBTLE: OFFSET 0 keeps the lookup of each bucket separate, by the index of live files; see _FIND_RESULTS.
_FIND_LIVE_FILES: Final = f"""
SELECT b.partition, NULL::bigint, '', {_FILE_FACTS}
FROM unnest(%s::bytea[], %s::int[]) AS b(partition, bucket)
LEFT JOIN table_partition p ON p.table_id = %s AND p.encoded = b.partition
CROSS JOIN LATERAL (
    SELECT * FROM data_file
    WHERE table_id = %s AND partition_id = CASE WHEN b.partition = '' THEN 0 ELSE p.partition_id END
    AND bucket = b.bucket AND removed_snapshot IS NULL OFFSET 0
) f
"""

_LIST_OPEN: Final = f"""
SELECT {SNAPSHOT_COLUMNS} FROM snapshot WHERE table_id = %s AND changelog = 'pending' ORDER BY snapshot_id LIMIT %s
"""

_LIST_PARTITIONS: Final = "SELECT encoded FROM table_partition WHERE table_id = %s ORDER BY encoded"

_MARK_REMOVED: Final = """
WITH gone AS (
    UPDATE data_file SET removed_snapshot = %s WHERE table_id = %s AND {condition}
    RETURNING row_count, size_bytes
)
SELECT count(*), coalesce(sum(row_count), 0)::bigint, coalesce(sum(size_bytes), 0)::bigint FROM gone
"""

# Not in the words of the index of live files, else all of the index would be read for the few files that are named.
_MARK_FILES: Final = _MARK_REMOVED.format(condition="file_id = ANY(%s::bigint[]) AND coalesce(removed_snapshot, 0) = 0")

_MARK_PARTITIONS: Final = _MARK_REMOVED.format(
    condition="""removed_snapshot IS NULL AND partition_id = ANY(ARRAY(
        SELECT partition_id FROM table_partition WHERE table_id = %s AND encoded = ANY(%s::bytea[])
        UNION ALL SELECT 0 WHERE ''::bytea = ANY(%s::bytea[])
    ))"""
)

_MARK_ALL: Final = _MARK_REMOVED.format(condition="removed_snapshot IS NULL")

# The tables of an attempt come as the text of an array, since unnest would make one list of all.
_INSERT_ATTEMPTS: Final = """
INSERT INTO attempt (attempt_id, state, table_uuids, writer, identifier, epoch, owner)
SELECT attempt_id, state, tables::uuid[], writer, identifier, epoch, owner
FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::text[])
    AS n(attempt_id, state, tables, writer, identifier, epoch, owner)
"""

_SET_ATTEMPT_TABLES: Final = "UPDATE attempt SET table_uuids = %s::uuid[] WHERE attempt_id = %s"
_SET_ATTEMPT: Final = "UPDATE attempt SET state = %s WHERE attempt_id = %s"


class PostgresCommits(PostgresWriters):
    """See `metastore.store.transaction.CommitTransaction`."""

    # Statements as attributes, so that a test can remove a protection and see its absence.
    lock_heads_sql = _LOCK_HEADS
    share_writers_sql = _SHARE_WRITERS
    lock_attempts_sql = _LOCK_ATTEMPTS

    async def lock_heads(self, table_uuids: Sequence[str]) -> dict[str, TableHead]:
        return heads(await self._session.write(self.lock_heads_sql, (arrays.words(table_uuids),)))

    async def lock_group(self, keys: GroupKeys) -> GroupFacts:
        results = keys.results
        statements = [
            Statement(self.lock_heads_sql, (arrays.words(keys.table_uuids),)),
            Statement(self.share_writers_sql, (arrays.integers(map(writer_key, keys.writers)),)),
            Statement(
                _FIND_RESULTS,
                (
                    arrays.words([key.table_uuid for key in results]),
                    arrays.texts([key.writer for key in results]),
                    arrays.integers([key.identifier for key in results]),
                ),
            ),
        ]
        if keys.leases:
            # Before the attempts: a new holder of a job aborts the job's attempts while it holds the job.
            statements.append(Statement(_LOCK_LEASES, (arrays.texts(keys.leases),)))
            statements.append(Statement(_LOCK_JOBS, (arrays.integers(job_ids(keys.leases)),)))
        commits = list(dict.fromkeys((key.writer, key.identifier) for key in results))
        statements.append(Statement(self.lock_attempts_sql, _attempt_keys(keys.attempts, commits)))
        head_rows, _, *rest = await self._session.write_all(statements)
        result_rows = rest.pop(0)
        leases: dict[str, int] = dict(rest.pop(0)) if keys.leases else {}
        job_rows = rest.pop(0) if keys.leases else []
        attempt_rows = rest.pop(0)
        found: dict[ResultKey, RecordedResult] = {}
        last: dict[tuple[str, str], int] = {}
        epochs: dict[str, int] = {}
        owners: dict[str, str] = {}
        now_ms = 0
        for place, now_ms, epoch, owner, last_identifier, identifier, *result in result_rows:  # noqa: B007
            key = results[place - 1]
            epochs[key.writer] = epoch
            if owner:
                owners[key.writer] = owner
            if last_identifier is not None:
                last[key.table_uuid, key.writer] = last_identifier
            if identifier is not None:
                found[key] = _result(result)
        attempts = {row[0]: _attempt(row) for row in attempt_rows}
        for name, epoch, is_held, owner in job_rows:
            leases[name] = epoch
            if is_held:
                owners[name] = owner
        return GroupFacts(now_ms, heads(head_rows), found, last, epochs, attempts, leases, owners)

    async def find_files(self, table_id: int, file_ids: Sequence[int]) -> list[FileFacts]:
        wanted = await self._session.work.commits.run(len(file_ids), arrays.integers, file_ids)
        rows = await self._session.write(_FIND_FILES, (table_id, wanted))
        return await self._session.work.commits.run(len(rows), _files_facts, rows)

    async def find_live_files(self, table_id: int, buckets: Sequence[BucketRef]) -> list[FileFacts]:
        wanted = await self._session.work.commits.run(
            len(buckets), arrays.places, [(ref.partition, ref.bucket) for ref in buckets]
        )
        rows = await self._session.write(_FIND_LIVE_FILES, (*wanted, table_id, table_id))
        return await self._session.work.commits.run(len(rows), _files_facts, rows)

    async def list_partitions(self, table_id: int) -> list[bytes]:
        return [row[0] for row in await self._session.read(_LIST_PARTITIONS, (table_id,))]

    async def mark_removed(
        self, table_id: int, snapshot_id: int, removal: RemoveFiles | RemoveEverything | RemovePartitions
    ) -> RemovedTotals:
        match removal:
            case RemoveFiles(file_ids):
                wanted = await self._session.work.commits.run(len(file_ids), arrays.integers, file_ids)
                rows = await self._session.write(_MARK_FILES, (snapshot_id, table_id, wanted))
            case RemovePartitions(partitions):
                wanted = await self._session.work.commits.run(len(partitions), arrays.blobs, partitions)
                parameters = (snapshot_id, table_id, table_id, wanted, wanted)
                rows = await self._session.write(_MARK_PARTITIONS, parameters)
            case RemoveEverything():
                rows = await self._session.write(_MARK_ALL, (snapshot_id, table_id))
        return RemovedTotals(*rows[0])

    async def record_group(self, records: GroupRecords) -> None:
        """Writes the results of a group of commits, in the round trip of COMMIT; many files slice by slice before."""
        many, rest = split_records(records)
        for part in many:
            statements = await self._session.work.commits.run(count_files(part), file_statements, part)
            await self._session.write_all(statements)
        statements = await self._session.work.commits.run(count_files(rest), group_statements, rest)
        await self.take_names(records.claims)
        self._session.put_off(statements)

    async def list_open_snapshots(self, table_id: int, limit: int) -> list[Snapshot]:
        return [to_snapshot(row) for row in await self._session.write(_LIST_OPEN, (str(table_id), str(limit)))]

    async def attach_changelogs(self, attachment: Attachment) -> None:
        """Records changelogs, in the round trip of COMMIT; many files slice by slice before."""
        table_id = attachment.head.table_id
        records = GroupRecords(changelog_files=[(table_id, file) for file in attachment.files])
        many, rest = split_records(records)
        for part in (*many, rest):
            statements = await self._session.work.commits.run(count_files(part), file_statements, part)
            if part is not rest:
                await self._session.write_all(statements)
        self._session.put_off([*statements, *attachment_statements(attachment)])

    async def insert_attempts(self, attempts: Sequence[Attempt]) -> None:
        parameters = (
            arrays.words([attempt.attempt_id for attempt in attempts]),
            arrays.words([attempt.state.value for attempt in attempts]),
            arrays.texts([arrays.words(attempt.table_uuids) for attempt in attempts]),
            arrays.texts([attempt.writer for attempt in attempts]),
            arrays.integers([attempt.identifier for attempt in attempts]),
            arrays.integers([None if attempt.identifier is None else attempt.epoch for attempt in attempts]),
            arrays.texts([attempt.owner or None for attempt in attempts]),
        )
        self._session.put_off([Statement(_INSERT_ATTEMPTS, parameters)])

    async def lock_attempt(self, attempt_id: str) -> Attempt | None:
        rows = await self._session.write(self.lock_attempts_sql, _attempt_keys([attempt_id], []))
        return _attempt(rows[0]) if rows else None

    async def set_attempt(self, attempt_id: str, state: AttemptState) -> None:
        await self._session.write(_SET_ATTEMPT, (state.value, attempt_id))

    async def set_attempt_tables(self, attempt_id: str, table_uuids: Sequence[str]) -> None:
        await self._session.write(_SET_ATTEMPT_TABLES, (arrays.words(table_uuids), attempt_id))


_LOG_CONTENTS: Final = {content.value: content for content in LogContent}


def heads(rows: Sequence[Row]) -> dict[str, TableHead]:
    """Heads by table uuid."""
    found = []
    for row in rows:
        values: list[Any] = list(row)
        values[7] = values[7] or ""
        values[-1] = _LOG_CONTENTS[values[-1]]
        found.append(TableHead(*values))
    return {head.table_uuid: head for head in found}


def _result(row: Sequence[Any]) -> RecordedResult:
    attempt_id, snapshot_id, snapshot_uuid, committed_at_ms, dropped = row
    groups = tuple([DroppedGroup(**each) for each in dropped or ()])
    return RecordedResult(attempt_id or "", snapshot_id, snapshot_uuid or "", committed_at_ms, groups)


def _files_facts(rows: list[Row]) -> list[FileFacts]:
    """The facts of rows. The rows are used up, because freeing all of them at once would take long."""
    found: list[FileFacts] = []
    while rows:
        found += [_file_facts(row) for row in rows[:SLICE]]
        del rows[:SLICE]
    return found


def _file_facts(row: Row) -> FileFacts:
    partition, removed, removed_by, snapshot, ordinal, time_ms, file_id, path, bucket, level, *rest = row
    row_count, size_bytes, min_key, max_key, schema_id, delete_count, deletion_vector_path = rest
    return FileFacts(
        file_id,
        path,
        partition,
        bucket,
        OrderKey(snapshot, ordinal, time_ms),
        level,
        row_count,
        size_bytes,
        min_key,
        max_key,
        schema_id,
        removed,
        removed_by,
        delete_count,
        deletion_vector_path,
    )


def _attempt(row: Row) -> Attempt:
    attempt_id, state, table_uuids, *purpose = row
    return Attempt(attempt_id, AttemptState(state), tuple(table_uuids.strip("{}").split(",")), *purpose)


def _attempt_keys(attempt_ids: Sequence[str], commits: Sequence[tuple[str, int]]) -> tuple[str, str, str]:
    """Attempts by their ids, and by the commits that they are for, as parameters."""
    return (
        arrays.words(attempt_ids),
        arrays.texts([writer for writer, _ in commits]),
        arrays.integers([identifier for _, identifier in commits]),
    )
