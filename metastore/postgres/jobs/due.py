"""Which compactions may be due, from Postgres: sums over what some snapshots touched, by ranges of indexes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

import pyarrow as pa

from lakelog.format.commit.request import BucketRef
from lakelog.format.compaction.runs import SortedRun
from lakelog.format.tables.files import FILE_SCHEMA

from ...store.due import Backlog, BucketRuns, DueTransaction, SmallChange
from ..commits.changes import FIRST_FILE_AFTER
from ..commits.snapshots import FIRST_FILE_OF_LATER
from ..connection import arrays
from ..connection.session import InSession, Row

# File ids rise with snapshots, so the files that some of these added are a range of the primary key.
ADDED: Final = f"""
    table_id = %s AND file_id >= {FIRST_FILE_AFTER} AND file_id < {FIRST_FILE_OF_LATER}
    AND added_snapshot > %s AND added_snapshot <= %s
"""

_REMOVED: Final = "table_id = %s AND removed_snapshot > %s AND removed_snapshot <= %s"

_LIST_TOUCHED: Final = f"""
SELECT coalesce(p.encoded, ''), c.bucket
FROM (
    SELECT partition_id, bucket FROM data_file WHERE {ADDED}
    UNION
    SELECT partition_id, bucket FROM data_file WHERE {_REMOVED}
) c LEFT JOIN table_partition p USING (partition_id)
ORDER BY 1, 2
"""

_WANTED: Final = """
unnest(%s::bytea[], %s::int[]) AS b(partition, bucket)
LEFT JOIN table_partition p ON p.table_id = %s AND p.encoded = b.partition
"""

_PARTITION_ID: Final = "CASE WHEN b.partition = '' THEN 0 ELSE p.partition_id END"

# SUBTLE: OFFSET 0 keeps the lookup of each bucket separate, by the index of live files.
_SUM_RUNS: Final = f"""
SELECT partition, bucket, level, size_bytes, file_count, order_snapshot, order_ordinal
FROM (
    SELECT b.partition, b.bucket, f.level, sum(f.size_bytes)::bigint AS size_bytes, count(*)::int AS file_count,
        max(f.order_snapshot) AS order_snapshot, max(f.order_ordinal) AS order_ordinal,
        count(*) OVER (PARTITION BY b.partition, b.bucket) AS run_count
    FROM {_WANTED}
    CROSS JOIN LATERAL (
        SELECT file_id, level, size_bytes, order_snapshot, order_ordinal FROM data_file
        WHERE table_id = %s AND partition_id = {_PARTITION_ID} AND bucket = b.bucket AND removed_snapshot IS NULL
        OFFSET 0
    ) f
    GROUP BY b.partition, b.bucket, f.level, CASE f.level WHEN 0 THEN f.file_id END
) r
WHERE run_count >= %s
ORDER BY partition, bucket, level, order_snapshot DESC, order_ordinal DESC
"""

_LIST_CROWDED: Final = """
SELECT coalesce(p.encoded, ''), f.bucket
FROM data_file f LEFT JOIN table_partition p USING (partition_id)
WHERE f.table_id = %s AND f.removed_snapshot IS NULL
GROUP BY p.encoded, f.bucket
HAVING count(*) >= %s
ORDER BY 1, 2
"""

_LIST_REMOVED_ROWS: Final = f"""
SELECT DISTINCT coalesce(p.encoded, ''), f.bucket
FROM (
    SELECT partition_id, bucket FROM data_file
    WHERE {ADDED} AND coalesce(removed_snapshot, 0) = 0 AND delete_count > 0 AND row_count * %s <= delete_count * 100
) f LEFT JOIN table_partition p USING (partition_id)
ORDER BY 1, 2
"""

_SUM_SMALL: Final = f"""
SELECT coalesce(p.encoded, ''), c.file_count, c.size_bytes, c.first_added, c.has_removed
FROM (
    SELECT partition_id, sum(sign)::int AS file_count, sum(sign * size_bytes)::bigint AS size_bytes,
        min(added_snapshot) AS first_added, bool_or(sign < 0) AS has_removed
    FROM (
        SELECT partition_id, 1 AS sign, size_bytes, added_snapshot FROM data_file
        WHERE {ADDED} AND size_bytes < %s
        UNION ALL
        SELECT partition_id, -1, size_bytes, NULL FROM data_file WHERE {_REMOVED} AND size_bytes < %s
    ) d GROUP BY partition_id
) c LEFT JOIN table_partition p USING (partition_id)
ORDER BY 1
"""

# One scan of all that came since, however many partitions are requested: no index covers both.
_COUNT_SMALL: Final = f"""
WITH small AS MATERIALIZED (
    SELECT partition_id, count(*)::int AS file_count, sum(size_bytes)::bigint AS size_bytes,
        min(added_snapshot) AS first_added
    FROM data_file
    WHERE table_id = %s AND file_id >= {FIRST_FILE_AFTER} AND added_snapshot > %s AND added_snapshot <= %s
        AND coalesce(removed_snapshot, {2**63 - 1}) > %s AND size_bytes < %s
    GROUP BY partition_id
)
SELECT b.partition, 0, '', f.file_count, f.size_bytes, f.first_added, 0, -1
FROM unnest(%s::bytea[]) AS b(partition)
LEFT JOIN table_partition p ON p.table_id = %s AND p.encoded = b.partition
JOIN small f ON f.partition_id = {_PARTITION_ID}
"""

_COUNT_ALL_SMALL: Final = f"""
SELECT b.partition, 0, '', count(*)::int, sum(f.size_bytes)::bigint, min(f.added_snapshot), 0, -1
FROM unnest(%s::bytea[]) AS b(partition)
LEFT JOIN table_partition p ON p.table_id = %s AND p.encoded = b.partition
CROSS JOIN LATERAL (
    SELECT size_bytes, added_snapshot FROM data_file
    WHERE table_id = %s AND partition_id = {_PARTITION_ID} AND removed_snapshot IS NULL AND added_snapshot <= %s
        AND size_bytes < %s
    UNION ALL
    SELECT size_bytes, added_snapshot FROM data_file
    WHERE table_id = %s AND partition_id = {_PARTITION_ID} AND removed_snapshot > %s AND added_snapshot <= %s
        AND size_bytes < %s
    OFFSET 0
) f
GROUP BY b.partition
"""

_ENTRY_COLUMNS: Final = """
    f.file_id, f.path, b.partition, f.bucket, f.level, f.row_count, f.delete_count, f.size_bytes, f.min_key, f.max_key,
    f.schema_id, f.added_snapshot, f.order_snapshot, f.order_ordinal, f.order_time_ms, f.deletion_vector_path
"""

_LOAD_TAILS: Final = f"""
SELECT {_ENTRY_COLUMNS}
FROM unnest(%s::bytea[], %s::int[], %s::bigint[], %s::int[]) AS b(partition, bucket, after_snapshot, after_ordinal)
LEFT JOIN table_partition p ON p.table_id = %s AND p.encoded = b.partition
CROSS JOIN LATERAL (
    SELECT * FROM data_file
    WHERE table_id = %s AND partition_id = {_PARTITION_ID} AND bucket = b.bucket AND removed_snapshot IS NULL
        AND (order_snapshot, order_ordinal) >= (b.after_snapshot, b.after_ordinal)
    OFFSET 0
) f
"""

_FIND_BACKLOGS: Final = f"""
SELECT b.partition, b.bucket, s.rule, s.file_count, s.size_bytes, s.first_snapshot, s.after_snapshot, s.after_ordinal
FROM {_WANTED}
JOIN small_files s ON s.table_id = %s AND s.partition_id = {_PARTITION_ID} AND s.bucket = b.bucket
"""

_PUT_BACKLOGS: Final = f"""
INSERT INTO small_files AS s (table_id, partition_id, bucket, rule, file_count, size_bytes, first_snapshot,
    after_snapshot, after_ordinal)
SELECT %s::bigint, {_PARTITION_ID}, b.bucket, b.rule, b.file_count, b.size_bytes, b.first_snapshot, b.after_snapshot,
    b.after_ordinal
FROM unnest(%s::bytea[], %s::int[], %s::text[], %s::int[], %s::bigint[], %s::bigint[], %s::bigint[], %s::int[])
    AS b(partition, bucket, rule, file_count, size_bytes, first_snapshot, after_snapshot, after_ordinal)
LEFT JOIN table_partition p ON p.table_id = %s AND p.encoded = b.partition
ON CONFLICT (table_id, partition_id, bucket) DO UPDATE SET rule = excluded.rule, file_count = excluded.file_count,
    size_bytes = excluded.size_bytes, first_snapshot = excluded.first_snapshot,
    after_snapshot = excluded.after_snapshot, after_ordinal = excluded.after_ordinal
"""


class PostgresDue(InSession, DueTransaction):
    """See `metastore.store.due.DueTransaction`."""

    async def list_touched_buckets(self, table_id: int, after: int, until: int) -> list[BucketRef]:
        parameters = (*to_added(table_id, after, until), *_fixed(table_id, after, until))
        return [BucketRef(*row) for row in await self._session.read(_LIST_TOUCHED, parameters)]

    async def sum_runs(self, table_id: int, buckets: Sequence[BucketRef], min_runs: int) -> list[BucketRuns]:
        rows = await self._session.read(_SUM_RUNS, (*_wanted(buckets), *_fixed(table_id, table_id, min_runs)))
        return [
            BucketRuns(BucketRef(*key), tuple(_run(row) for row in members))
            for key, members in groupby(rows, lambda row: (row[0], row[1]))
        ]

    async def list_crowded_buckets(self, table_id: int, min_files: int) -> list[BucketRef]:
        rows = await self._session.read(_LIST_CROWDED, _fixed(table_id, min_files))
        return [BucketRef(*row) for row in rows]

    async def list_removed_rows(self, table_id: int, after: int, until: int, percent: int) -> list[BucketRef]:
        parameters = (*to_added(table_id, after, until), str(percent))
        return [BucketRef(*row) for row in await self._session.read(_LIST_REMOVED_ROWS, parameters)]

    async def sum_small_changes(self, table_id: int, after: int, until: int, below_bytes: int) -> list[SmallChange]:
        below = str(below_bytes)
        parameters = (*to_added(table_id, after, until), below, *_fixed(table_id, after, until), below)
        return [SmallChange(*row) for row in await self._session.read(_SUM_SMALL, parameters)]

    async def count_small_files(
        self, table_id: int, partitions: Sequence[bytes], until: int, below_bytes: int, after: int = 0
    ) -> list[Backlog]:
        wanted = arrays.blobs(partitions)
        if after:
            fixed = _fixed(table_id, table_id, after, after, until, until, below_bytes)
            rows = await self._session.read(_COUNT_SMALL, (*fixed, wanted, str(table_id)))
        else:
            live, gone = _fixed(table_id, until, below_bytes), _fixed(table_id, until, until, below_bytes)
            rows = await self._session.read(_COUNT_ALL_SMALL, (wanted, str(table_id), *live, *gone))
        return [_backlog(row) for row in rows]

    async def load_bucket_tails(self, table_id: int, backlogs: Sequence[Backlog]) -> pa.Table:
        wanted = _wanted([each.bucket for each in backlogs])
        after = (
            arrays.integers([each.after[0] for each in backlogs]),
            arrays.integers([each.after[1] for each in backlogs]),
        )
        rows = await self._session.read(_LOAD_TAILS, (*wanted, *after, *_fixed(table_id, table_id)), binary=True)
        if not rows:
            return FILE_SCHEMA.empty_table()
        columns = zip(*rows, strict=True)
        made = [pa.array(values, field.type) for values, field in zip(columns, FILE_SCHEMA, strict=True)]
        return pa.Table.from_arrays(made, schema=FILE_SCHEMA)

    async def find_backlogs(self, table_id: int, buckets: Sequence[BucketRef]) -> list[Backlog]:
        rows = await self._session.read(_FIND_BACKLOGS, (*_wanted(buckets), *_fixed(table_id, table_id)))
        return [_backlog(row) for row in rows]

    async def clear_backlogs(self, table_id: int) -> None:
        await self._session.write("DELETE FROM small_files WHERE table_id = %s AND bucket >= 0", (str(table_id),))

    async def put_backlogs(self, table_id: int, backlogs: Sequence[Backlog]) -> None:
        parameters = (
            str(table_id),
            *_wanted([each.bucket for each in backlogs]),
            arrays.texts([each.rule for each in backlogs]),
            arrays.integers([each.file_count for each in backlogs]),
            arrays.integers([each.size_bytes for each in backlogs]),
            arrays.integers([each.first_snapshot for each in backlogs]),
            arrays.integers([each.after[0] for each in backlogs]),
            arrays.integers([each.after[1] for each in backlogs]),
            str(table_id),
        )
        await self._session.write(_PUT_BACKLOGS, parameters)


def to_added(table_id: int, after: int, until: int) -> tuple[str, ...]:
    """The values of `ADDED`."""
    return _fixed(table_id, table_id, after, table_id, until, after, until)


def _wanted(buckets: Sequence[BucketRef]) -> tuple[str, str]:
    return arrays.blobs([each.partition for each in buckets]), arrays.integers([each.bucket for each in buckets])


def _fixed(*values: int) -> tuple[str, ...]:
    """Numbers as text, whose type the statement decides: psycopg would choose one by the value's size."""
    return tuple(map(str, values))


def _run(row: Row) -> SortedRun:
    _, _, level, size_bytes, file_count, snapshot, ordinal = row
    return SortedRun(level, size_bytes, file_count, (snapshot, ordinal) if level == 0 else (0, 0))


def _backlog(row: Row) -> Backlog:
    partition, bucket, rule, file_count, size_bytes, first_snapshot, *after = row
    return Backlog(BucketRef(partition, bucket), rule, file_count, size_bytes, first_snapshot, (after[0], after[1]))
