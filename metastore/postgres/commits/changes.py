"""What has changed in a locked table since a snapshot, in Postgres."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from lakelog.format.commit.facts import BucketChange
from lakelog.format.commit.request import BucketRef
from lakelog.format.tables.snapshot import Snapshot, SnapshotKind

from ..connection import arrays
from ..connection.session import InSession, Row
from .snapshot_rows import SNAPSHOT_COLUMNS, to_snapshot

# The first id of files that came after a snapshot: ids rise with snapshots, so "after" is a range of the primary key.
# The snapshot itself may have expired; then the next one gives the id.
FIRST_FILE_AFTER: Final = """
coalesce((
    SELECT CASE s.snapshot_id WHEN k.after THEN s.next_file_id ELSE s.next_file_id - s.added_files END
    FROM (SELECT %s::bigint AS table_id, %s::bigint AS after) k
    JOIN snapshot s ON s.table_id = k.table_id AND s.snapshot_id IN (k.after, k.after + 1)
    ORDER BY s.snapshot_id LIMIT 1
), 1)
"""

# SUBTLE: plans expect few places and few changes. A join of both then compares each place with each change, which takes
# minutes for thousands; subqueries of IN are hashed, whatever a plan expects.
_FIND_CHANGES: Final = f"""
WITH wanted AS MATERIALIZED (
    SELECT CASE WHEN b.partition = '' THEN 0 ELSE p.partition_id END AS partition_id, b.bucket
    FROM unnest(%s::bytea[], %s::int[]) AS b(partition, bucket)
    LEFT JOIN table_partition p ON p.table_id = %s AND p.encoded = b.partition
    WHERE b.partition = '' OR p.partition_id IS NOT NULL
), changed AS (
    SELECT partition_id, bucket, added_snapshot AS snapshot_id FROM data_file
    WHERE table_id = %s AND file_id >= {FIRST_FILE_AFTER} AND added_snapshot > %s
    UNION
    SELECT partition_id, bucket, removed_snapshot FROM data_file WHERE table_id = %s AND removed_snapshot > %s
)
SELECT coalesce(p.encoded, ''), c.bucket, c.snapshot_id, s.kind, s.writer, s.committed_at_ms
FROM changed c
LEFT JOIN LATERAL (SELECT encoded FROM table_partition WHERE partition_id = c.partition_id LIMIT 1) p ON true
JOIN LATERAL (
    SELECT kind, writer, committed_at_ms FROM snapshot WHERE table_id = %s AND snapshot_id = c.snapshot_id LIMIT 1
) s ON s.kind <> 'COMPACT' OR %s::boolean
WHERE (c.partition_id, c.bucket) IN (SELECT partition_id, bucket FROM wanted WHERE bucket IS NOT NULL)
    OR c.partition_id IN (SELECT partition_id FROM wanted WHERE bucket IS NULL)
ORDER BY c.snapshot_id
"""

_FIND_NEWEST_CHANGE: Final = f"""
SELECT {SNAPSHOT_COLUMNS} FROM snapshot
WHERE table_id = %s AND snapshot_id > %s AND kind <> 'COMPACT' AND (added_files > 0 OR removed_files > 0)
ORDER BY snapshot_id DESC LIMIT 1
"""


class PostgresChanges(InSession):
    """Part of `metastore.store.transaction.CommitTransaction`."""

    async def find_changes(
        self,
        table_id: int,
        after: int,
        buckets: Iterable[BucketRef],
        partitions: Iterable[bytes] = (),
        *,
        compactions: bool = False,
    ) -> list[BucketChange]:
        # A partition without a bucket stands for all of its buckets.
        wanted = [*((ref.partition, ref.bucket) for ref in buckets), *((each, None) for each in partitions)]
        places = await self._session.work.commits.run(len(wanted), arrays.places, wanted)
        files = (table_id, table_id, after, after, table_id, after)
        rows = await self._session.write(_FIND_CHANGES, (*places, table_id, *files, table_id, str(compactions)))
        return await self._session.work.commits.run(len(rows), _bucket_changes, rows)

    async def find_newest_change(self, table_id: int, after: int) -> Snapshot | None:
        rows = await self._session.write(_FIND_NEWEST_CHANGE, (str(table_id), str(after)))
        return to_snapshot(rows[0]) if rows else None


def _bucket_changes(rows: Sequence[Row]) -> list[BucketChange]:
    return [BucketChange(BucketRef(row[0], row[1]), row[2], SnapshotKind(row[3]), row[4], row[5]) for row in rows]
