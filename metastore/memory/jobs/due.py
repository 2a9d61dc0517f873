"""Which compactions may be due, in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakelog.format.commit.request import BucketRef
from lakelog.format.compaction.runs import SortedRun
from lakelog.format.tables.files import FILE_SCHEMA

from ...store.due import Backlog, BucketRuns, DueTransaction, SmallChange
from ..catalog import MemoryCatalog
from ..commits.snapshots import to_file_columns
from ..state import StoredFile


class MemoryDue(MemoryCatalog, DueTransaction):
    """See `metastore.store.due.DueTransaction`."""

    async def list_touched_buckets(self, table_id: int, after: int, until: int) -> list[BucketRef]:
        found = {
            _bucket(stored)
            for stored in self._table(table_id).files.values()
            if after < stored.placed.added_snapshot <= until
            or (stored.removed_snapshot is not None and after < stored.removed_snapshot <= until)
        }
        return sorted(found, key=_by_bucket)

    async def sum_runs(self, table_id: int, buckets: Sequence[BucketRef], min_runs: int) -> list[BucketRuns]:
        wanted = set(buckets)
        sums: dict[BucketRef, dict[tuple[int, int], SortedRun]] = defaultdict(dict)
        for stored in self._live_files(table_id):
            bucket, placed = _bucket(stored), stored.placed
            if bucket in wanted:
                level, order_key = placed.file.level, (placed.order_key.snapshot_id, placed.order_key.ordinal)
                key = (level, placed.file_id if level == 0 else 0)
                known = sums[bucket].get(key, SortedRun(level, 0, 0, order_key if level == 0 else (0, 0)))
                sums[bucket][key] = SortedRun(
                    level, known.size_bytes + placed.file.size_bytes, known.file_count + 1, known.order_key
                )
        return [
            BucketRuns(
                bucket, tuple(sorted(runs.values(), key=lambda run: (run.level, -run.order_key[0], -run.order_key[1])))
            )
            for bucket, runs in sorted(sums.items(), key=lambda item: _by_bucket(item[0]))
            if len(runs) >= min_runs
        ]

    async def list_crowded_buckets(self, table_id: int, min_files: int) -> list[BucketRef]:
        counts: dict[BucketRef, int] = defaultdict(int)
        for stored in self._live_files(table_id):
            counts[_bucket(stored)] += 1
        return sorted([each for each, count in counts.items() if count >= min_files], key=_by_bucket)

    async def list_removed_rows(self, table_id: int, after: int, until: int, percent: int) -> list[BucketRef]:
        found = {
            _bucket(stored)
            for stored in self._live_files(table_id)
            for file in [stored.placed.file]
            if after < stored.placed.added_snapshot <= until
            and file.delete_count > 0
            and file.row_count * percent <= file.delete_count * 100
        }
        return sorted(found, key=_by_bucket)

    async def sum_small_changes(self, table_id: int, after: int, until: int, below_bytes: int) -> list[SmallChange]:
        found: dict[bytes, SmallChange] = {}
        for stored in self._table(table_id).files.values():
            placed, removed = stored.placed, stored.removed_snapshot
            file, added = placed.file, placed.added_snapshot
            if file.size_bytes >= below_bytes:
                continue
            is_added = after < added <= until
            is_removed = removed is not None and after < removed <= until
            if is_added or is_removed:
                known = found.get(file.partition, SmallChange(file.partition, 0, 0, None, False))
                sign = is_added - is_removed
                firsts = [each for each in (known.first_added, added if is_added else None) if each is not None]
                found[file.partition] = SmallChange(
                    file.partition,
                    known.file_count + sign,
                    known.size_bytes + sign * file.size_bytes,
                    min(firsts, default=None),
                    known.has_removed or is_removed,
                )
        return [found[partition] for partition in sorted(found)]

    async def count_small_files(
        self, table_id: int, partitions: Sequence[bytes], until: int, below_bytes: int, after: int = 0
    ) -> list[Backlog]:
        members: dict[bytes, list[StoredFile]] = defaultdict(list)
        for stored in self._table(table_id).files.values():
            file, removed = stored.placed.file, stored.removed_snapshot
            is_live = after < stored.placed.added_snapshot <= until and (removed is None or removed > until)
            if is_live and file.size_bytes < below_bytes and file.partition in partitions:
                members[file.partition].append(stored)
        return [
            Backlog(
                BucketRef(partition, 0),
                "",
                len(found),
                sum(stored.placed.file.size_bytes for stored in found),
                min(stored.placed.added_snapshot for stored in found),
            )
            for partition, found in members.items()
        ]

    async def load_bucket_tails(self, table_id: int, backlogs: Sequence[Backlog]) -> pa.Table:
        after = {each.bucket: each.after for each in backlogs}
        rows = [
            stored
            for stored in self._live_files(table_id)
            if _bucket(stored) in after
            and (stored.placed.order_key.snapshot_id, stored.placed.order_key.ordinal) >= after[_bucket(stored)]
        ]
        columns = to_file_columns(rows)
        made = [pa.array(values, field.type) for values, field in zip(columns, FILE_SCHEMA, strict=True)]
        return pa.Table.from_arrays(made, schema=FILE_SCHEMA)

    async def find_backlogs(self, table_id: int, buckets: Sequence[BucketRef]) -> list[Backlog]:
        known = self._state.backlogs
        return [known[table_id, bucket] for bucket in buckets if (table_id, bucket) in known]

    async def clear_backlogs(self, table_id: int) -> None:
        for key in [key for key in self._state.backlogs if key[0] == table_id and key[1].bucket >= 0]:
            self._journal.pop(self._state.backlogs, key)

    async def put_backlogs(self, table_id: int, backlogs: Sequence[Backlog]) -> None:
        for each in backlogs:
            self._journal.put(self._state.backlogs, (table_id, each.bucket), each)

    def _live_files(self, table_id: int) -> Iterator[StoredFile]:
        return (stored for stored in self._table(table_id).files.values() if stored.removed_snapshot is None)


def _bucket(stored: StoredFile) -> BucketRef:
    return BucketRef(stored.placed.file.partition, stored.placed.file.bucket)


def _by_bucket(bucket: BucketRef) -> tuple[bytes, int]:
    return bucket.partition, bucket.bucket
