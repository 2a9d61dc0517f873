"""Which buckets may be worth marking, in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from lakelog.format.commit import BucketRef
from lakelog.format.compaction.marking import RunSums
from lakelog.format.sections import KeyRange, find_hull

from ..mark_store import BucketSums
from .catalog import MemoryCatalog
from .state import StoredFile


class MemoryMarks(MemoryCatalog):
    """See `metastore.mark_store.MarkTransaction`."""

    async def sum_grown_buckets(self, table_id: int, after: int, until: int, min_bytes: int) -> Sequence[BucketSums]:
        """Buckets to which some snapshots brought files otherwise than by marks."""
        files = self._table(table_id).files.values()
        grown = {_bucket(each) for each in files if after < each.placed.added_snapshot <= until and not _is_mark(each)}
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
                        key=lambda run: (run.level, -run.place[0], -run.place[1]),
                    )
                ),
            )
            for bucket, by_run in sorted(runs.items(), key=lambda item: (item[0].partition, item[0].bucket))
        ]
        return [each for each in found if len(each.runs) > 1 and sum(run.size_bytes for run in each.runs) >= min_bytes]


def _bucket(stored: StoredFile) -> BucketRef:
    return BucketRef(stored.placed.file.partition, stored.placed.file.bucket)


def _is_mark(stored: StoredFile) -> bool:
    """Whether an entry is one of a file that was there before, and got positions."""
    placed = stored.placed
    return placed.file.superseded_path is not None and placed.added_snapshot != placed.place.snapshot_id


def _sum_run(level: int, members: Sequence[StoredFile]) -> RunSums:
    files = [each.placed.file for each in members]
    place = members[0].placed.place
    return RunSums(
        level,
        sum(file.size_bytes for file in files),
        len(files),
        sum(file.row_count for file in files),
        sum(file.delete_count for file in files),
        sum(file.superseded_path is None for file in files),
        find_hull([KeyRange(file.min_key, file.max_key) for file in files]),
        (0, 0) if level else (place.snapshot_id, place.ordinal),
    )
