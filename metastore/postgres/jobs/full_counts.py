"""What makes full compactions due, in Postgres: the number of commits, and the buckets they wrote."""

from __future__ import annotations

from typing import Final

from lakelog.format.commit.request import BucketRef
from lakelog.format.compaction.commit_count import CommitsSinceFull

from ..commits.changes import FIRST_FILE_AFTER
from ..connection.session import InSession

_FIND_COUNT: Final = "SELECT resolved_until, counted_until, commit_count, first_ms FROM full_count WHERE table_id = %s"

# The first file id after the last full compaction is found while its snapshot still exists.
_PUT_COUNT: Final = f"""
INSERT INTO full_count AS c (table_id, resolved_until, counted_until, commit_count, first_ms, first_file_id)
VALUES (%s, %s, %s, %s, %s, {FIRST_FILE_AFTER})
ON CONFLICT (table_id) DO UPDATE SET resolved_until = excluded.resolved_until, counted_until = excluded.counted_until,
    commit_count = excluded.commit_count, first_ms = excluded.first_ms,
    first_file_id = CASE WHEN c.resolved_until = excluded.resolved_until
        THEN greatest(c.first_file_id, excluded.first_file_id) ELSE excluded.first_file_id END
"""

# Expired snapshots count as commits of data: none is forgotten, and hardly any expires so soon.
_COUNT_COMMITS: Final = """
SELECT %s::bigint - count(*) FROM snapshot
WHERE table_id = %s AND snapshot_id > %s AND snapshot_id <= %s AND kind = 'COMPACT'
"""

# SUBTLE: as `_FIND_CHANGES` of commits.py, by ranges of the primary key and of the index of removed files. The
# snapshot that wrote a file may have expired, which does not make it a compaction.
_RESOLVED_FILE_ID: Final = "(SELECT first_file_id FROM full_count WHERE table_id = %s AND resolved_until = %s)"

_LIST_WRITTEN: Final = f"""
WITH changed AS (
    SELECT partition_id, bucket, added_snapshot AS snapshot_id FROM data_file
    WHERE table_id = %s AND file_id >= greatest({FIRST_FILE_AFTER}, {_RESOLVED_FILE_ID})
        AND added_snapshot > %s AND added_snapshot <= %s
    UNION
    SELECT partition_id, bucket, removed_snapshot FROM data_file
    WHERE table_id = %s AND removed_snapshot > %s AND removed_snapshot <= %s
)
SELECT DISTINCT coalesce(p.encoded, ''), c.bucket
FROM changed c
LEFT JOIN LATERAL (
    SELECT kind, changelog FROM snapshot WHERE table_id = %s AND snapshot_id = c.snapshot_id LIMIT 1
) s ON true
LEFT JOIN table_partition p ON p.partition_id = c.partition_id
WHERE s.kind IS DISTINCT FROM 'COMPACT' OR s.changelog = 'later'
ORDER BY 1, 2
"""


class PostgresFullCounts(InSession):
    """See `metastore.store.baseline.BaselineTransaction`."""

    async def find_full_count(self, table_id: int) -> CommitsSinceFull | None:
        return await self._session.find(_FIND_COUNT, (table_id,), lambda row: CommitsSinceFull(*row))

    async def put_full_count(self, table_id: int, known: CommitsSinceFull) -> None:
        first_ms = None if known.first_ms is None else str(known.first_ms)
        numbers = (table_id, known.resolved_until, known.counted_until, known.count)
        values = (*map(str, numbers), first_ms, str(table_id), str(known.resolved_until))
        await self._session.write(_PUT_COUNT, values)

    async def count_data_commits(self, table_id: int, after: int, until: int) -> int:
        row = await self._session.read_one(_COUNT_COMMITS, tuple(map(str, (until - after, table_id, after, until))))
        assert row is not None, "a count has a row whatever there is"
        return int(row[0])

    async def list_written_buckets(self, table_id: int, after: int, until: int) -> list[BucketRef]:
        at = str(table_id), str(after), str(until)
        parameters = (at[0], at[0], at[1], at[0], at[1], at[1], at[2], *at, at[0])
        return [BucketRef(row[0], row[1]) for row in await self._session.read(_LIST_WRITTEN, parameters)]
