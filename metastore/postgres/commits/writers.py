"""What Postgres stores of writers: their names, owners, epochs and progress."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from lakelog.format.commit.request import WriterProgress
from lakelog.format.commit.writer_names import is_of_job
from lakelog.format.jobs.job import JOB_LEASES

from ...store.transaction import TransactionAborted
from ..catalog import epoch_after
from ..connection import arrays
from ..connection.session import Session, Statement

_LOCK_WRITER: Final = "SELECT pg_advisory_xact_lock(%s::bigint)"

_RAISE_EPOCH: Final = f"""
INSERT INTO writer (writer, epoch) VALUES (%s, {epoch_after("0")})
ON CONFLICT (writer) DO UPDATE SET epoch = {epoch_after("writer.epoch")}, used_at = clock_timestamp()
RETURNING epoch
"""

# In one order, so that transactions that lock several never deadlock.
_ABORT_FENCED: Final = """
UPDATE attempt SET state = 'aborted' WHERE attempt_id IN (
    SELECT attempt_id FROM attempt
    WHERE writer = %s AND identifier IS NOT NULL AND epoch < %s::bigint AND state = 'open'
    ORDER BY attempt_id FOR UPDATE)
"""

# In one order, so that transactions that claim several never deadlock. If another transaction claims a name at this
# moment, this one waits, so that the next statement finds the owner. So a claim comes last in its transaction.
# SUBTLE: LIMIT 1 as in `commits._FIND_RESULTS`.
_CLAIM_WRITERS: Final = """
INSERT INTO writer (writer, epoch, owner)
SELECT k.writer, 0, k.owner FROM unnest(%s::text[], %s::text[]) AS k(writer, owner)
LEFT JOIN LATERAL (SELECT owner FROM writer WHERE writer = k.writer COLLATE "C" LIMIT 1) w ON true
WHERE w.owner IS NULL ORDER BY k.writer COLLATE "C"
ON CONFLICT (writer) DO UPDATE SET owner = excluded.owner, used_at = clock_timestamp() WHERE writer.owner IS NULL
"""

_FIND_OWNERS: Final = "SELECT writer, owner FROM writer WHERE writer = ANY(%s::text[]) AND owner IS NOT NULL"

_FIND_HOLDERS: Final = f"""
SELECT '{JOB_LEASES}' || job_id, coalesce(owner, '') FROM job WHERE job_id = ANY(%s::bigint[]) AND state = 'leased'
"""

_RELEASE_WRITER: Final = """
UPDATE writer SET owner = NULL FROM (SELECT writer, owner FROM writer WHERE writer = %s FOR UPDATE) former
WHERE writer.writer = former.writer RETURNING coalesce(former.owner, '')
"""

# A dropped table keeps its results until it is purged, and its entry in the catalog as long.
_IS_UNUSED: Final = """
CASE WHEN w.used_at < clock_timestamp() - %s::bigint * interval '1 ms' THEN
    NOT EXISTS (SELECT 1 FROM attempt a WHERE a.writer = w.writer AND a.state <> 'committed')
    AND NOT EXISTS (
        SELECT 1 FROM catalog_table t CROSS JOIN LATERAL (
            SELECT 1 FROM commit_result r WHERE r.table_id = t.table_id AND r.writer = w.writer LIMIT 1
        ) x
    )
ELSE false END
"""

_LIST_WRITERS: Final = f"""
SELECT w.writer, {_IS_UNUSED} FROM (SELECT * FROM writer WHERE writer > %s COLLATE "C" ORDER BY writer LIMIT %s) w
ORDER BY w.writer
"""

# It does not wait: a name that someone uses at this moment is not unused.
_TRY_LOCK_WRITERS: Final = """
SELECT writer FROM unnest(%s::text[], %s::bigint[]) AS k(writer, key) WHERE pg_try_advisory_xact_lock(key)
"""

# Looks again, because the lock was taken after the list was made.
_FORGET_WRITERS: Final = f"DELETE FROM writer w WHERE w.writer = ANY(%s::text[]) AND {_IS_UNUSED} RETURNING w.writer"

_FIND_PROGRESS: Final = """
SELECT r.identifier, r.snapshot_id, r.properties, coalesce(w.epoch, 0)
FROM (SELECT %s::text AS writer) k
LEFT JOIN writer w ON w.writer = k.writer COLLATE "C"
LEFT JOIN LATERAL (
    SELECT identifier, snapshot_id, properties FROM commit_result
    WHERE table_id = %s AND writer = k.writer COLLATE "C" ORDER BY identifier DESC LIMIT 1
) r ON true
"""


class PostgresWriters:
    """See `metastore.store.transaction.CommitTransaction`; a part of `PostgresCommits`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def raise_writer_epoch(self, writer: str) -> int:
        lock = Statement(_LOCK_WRITER, (str(writer_key(writer)),))
        _, rows = await self._session.write_all([lock, Statement(_RAISE_EPOCH, (writer,))])
        epoch: int = rows[0][0]
        return epoch

    async def abort_fenced_attempts(self, writer: str, epoch: int) -> None:
        await self._session.write(_ABORT_FENCED, (writer, str(epoch)))

    async def find_writer_owners(self, writers: Sequence[str]) -> dict[str, str]:
        return dict([row for each in _owner_statements(writers) for row in await self._session.read(*each)])

    async def claim_writers(self, claims: Mapping[str, str]) -> dict[str, str]:
        first = _claims({writer: owner for writer, owner in claims.items() if not is_of_job(writer)})
        found = [Statement(*each) for each in _owner_statements(list(claims))]
        rows = await self._session.write_all([*first, *found])
        return dict([row for each in rows[len(first) :] for row in each])

    async def take_names(self, claims: Mapping[str, str]) -> None:
        """Claims names, and aborts the transaction if one has got another owner meanwhile."""
        if not claims:
            return
        owners = await self.claim_writers(claims)
        lost = [writer for writer, owner in claims.items() if owners.get(writer) != owner]
        if lost:
            raise TransactionAborted(f"Another caller has begun to use the writer's name '{lost[0]}' at this moment.")

    async def release_writer(self, writer: str) -> str:
        rows = await self._session.write(_RELEASE_WRITER, (writer,))
        return rows[0][0] if rows else ""

    async def forget_unused_writers(self, after: str, unused_ms: int, limit: int) -> tuple[str, list[str]]:
        """Removes names without a commit that no one uses."""
        listed = await self._session.read(_LIST_WRITERS, (str(unused_ms), after, str(limit)))
        unused = [writer for writer, is_unused in listed if is_unused]
        last: str = listed[-1][0] if len(listed) == limit else ""
        if not unused:
            return last, []
        keys = arrays.integers(map(writer_key, unused))
        locked = [row[0] for row in await self._session.write(_TRY_LOCK_WRITERS, (arrays.texts(unused), keys))]
        removed = await self._session.write(_FORGET_WRITERS, (arrays.texts(locked), str(unused_ms)))
        return last, sorted([row[0] for row in removed])

    async def find_progress(self, table_id: int, writer: str) -> WriterProgress:
        row = await self._session.read_one(_FIND_PROGRESS, (writer, table_id))
        assert row is not None, "the query has one row whatever there is"
        identifier, snapshot_id, properties, epoch = row
        return WriterProgress(identifier, snapshot_id, properties or {}, epoch)


def _owner_statements(writers: Sequence[str]) -> list[tuple[str, tuple[str]]]:
    """Queries for the owners of names and, if there are names of jobs, for the owners of held jobs."""
    statements = [(_FIND_OWNERS, (arrays.texts(writers),))]
    if any(map(is_of_job, writers)):
        statements.append((_FIND_HOLDERS, (arrays.integers(job_ids(writers)),)))
    return statements


def _claims(claims: Mapping[str, str]) -> list[Statement]:
    if not claims:
        return []
    return [Statement(_CLAIM_WRITERS, (arrays.texts(claims), arrays.texts(claims.values())))]


def job_ids(leases: Sequence[str]) -> list[int]:
    """The jobs among some leases; a name that only resembles that of a job belongs to none."""
    ids = [name.removeprefix(JOB_LEASES) for name in leases if name.startswith(JOB_LEASES)]
    return [int(each) for each in ids if each.isascii() and each.isdigit() and len(each) < 19]


def writer_key(writer: str) -> int:
    """The number under which a writer's name is locked; two names that share one merely wait for each other."""
    return int.from_bytes(hashlib.blake2b(writer.encode(), digest_size=8).digest(), "big", signed=True)
