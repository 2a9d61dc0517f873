"""How far external logs are published, in Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakelog.format.commit.facts import AttemptState
from lakelog.format.log.state import SnapshotOffsets
from lakelog.format.tables.snapshot import LogContent

from ..store.publishing import AttemptSeen, Published, PublishTransaction
from .catalog import NOW_MS
from .connection import arrays
from .connection.session import InSession, Row
from .jobs.work import IS_OVER

_SET_LOG: Final = "UPDATE table_head SET log = %s WHERE table_id = %s"

_FIND: Final = """
SELECT generation, snapshot_id, coalesce(replace(snapshot_uuid::text, '-', ''), ''), next_index,
    coalesce(replace(next_uuid::text, '-', ''), ''), problem, reported_at_ms, problem_reason
FROM publish_state WHERE table_id = %s
"""

_LOCK: Final = f"{_FIND} FOR UPDATE"

_PUT: Final = f"""
INSERT INTO publish_state (table_id, generation, snapshot_id, snapshot_uuid, next_index, next_uuid, problem,
    problem_reason, reported_at_ms)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, {NOW_MS})
ON CONFLICT (table_id) DO UPDATE SET generation = excluded.generation, snapshot_id = excluded.snapshot_id,
    snapshot_uuid = excluded.snapshot_uuid, next_index = excluded.next_index, next_uuid = excluded.next_uuid,
    problem = excluded.problem, problem_reason = excluded.problem_reason, reported_at_ms = excluded.reported_at_ms
"""

_FIND_UUIDS: Final = """
SELECT snapshot_id, replace(snapshot_uuid::text, '-', '') FROM snapshot
WHERE table_id = %s AND snapshot_id = ANY(%s::bigint[])
"""

# The offsets of a snapshot come as the text of an array, since unnest would make one list of all.
_INSERT_OFFSETS: Final = f"""
INSERT INTO snapshot_log_offset (table_id, generation, snapshot_id, snapshot_uuid, offsets, visible_at_ms)
SELECT %s, %s, n.snapshot_id, n.snapshot_uuid, n.offsets::bigint[], CASE WHEN %s::boolean THEN {NOW_MS} END
FROM unnest(%s::bigint[], %s::uuid[], %s::text[]) AS n(snapshot_id, snapshot_uuid, offsets)
ON CONFLICT (table_id, generation, snapshot_id) DO NOTHING
"""

_PUT_OFFSETS: Final = """
INSERT INTO snapshot_log_offset (table_id, generation, snapshot_id, snapshot_uuid, offsets)
VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (table_id, generation, snapshot_id) DO UPDATE SET snapshot_uuid = excluded.snapshot_uuid,
    offsets = excluded.offsets
"""

_LIST_OFFSETS: Final = """
SELECT snapshot_id, replace(snapshot_uuid::text, '-', ''), offsets, coalesce(visible_at_ms, 0)
FROM snapshot_log_offset
WHERE table_id = %s AND generation = %s AND snapshot_id > %s AND snapshot_id <= %s
"""

_LIST_OLDEST: Final = f"{_LIST_OFFSETS} ORDER BY snapshot_id LIMIT %s"

_FIND_NEWEST: Final = f"{_LIST_OFFSETS} ORDER BY snapshot_id DESC LIMIT 1"

_FIND_HOLDER: Final = f"SELECT holder FROM lease WHERE name = %s AND NOT {IS_OVER}"

# An attempt that was heard of in the future has been silent since before the clock went back: a living writer reports
# again within seconds.
# SUBTLE: LIMIT 1 keeps the lookup of each result separate, by all columns of its index.
_FIND_ATTEMPTS: Final = """
SELECT replace(a.attempt_id::text, '-', ''), a.state, (extract(epoch FROM a.opened_at) * 1000)::bigint,
    abs(extract(epoch FROM clock_timestamp() - coalesce(a.heard_at, a.opened_at)) * 1000)::bigint,
    r.done IS NOT NULL OR coalesce(a.epoch < w.epoch, false)
FROM attempt a
LEFT JOIN table_head h ON h.table_uuid = %s
LEFT JOIN writer w ON w.writer = a.writer
LEFT JOIN LATERAL (
    SELECT 1 AS done FROM commit_result
    WHERE table_id = h.table_id AND writer = a.writer AND identifier = a.identifier AND a.state <> 'committed' LIMIT 1
) r ON true
WHERE a.attempt_id = ANY(%s::uuid[]) AND %s::uuid = ANY(a.table_uuids)
"""

# One that a commit has locked is passed over, however long the commit takes: all others of the writer's process would
# seem dead. It is open as far as one can tell. So nothing is waited for, and the order makes no deadlock.
_RENEW: Final = """
WITH own AS (
    SELECT attempt_id FROM attempt WHERE attempt_id = ANY(%s::uuid[]) AND state = 'open'
        AND (%s::text IS NULL OR owner IS NULL OR owner = %s::text)
), free AS (
    SELECT attempt_id FROM attempt WHERE attempt_id = ANY(ARRAY(SELECT attempt_id FROM own)) AND state = 'open'
    FOR UPDATE SKIP LOCKED
), renewed AS (
    UPDATE attempt SET heard_at = clock_timestamp() WHERE attempt_id = ANY(ARRAY(SELECT attempt_id FROM free))
)
SELECT replace(attempt_id::text, '-', '') FROM own
"""

# A commit has its attempt locked until it ends. SUBTLE: this lock is for no longer than the statement's transaction,
# and hinders neither renewals nor reads.
_FIND_FREE: Final = """
SELECT replace(attempt_id::text, '-', '') FROM attempt WHERE attempt_id = ANY(%s::uuid[]) FOR KEY SHARE SKIP LOCKED
"""


class PostgresPublishing(InSession, PublishTransaction):
    """See `metastore.store.publishing.PublishTransaction`."""

    async def set_log(self, table_id: int, log: LogContent) -> None:
        await self._session.write(_SET_LOG, (None if log is LogContent.NONE else log.value, table_id))

    async def find_published(self, table_id: int) -> Published | None:
        return await self._session.find(_FIND, (str(table_id),), lambda row: Published(*row))

    async def lock_published(self, table_id: int) -> Published | None:
        rows = await self._session.write(_LOCK, (str(table_id),))
        return Published(*rows[0]) if rows else None

    async def put_published(self, table_id: int, published: Published) -> None:
        values = (
            str(table_id),
            str(published.generation),
            str(published.snapshot_id),
            published.snapshot_uuid or None,
            str(published.next_index),
            published.next_uuid or None,
            published.problem,
            published.problem_reason,
        )
        await self._session.write(_PUT, values)

    async def find_snapshot_uuids(self, table_id: int, snapshot_ids: Sequence[int]) -> dict[int, str]:
        return dict(await self._session.read(_FIND_UUIDS, (str(table_id), arrays.integers(snapshot_ids))))

    async def insert_log_offsets(
        self, table_id: int, generation: int, snapshots: Sequence[SnapshotOffsets], *, visible_now: bool
    ) -> None:
        values = (
            str(table_id),
            str(generation),
            str(visible_now),
            arrays.integers([each.snapshot_id for each in snapshots]),
            arrays.words([each.snapshot_uuid for each in snapshots]),
            arrays.texts([arrays.integers(each.offsets) for each in snapshots]),
        )
        await self._session.write(_INSERT_OFFSETS, values)

    async def put_log_offsets(self, table_id: int, generation: int, snapshot: SnapshotOffsets) -> None:
        values = (
            str(table_id),
            str(generation),
            str(snapshot.snapshot_id),
            snapshot.snapshot_uuid,
            arrays.integers(snapshot.offsets),
        )
        await self._session.write(_PUT_OFFSETS, values)

    async def find_log_offsets(self, table_id: int, generation: int, until: int) -> SnapshotOffsets | None:
        return await self._session.find(_FIND_NEWEST, (str(table_id), str(generation), "-1", str(until)), _offsets)

    async def list_log_offsets(
        self, table_id: int, generation: int, after: int, until: int, limit: int
    ) -> list[SnapshotOffsets]:
        values = tuple(map(str, (table_id, generation, after, until, limit)))
        return [_offsets(row) for row in await self._session.read(_LIST_OLDEST, values)]

    async def find_sent_attempts(self, table_uuid: str, attempt_ids: Sequence[str]) -> dict[str, AttemptSeen]:
        rows = await self._session.read(_FIND_ATTEMPTS, (table_uuid, arrays.words(attempt_ids), table_uuid))
        return {attempt_id: AttemptSeen(AttemptState(state), *rest) for attempt_id, state, *rest in rows}

    async def find_busy_attempts(self, attempt_ids: Sequence[str]) -> list[str]:
        """Returns those attempts that a transaction has locked."""
        free = {row[0] for row in await self._session.write(_FIND_FREE, (arrays.words(attempt_ids),))}
        return [each for each in attempt_ids if each not in free]

    async def renew_attempts(self, attempt_ids: Sequence[str], owner: str | None) -> list[str]:
        return [row[0] for row in await self._session.write(_RENEW, (arrays.words(attempt_ids), owner, owner))]

    async def find_lease_holder(self, name: str) -> str:
        row = await self._session.read_one(_FIND_HOLDER, (name,))
        return "" if row is None else row[0]


def _offsets(row: Row) -> SnapshotOffsets:
    return SnapshotOffsets(row[0], row[1], tuple(row[2]), row[3])
