"""Which buckets may get deletion vectors, from Postgres: one statement over the files that some snapshots added."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from lakelog.format.commit.request import BucketRef
from lakelog.format.compaction.deletion_vectors import RunSums
from lakelog.format.merge.sections import KeyRange

from ...store.due import BucketSums, DeletionVectorTransaction
from ..connection.session import InSession, Row
from .due import ADDED, to_added

# An entry with a deletion vector whose snapshot is not that of its order key only adds the vector: its own commit does
# not make its bucket due again. Not every Postgres has min() of bytes; a missing bound counts as none.
#
# SUBTLE: OFFSET 0 keeps the lookup of each bucket separate, by the index of live files.
_SUM_GROWN: Final = f"""
WITH grown AS (
    SELECT DISTINCT partition_id, bucket FROM data_file
    WHERE {ADDED} AND (deletion_vector_path IS NULL OR added_snapshot = order_snapshot)
), run AS (
    SELECT g.partition_id, g.bucket, f.level, sum(f.size_bytes)::bigint AS size_bytes, count(*)::int AS file_count,
        sum(f.row_count)::bigint AS row_count, sum(f.delete_count)::bigint AS delete_count,
        (count(*) FILTER (WHERE f.deletion_vector_path IS NULL))::int AS uncovered_count,
        CASE WHEN bool_and(f.min_key IS NOT NULL) THEN (array_agg(f.min_key ORDER BY f.min_key))[1] END AS low,
        CASE WHEN bool_and(f.max_key IS NOT NULL) THEN (array_agg(f.max_key ORDER BY f.max_key DESC))[1] END AS high,
        max(f.order_snapshot) AS order_snapshot, max(f.order_ordinal) AS order_ordinal,
        count(*) OVER bucket AS run_count, sum(sum(f.size_bytes)) OVER bucket AS bucket_bytes
    FROM grown g
    CROSS JOIN LATERAL (
        SELECT * FROM data_file
        WHERE table_id = %s AND partition_id = g.partition_id AND bucket = g.bucket AND removed_snapshot IS NULL
        OFFSET 0
    ) f
    GROUP BY g.partition_id, g.bucket, f.level, CASE f.level WHEN 0 THEN f.file_id END
    WINDOW bucket AS (PARTITION BY g.partition_id, g.bucket)
)
SELECT coalesce(p.encoded, ''), r.bucket, r.level, r.size_bytes, r.file_count, r.row_count, r.delete_count,
    r.uncovered_count, r.low, r.high, r.order_snapshot, r.order_ordinal
FROM run r LEFT JOIN table_partition p USING (partition_id)
WHERE r.run_count > 1 AND r.bucket_bytes >= %s
ORDER BY 1, 2, r.level, r.order_snapshot DESC, r.order_ordinal DESC
"""


class PostgresDeletionVectors(InSession, DeletionVectorTransaction):
    """See `metastore.store.due.DeletionVectorTransaction`."""

    async def sum_grown_buckets(self, table_id: int, after: int, until: int, min_bytes: int) -> Sequence[BucketSums]:
        values = (*to_added(table_id, after, until), str(table_id), str(min_bytes))
        rows = await self._session.read(_SUM_GROWN, values)
        return [
            BucketSums(BucketRef(*key), tuple(_run(row) for row in members))
            for key, members in groupby(rows, lambda row: (row[0], row[1]))
        ]


def _run(row: Row) -> RunSums:
    level, size_bytes, file_count, row_count, delete_count, uncovered_count, low, high, snapshot, ordinal = row[2:]
    place = (0, 0) if level else (snapshot, ordinal)
    return RunSums(level, size_bytes, file_count, row_count, delete_count, uncovered_count, KeyRange(low, high), place)
