"""Which buckets may get deletion vectors, in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from lakelog.format.commit.request import BucketRef
from lakelog.format.compaction.deletion_vectors import RunSums
from lakelog.format.merge.sections import KeyRange, find_hull

from ...store.due import BucketSums, DeletionVectorTransaction
from ..catalog import MemoryCatalog
from ..state import StoredFile


class MemoryDeletionVectors(MemoryCatalog, DeletionVectorTransaction):
    """See `metastore.store.due.DeletionVectorTransaction`."""

    async def sum_grown_buckets(self, table_id: int, after: int, until: int, min_bytes: int) -> Sequence[BucketSums]:
        files = self._table(table_id).files.values()
        grown = {
            _bucket(each)
            for each in files
            if after < each.placed.added_snapshot <= until and not _adds_deletion_vector(each)
        }
        runs: dict[BucketRef, dict[tuple[int, int], list[StoredFile]]] = defaultdict(lambda: defaultdict(list))
        for each in files:
            if each.removed_snapshot is None and _bucket(each) in grown:
                level = each.placed.file.level
                runs[_bucket(each)][level, 0 if level else each.placed.file_id].append(each)
        found = [
            BucketSums(
                bucket,
                tuple(
                    sorted(
                        (_sum_run(level, members) for (level, _), members in by_run.items()),
                        key=lambda run: (run.level, -run.order_key[0], -run.order_key[1]),
                    )
                ),
            )
            for bucket, by_run in sorted(runs.items(), key=lambda item: (item[0].partition, item[0].bucket))
        ]
        return [each for each in found if len(each.runs) > 1 and sum(run.size_bytes for run in each.runs) >= min_bytes]


def _bucket(stored: StoredFile) -> BucketRef:
    return BucketRef(stored.placed.file.partition, stored.placed.file.bucket)


def _adds_deletion_vector(stored: StoredFile) -> bool:
    """Whether an entry belongs to a file that was there before, and now has a deletion vector."""
    placed = stored.placed
    return placed.file.deletion_vector_path is not None and placed.added_snapshot != placed.order_key.snapshot_id


def _sum_run(level: int, members: Sequence[StoredFile]) -> RunSums:
    files = [each.placed.file for each in members]
    order_key = members[0].placed.order_key
    return RunSums(
        level,
        sum(file.size_bytes for file in files),
        len(files),
        sum(file.row_count for file in files),
        sum(file.delete_count for file in files),
        sum(file.deletion_vector_path is None for file in files),
        find_hull([KeyRange(file.min_key, file.max_key) for file in files]),
        (0, 0) if level else (order_key.snapshot_id, order_key.ordinal),
    )
