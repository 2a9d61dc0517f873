"""Snapshot leases, expiry and expired files in Postgres. Only its clock sets and judges deadlines.

Everything uses an index: files are found by the snapshot that removed them, changelogs and snapshots by their primary
keys, and other references to a path by hash indexes of paths, because few entries share one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakelog.format.commit.facts import FIRST_LOG_ORDINAL
from lakelog.format.retention.expiry import SnapshotLease, SnapshotLeaseKind

from ..store.retention import Cleared, Clearing, ExpiryState, RetentionTransaction
from .catalog import NOW_MS
from .connection import arrays
from .connection.session import InSession, Row, Statement

_LEASE_COLUMNS: Final = "holder, snapshot_id, deadline_ms"

_LIST_LEASES: Final = f"SELECT {_LEASE_COLUMNS} FROM snapshot_lease WHERE table_id = %s AND deadline_ms > {NOW_MS}"

_CLEAR_LEASES: Final = f"DELETE FROM snapshot_lease WHERE table_id = %s AND deadline_ms <= {NOW_MS}"

_PUT_LEASE: Final = f"""
INSERT INTO snapshot_lease (table_id, holder, snapshot_id, owner, deadline_ms)
VALUES (%s, %s, %s, nullif(%s, ''), {NOW_MS} + %s)
ON CONFLICT (table_id, holder) DO UPDATE SET snapshot_id = excluded.snapshot_id, deadline_ms = excluded.deadline_ms,
    owner = coalesce(snapshot_lease.owner, excluded.owner)
RETURNING deadline_ms, coalesce(owner, ''), (
    SELECT count(*) FROM snapshot_lease o WHERE o.table_id = snapshot_lease.table_id
    AND o.holder <> snapshot_lease.holder AND coalesce(o.owner, '') = coalesce(snapshot_lease.owner, '')
)
"""

_DELETE_LEASE: Final = "DELETE FROM snapshot_lease WHERE table_id = %s AND holder = %s RETURNING coalesce(owner, '')"

# In a table without any of these everything expires in time.
_LIST_NEEDED: Final = """
SELECT replace(h.table_uuid::text, '-', '') FROM table_head h
JOIN catalog_table t ON t.table_id = h.table_id AND t.dropped_at_ms IS NULL
JOIN snapshot s ON s.table_id = h.table_id AND s.snapshot_id = coalesce(h.earliest_change_id, h.earliest_snapshot_id)
WHERE s.snapshot_id < h.latest_snapshot_id AND (
    h.first_pending_snapshot IS NOT NULL
    OR EXISTS (SELECT 1 FROM consumer c WHERE c.table_id = h.table_id)
    OR EXISTS (SELECT 1 FROM snapshot_lease p WHERE p.table_id = h.table_id)
    OR EXISTS (SELECT 1 FROM log_topic l WHERE l.table_uuid = t.table_uuid)
)
ORDER BY s.committed_at_ms LIMIT %s
"""

_LOAD_EXPIRY: Final = "SELECT cleared_until, kept FROM expiry WHERE table_id = %s"

_PUT_EXPIRY: Final = """
INSERT INTO expiry (table_id, cleared_until, kept) VALUES (%s, %s, %s::bigint[])
ON CONFLICT (table_id) DO UPDATE SET cleared_until = excluded.cleared_until, kept = excluded.kept
"""

_SET_EARLIEST: Final = "UPDATE table_head SET earliest_snapshot_id = %s, earliest_change_id = %s WHERE table_id = %s"

# A file is live at a named snapshot if it is live at the last one before it was removed, which bisection finds.
# The same holds for a file of the baseline, which may stay in it for longer: it is deleted once both are over.
_EXPIRED_FILES: Final = """
FROM (
    SELECT d.ctid, d.table_id, d.file_id, d.path, d.size_bytes, d.deletion_vector_path,
        d.added_snapshot, d.removed_snapshot
    FROM data_file d WHERE d.table_id = %s AND d.removed_snapshot > %s AND d.removed_snapshot <= %s
    UNION ALL
    SELECT d.ctid, d.table_id, d.file_id, d.path, d.size_bytes, d.deletion_vector_path,
        d.added_snapshot, d.removed_snapshot
    FROM baseline_file o JOIN data_file d ON d.table_id = o.table_id AND d.file_id = o.file_id
    WHERE o.table_id = %s AND o.baseline_until > %s AND o.baseline_until <= %s AND d.removed_snapshot <= %s
) f
WHERE coalesce((%s::bigint[])[width_bucket(f.removed_snapshot - 1, %s::bigint[])], 0) < f.added_snapshot
AND NOT EXISTS (
    SELECT FROM baseline_file t WHERE t.table_id = f.table_id AND t.file_id = f.file_id AND (
        t.baseline_until IS NULL OR t.baseline_until > %s
        OR coalesce((%s::bigint[])[width_bucket(t.baseline_until - 1, %s::bigint[])], 0) >= t.baseline_from
    )
)
"""

# Counts files that still exist, and files that are gone by now.
_CLEAR_BASELINE: Final = """
DELETE FROM baseline_file WHERE ctid = ANY(ARRAY(
    SELECT t.ctid FROM baseline_file t WHERE t.table_id = %s AND t.baseline_until <= %s
    AND coalesce((%s::bigint[])[width_bucket(t.baseline_until - 1, %s::bigint[])], 0) < t.baseline_from
    AND NOT EXISTS (
        SELECT FROM data_file d WHERE d.table_id = t.table_id AND d.file_id = t.file_id AND d.removed_snapshot <= %s
    ) LIMIT %s
)) RETURNING file_id
"""

# Log segments are deleted with the states of their snapshots.
_EXPIRED_CHANGELOGS: Final = f"""
FROM changelog_file WHERE table_id = %s AND (snapshot_id < %s
    OR (ordinal >= {FIRST_LOG_ORDINAL} AND snapshot_id >= %s AND snapshot_id < %s))
"""

_EXPIRED_SNAPSHOTS: Final = (
    "FROM snapshot WHERE table_id = %s AND snapshot_id < %s AND NOT snapshot_id = ANY(%s::bigint[])"
)

_MEASURE: Final = f"""
SELECT count(*), least(coalesce(sum(size_bytes), 0), 9223372036854775807)::bigint FROM (
    SELECT f.size_bytes {_EXPIRED_FILES} UNION ALL SELECT size_bytes {_EXPIRED_CHANGELOGS}) gone
"""

# SUBTLE: by row locations, which cannot move while the head is locked. A join with the rows that were found would be
# planned as a scan of the whole table while Postgres has no statistics of it.
_CLEAR_FILES: Final = f"""
DELETE FROM data_file WHERE ctid = ANY(ARRAY(SELECT f.ctid {_EXPIRED_FILES} LIMIT %s))
RETURNING path, size_bytes, deletion_vector_path
"""

_CLEAR_CHANGELOGS: Final = f"""
DELETE FROM changelog_file WHERE ctid = ANY(ARRAY(SELECT ctid {_EXPIRED_CHANGELOGS} LIMIT %s))
RETURNING path, size_bytes
"""

_CLEAR_SNAPSHOTS: Final = f"""
DELETE FROM snapshot WHERE ctid = ANY(ARRAY(SELECT ctid {_EXPIRED_SNAPSHOTS} LIMIT %s)) RETURNING snapshot_id
"""

_CLEAR_OFFSETS: Final = """
DELETE FROM snapshot_log_offset WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM snapshot_log_offset WHERE table_id = %s AND snapshot_id < %s LIMIT %s
)) RETURNING snapshot_id
"""

# SUBTLE: each path is looked up separately, by the index of paths: LIMIT 1 and the `+ 0` keep the planner from reading
# all files of the table instead. Several tables may have files of one attempt, and so of one path.
_EXPIRE: Final = f"""
INSERT INTO expired_file (table_id, path, expired_at_ms)
SELECT %s, g.path, {NOW_MS} FROM unnest(%s::text[]) AS g(path)
LEFT JOIN LATERAL (
    SELECT 1 AS there FROM data_file d WHERE d.path = g.path COLLATE "C" AND d.table_id + 0 = %s LIMIT 1
) d ON true
LEFT JOIN LATERAL (
    SELECT 1 AS there FROM data_file d
    WHERE d.deletion_vector_path = g.path COLLATE "C" AND d.deletion_vector_path <> '' AND d.table_id + 0 = %s LIMIT 1
) s ON true
LEFT JOIN LATERAL (
    SELECT 1 AS there FROM changelog_file c WHERE c.path = g.path COLLATE "C" AND c.table_id + 0 = %s LIMIT 1
) c ON true
WHERE d.there IS NULL AND s.there IS NULL AND c.there IS NULL
ON CONFLICT (table_id, path) DO NOTHING
RETURNING path
"""

_LIST_EXPIRED: Final = "SELECT path FROM expired_file WHERE table_id = %s AND path > %s ORDER BY path LIMIT %s"

_EXPIRED_AGE: Final = f"""
SELECT {NOW_MS} - max(expired_at_ms)
FROM (SELECT expired_at_ms FROM expired_file WHERE table_id = %s LIMIT 1000) listed
"""

_FORGET_EXPIRED: Final = "DELETE FROM expired_file WHERE table_id = %s AND path = ANY(%s::text[])"


class PostgresRetention(InSession, RetentionTransaction):
    """See `metastore.store.retention.RetentionTransaction`."""

    # An attribute, so that a test can remove the protection and see its absence.
    expire_sql = _EXPIRE

    async def list_leases(self, table_id: int) -> list[SnapshotLease]:
        return [_to_lease(row) for row in await self._session.read(_LIST_LEASES, (str(table_id),))]

    async def put_lease(
        self, table_id: int, holder: str, snapshot_id: int, duration_ms: int, owner: str
    ) -> tuple[int, str, int]:
        put = Statement(_PUT_LEASE, (str(table_id), holder, str(snapshot_id), owner, duration_ms))
        _, rows = await self._session.write_all([Statement(_CLEAR_LEASES, (str(table_id),)), put])
        return rows[0]

    async def delete_lease(self, table_id: int, holder: str) -> str:
        rows = await self._session.write(_DELETE_LEASE, (str(table_id), holder))
        return rows[0][0] if rows else ""

    async def list_needed_tables(self, limit: int) -> list[str]:
        return [row[0] for row in await self._session.read(_LIST_NEEDED, (str(limit),))]

    async def load_expiry(self, table_id: int) -> ExpiryState:
        row = await self._session.read_one(_LOAD_EXPIRY, (str(table_id),))
        return ExpiryState() if row is None else ExpiryState(row[0], tuple(row[1]))

    async def put_expiry(self, table_id: int, state: ExpiryState) -> None:
        values = (str(table_id), str(state.cleared_until), arrays.integers(state.kept))
        await self._session.write(_PUT_EXPIRY, values)

    async def set_earliest(self, table_id: int, earliest: int, earliest_change: int) -> None:
        await self._session.write(_SET_EARLIEST, (str(earliest), str(earliest_change), str(table_id)))

    async def measure_expired(self, clearing: Clearing) -> Cleared:
        rows = await self._session.read(_MEASURE, (*_of_files(clearing), *_of_changelogs(clearing)))
        return Cleared(*rows[0])

    async def clear_expired(self, clearing: Clearing) -> Cleared:
        table_id, limit = str(clearing.table_id), str(clearing.limit)
        snapshots = (table_id, str(clearing.rows_before), arrays.integers(clearing.named))
        named, until = arrays.integers(clearing.named), str(clearing.until)
        files, baseline, changelogs, gone, offsets = await self._session.write_all(
            [
                Statement(_CLEAR_FILES, (*_of_files(clearing), limit)),
                Statement(_CLEAR_BASELINE, (table_id, until, named, named, until, limit)),
                Statement(_CLEAR_CHANGELOGS, (*_of_changelogs(clearing), limit)),
                Statement(_CLEAR_SNAPSHOTS, (*snapshots, limit)),
                Statement(_CLEAR_OFFSETS, (table_id, str(clearing.rows_before), limit)),
            ]
        )
        sizes: dict[str, int] = {row[2]: 0 for row in files if row[2]}
        sizes.update((row[0], row[1]) for row in (*files, *changelogs))
        expired: list[Row] = []
        if sizes:
            # After the statements that delete, and in their transaction: it sees what they left.
            expired = await self._session.write(self.expire_sql, (table_id, arrays.texts(sizes), *[table_id] * 3))
        is_done = max(len(files), len(baseline), len(changelogs), len(gone), len(offsets)) < clearing.limit
        return Cleared(len(expired), sum(sizes[row[0]] for row in expired), is_done)

    async def list_expired(self, table_id: int, limit: int, after: str = "") -> list[str]:
        return [row[0] for row in await self._session.read(_LIST_EXPIRED, (str(table_id), after, str(limit)))]

    async def find_expired_age(self, table_id: int) -> int | None:
        row = await self._session.read_one(_EXPIRED_AGE, (str(table_id),))
        return None if row is None or row[0] is None else max(row[0], 0)

    async def forget_expired(self, table_id: int, paths: Sequence[str]) -> None:
        await self._session.write(_FORGET_EXPIRED, (str(table_id), arrays.texts(paths)))


def _of_files(clearing: Clearing) -> tuple[str, ...]:
    named = arrays.integers(clearing.named)
    table_id, after, until = str(clearing.table_id), str(clearing.after), str(clearing.until)
    return (table_id, after, until, table_id, after, until, after, named, named, until, named, named)


def _of_changelogs(clearing: Clearing) -> tuple[str, ...]:
    bounds = (clearing.table_id, clearing.changes_before, clearing.after, clearing.until)
    return tuple(map(str, bounds))


def _to_lease(row: Row) -> SnapshotLease:
    return SnapshotLease(SnapshotLeaseKind.READER, *row)
