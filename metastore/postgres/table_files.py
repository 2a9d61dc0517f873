"""Files below tables' locations in Postgres, and attempts by age. Only its clock measures ages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from lakelog.format.commit.facts import AttemptState
from lakelog.format.jobs.due_job import FAILED_REST_MS
from lakelog.format.jobs.job import CLEAN
from lakelog.format.retention.partition_expiry import PartitionFiles
from lakelog.format.retention.table_files import AttemptAge, FileUse, UsedFile, UsedPage

from ..store.table_files import TableFilesTransaction
from .catalog import NOW_MS
from .connection import arrays
from .connection.session import InSession, Row

# SUBTLE: each path is looked up separately, by an index of paths: LIMIT 1 and the `+ 0` keep the planner from reading
# all files of the table instead. Several tables may have files of one attempt, and so of one path.
_FIND_USED: Final = """
SELECT g.path, d.size_bytes, c.size_bytes, s.there, q.there FROM unnest(%s::text[]) AS g(path)
LEFT JOIN LATERAL (
    SELECT d.size_bytes FROM data_file d WHERE d.path = g.path COLLATE "C" AND d.table_id + 0 = %s LIMIT 1
) d ON true
LEFT JOIN LATERAL (
    SELECT c.size_bytes FROM changelog_file c WHERE c.path = g.path COLLATE "C" AND c.table_id + 0 = %s LIMIT 1
) c ON true
LEFT JOIN LATERAL (
    SELECT 1 AS there FROM data_file d
    WHERE d.deletion_vector_path = g.path COLLATE "C" AND d.deletion_vector_path <> '' AND d.table_id + 0 = %s LIMIT 1
) s ON true
LEFT JOIN LATERAL (
    SELECT 1 AS there FROM expired_file q WHERE q.table_id = %s AND q.path = g.path COLLATE "C" LIMIT 1
) q ON true
WHERE d.size_bytes IS NOT NULL OR c.size_bytes IS NOT NULL OR s.there IS NOT NULL OR q.there IS NOT NULL
"""

_LIST_DATA: Final = """
SELECT file_id, path, size_bytes, deletion_vector_path, added_snapshot, removed_snapshot - 1 FROM data_file
WHERE table_id = %s AND file_id > %s ORDER BY file_id LIMIT %s
"""

_LIST_CHANGELOG: Final = """
SELECT snapshot_id, ordinal, path, size_bytes FROM changelog_file
WHERE table_id = %s AND (snapshot_id, ordinal) > (%s::bigint, %s::int) ORDER BY snapshot_id, ordinal LIMIT %s
"""

# A compaction's files have the order key, and so the time, of their inputs. The index of encodings finds the
# partitions,
# and the index of live files the live files of each.
_LIST_PARTITIONS: Final = """
SELECT p.encoded, f.files, f.rows, f.bytes, f.updated_at_ms FROM table_partition p
CROSS JOIN LATERAL (
    SELECT count(*) AS files, sum(row_count)::bigint AS rows, sum(size_bytes)::bigint AS bytes,
        max(order_time_ms) AS updated_at_ms
    FROM data_file WHERE table_id = p.table_id AND partition_id = p.partition_id AND removed_snapshot IS NULL
) f
WHERE p.table_id = %s AND p.encoded > %s::bytea AND f.files > 0
ORDER BY p.encoded LIMIT %s
"""

_ATTEMPT: Final = """
replace(attempt_id::text, '-', ''), state, (extract(epoch FROM clock_timestamp() - opened_at) * 1000)::bigint
"""

_FIND_ATTEMPTS: Final = f"""
SELECT {_ATTEMPT} FROM attempt WHERE attempt_id = ANY(%s::uuid[]) AND %s::uuid = ANY(table_uuids)
"""

# Not by the running clock, which no search of an index can use.
_OPENED_BEFORE: Final = "opened_at <= statement_timestamp() - %s::bigint * interval '1 millisecond'"

# Uses the lower one of two ages, of open and of aborted attempts. The index of attempts that were never committed is
# in the order of opening; it is small, because attempts are forgotten once they are cleared.
_UNFINISHED: Final = f"""
state <> 'committed' AND {_OPENED_BEFORE}
    AND CASE state WHEN 'open' THEN {_OPENED_BEFORE} ELSE {_OPENED_BEFORE} END
"""

_LIST_UNFINISHED: Final = f"""
SELECT {_ATTEMPT} FROM attempt WHERE {_UNFINISHED} AND %s::uuid = ANY(table_uuids) ORDER BY opened_at LIMIT %s
"""

_LIST_UNCLEANED: Final = f"""
SELECT replace(h.table_uuid::text, '-', '')
FROM (SELECT DISTINCT unnest(table_uuids) AS table_uuid FROM attempt WHERE {_UNFINISHED}) a
JOIN table_head h USING (table_uuid)
WHERE NOT EXISTS (
    SELECT FROM job j WHERE j.table_id = h.table_id AND j.kind = '{CLEAN}' AND (
        j.state IN ('due', 'leased') OR (j.state = 'failed' AND j.updated_at_ms > {NOW_MS} - {FAILED_REST_MS})))
LIMIT %s
"""

# Whether an attempt belongs to a principal or to none, or is so old that its owner is certainly gone.
_MAY_END: Final = f"(owner IS NULL OR owner = %s OR {_OPENED_BEFORE})"

# In one order, so that transactions that abort several never deadlock.
_ABORT: Final = f"""
UPDATE attempt SET state = 'aborted' WHERE attempt_id IN (
    SELECT attempt_id FROM attempt
    WHERE attempt_id = ANY(%s::uuid[]) AND %s::uuid = ANY(table_uuids) AND state = 'open' AND {_OPENED_BEFORE}
        AND {_MAY_END}
    ORDER BY attempt_id FOR UPDATE)
"""

_TAKE_OFF: Final = f"""
UPDATE attempt SET table_uuids = array_remove(table_uuids, %s::uuid)
WHERE attempt_id = ANY(%s::uuid[]) AND state = 'aborted' AND %s::uuid = ANY(table_uuids) AND {_MAY_END} RETURNING 1
"""

_FORGET: Final = "DELETE FROM attempt WHERE attempt_id = ANY(%s::uuid[]) AND state = 'aborted' AND table_uuids = '{}'"


class PostgresTableFiles(InSession, TableFilesTransaction):
    """See `metastore.store.table_files.TableFilesTransaction`."""

    # An attribute, so that a test can remove the protection and see its absence.
    abort_attempts_sql = _ABORT

    async def find_used_files(self, table_id: int, paths: Sequence[str]) -> list[UsedFile]:
        table = str(table_id)
        rows = await self._session.read(_FIND_USED, (arrays.texts(paths), table, table, table, table))
        return [_used(row) for row in rows]

    async def list_used_files(self, table_id: int, cursor: str, limit: int) -> UsedPage:
        """The next files that the table refers to: data files by id, then changelog files by snapshot."""
        kind, after, ordinal = parse_cursor(cursor)
        if kind is FileUse.DATA:
            rows = await self._session.read(_LIST_DATA, (str(table_id), str(after), limit))
            data = [UsedFile(path, FileUse.DATA, size, first, last) for _, path, size, _, first, last in rows]
            deletion_vectors = [
                UsedFile(path, FileUse.DELETION_VECTORS, None, first, last) for *_, path, first, last in rows if path
            ]
            return UsedPage(
                (*data, *deletion_vectors),
                make_cursor(FileUse.DATA, rows[-1][0]) if len(rows) == limit else _CHANGELOGS,
            )
        rows = await self._session.read(_LIST_CHANGELOG, (str(table_id), str(after), ordinal, limit))
        files = tuple([UsedFile(path, FileUse.CHANGELOG, size, of, of) for of, _, path, size in rows])
        is_last = len(rows) < limit
        return UsedPage(files, "" if is_last else make_cursor(FileUse.CHANGELOG, rows[-1][0], rows[-1][1]))

    async def list_partition_files(self, table_id: int, after: bytes | None, limit: int) -> list[PartitionFiles]:
        rows = await self._session.read(_LIST_PARTITIONS, (str(table_id), after or b"", limit))
        return [PartitionFiles(bytes(row[0]), *row[1:]) for row in rows]

    async def find_attempts(self, table_uuid: str, attempt_ids: Sequence[str]) -> list[AttemptAge]:
        rows = await self._session.read(_FIND_ATTEMPTS, (arrays.words(attempt_ids), table_uuid))
        return [_attempt(row) for row in rows]

    async def list_unfinished_attempts(
        self, table_uuid: str, open_ms: int, aborted_ms: int, limit: int
    ) -> list[AttemptAge]:
        rows = await self._session.read(_LIST_UNFINISHED, (*_ages(open_ms, aborted_ms), table_uuid, limit))
        return [_attempt(row) for row in rows]

    async def list_uncleaned_tables(self, open_ms: int, aborted_ms: int, limit: int) -> list[str]:
        rows = await self._session.read(_LIST_UNCLEANED, (*_ages(open_ms, aborted_ms), limit))
        return [row[0] for row in rows]

    async def abort_old_attempts(
        self, table_uuid: str, attempt_ids: Sequence[str], open_ms: int, others_ms: int, owner: str
    ) -> None:
        parameters = (arrays.words(attempt_ids), table_uuid, str(open_ms), owner, str(others_ms))
        await self._session.write(self.abort_attempts_sql, parameters)

    async def forget_attempts(self, table_uuid: str, attempt_ids: Sequence[str], others_ms: int, owner: str) -> int:
        ids = arrays.words(attempt_ids)
        taken = await self._session.write(_TAKE_OFF, (table_uuid, ids, table_uuid, owner, str(others_ms)))
        await self._session.write(_FORGET, (ids,))
        return len(taken)


_CURSOR: Final = re.compile(r"(data|changelog):([0-9]{1,18}):(-1|[0-9]{1,9})")


def parse_cursor(cursor: str) -> tuple[FileUse, int, int]:
    """Where the next page begins: after which file, or after which file of which snapshot. Pure.

    Raises:
        ValueError: It is not a cursor.
    """
    if not cursor:
        return FileUse.DATA, 0, 0
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise ValueError(cursor)
    return FileUse(found[1]), int(found[2]), int(found[3])


def make_cursor(kind: FileUse, after: int, ordinal: int = 0) -> str:
    """The inverse of `parse_cursor`. Pure."""
    return f"{kind.value}:{after}:{ordinal}"


_CHANGELOGS: Final = make_cursor(FileUse.CHANGELOG, 0, -1)


def _ages(open_ms: int, aborted_ms: int) -> tuple[str, str, str]:
    return str(min(open_ms, aborted_ms)), str(open_ms), str(aborted_ms)


def _used(row: Row) -> UsedFile:
    path, data_bytes, changelog_bytes, is_deletion_vector, _ = row
    if data_bytes is not None:
        return UsedFile(path, FileUse.DATA, data_bytes)
    if changelog_bytes is not None:
        return UsedFile(path, FileUse.CHANGELOG, changelog_bytes)
    return UsedFile(path, FileUse.EXPIRED if is_deletion_vector is None else FileUse.DELETION_VECTORS, None)


def _attempt(row: Row) -> AttemptAge:
    attempt_id, state, age_ms = row
    return AttemptAge(attempt_id, AttemptState(state), age_ms)
