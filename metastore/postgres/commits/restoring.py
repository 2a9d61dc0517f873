"""Restoring an earlier state in Postgres: one statement, however many files there are."""

from __future__ import annotations

from typing import Final

from lakelog.format.commit.facts import RemovedTotals, RestoredTotals, TableHead

from ..connection.session import InSession
from .changes import FIRST_FILE_AFTER

# The index of removed files finds what went since, and a range of the primary key what came since; the condition
# whether that is live is written so that no partial index can answer it (`snapshots.files_query`). A file that came
# since may equal one that went, because it was brought back before. With a primary key it differs if it got a deletion
# vector meanwhile, which may have been built for files that came later, and comes back without one. Without a key the
# deletion vector says which rows of the file the state has: it differs if it is another one, and comes back with it.
#
# Files share an order key only where a compaction wrote several, and then their ids decide their order. New entries
# have
# higher ids than all others, so all files of such an order key get new ones.
_RESTORE: Final = f"""
WITH went AS (
    SELECT * FROM data_file WHERE table_id = %s AND removed_snapshot > %s AND added_snapshot <= %s
), came AS (
    SELECT * FROM data_file
    WHERE table_id = %s AND file_id >= {FIRST_FILE_AFTER} AND coalesce(removed_snapshot, 0) = 0 AND added_snapshot > %s
), same AS (
    SELECT w.file_id AS then_id, c.file_id AS now_id, w.partition_id, w.bucket, w.order_snapshot, w.order_ordinal
    FROM went w JOIN came c
        ON w.path = c.path AND w.level = c.level
        AND (c.deletion_vector_path IS NULL AND %s::boolean
            OR c.deletion_vector_path IS NOT DISTINCT FROM w.deletion_vector_path)
), place AS (
    SELECT DISTINCT partition_id, bucket, order_snapshot, order_ordinal FROM went
    WHERE added_snapshot > order_snapshot AND NOT EXISTS (SELECT FROM same WHERE then_id = file_id)
), beside AS (
    SELECT f.file_id AS then_id, f.file_id AS now_id
    FROM data_file f JOIN place USING (partition_id, bucket, order_snapshot, order_ordinal)
    WHERE f.table_id = %s AND f.removed_snapshot IS NULL AND f.added_snapshot <= %s
    UNION ALL
    SELECT s.then_id, s.now_id FROM same s JOIN place USING (partition_id, bucket, order_snapshot, order_ordinal)
), back AS (
    SELECT * FROM data_file WHERE table_id = %s AND file_id = ANY(ARRAY(
        SELECT file_id FROM went WHERE NOT EXISTS (SELECT FROM same WHERE then_id = file_id)
        UNION ALL SELECT then_id FROM beside
    ))
), entered AS (
    INSERT INTO data_file (table_id, file_id, partition_id, row_count, delete_count, size_bytes, added_snapshot,
        order_snapshot, order_time_ms, order_ordinal, bucket, schema_id, level, path, min_key, max_key, statistics,
        deletion_vector_path)
    SELECT table_id, %s::bigint + row_number() OVER (ORDER BY file_id) - 1, partition_id, row_count, delete_count,
        size_bytes, %s::bigint, order_snapshot, order_time_ms, order_ordinal, bucket, schema_id, level, path, min_key,
        max_key, statistics, CASE WHEN NOT %s::boolean THEN deletion_vector_path END
    FROM back
), removed AS (
    UPDATE data_file SET removed_snapshot = %s WHERE table_id = %s AND file_id = ANY(ARRAY(
        SELECT file_id FROM came WHERE NOT EXISTS (SELECT FROM same WHERE now_id = file_id)
        UNION ALL SELECT now_id FROM beside
    ))
    RETURNING row_count, size_bytes
)
SELECT
    (SELECT count(*) FROM removed),
    (SELECT coalesce(sum(row_count), 0)::bigint FROM removed),
    (SELECT coalesce(sum(size_bytes), 0)::bigint FROM removed),
    (SELECT count(*) FROM back),
    (SELECT coalesce(sum(row_count), 0)::bigint FROM back),
    (SELECT coalesce(sum(size_bytes), 0)::bigint FROM back)
"""


class PostgresRestoring(InSession):
    """The part of `metastore.store.transaction.CommitTransaction` that restores states."""

    # An attribute, so that a test can remove a protection and see its absence.
    restore_sql = _RESTORE

    async def restore_files(self, head: TableHead, snapshot_id: int, *, keyed: bool) -> RestoredTotals:
        table_id, new = head.table_id, head.latest_snapshot_id + 1
        values = (
            *(table_id, snapshot_id, snapshot_id),
            *(table_id, table_id, snapshot_id, snapshot_id),
            keyed,
            *(table_id, snapshot_id),
            table_id,
            *(head.next_file_id, new, keyed),
            *(new, table_id),
        )
        rows = await self._session.write(self.restore_sql, tuple(map(str, values)))
        removed, restored = rows[0][:3], rows[0][3:]
        return RestoredTotals(RemovedTotals(*removed), *restored)
