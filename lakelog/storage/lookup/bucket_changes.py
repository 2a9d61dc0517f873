"""Computes what commits changed in one bucket: their rows, the old rows from lookups, the difference."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.format.commit.request import ANY_TIME, TimeWindow
from lakelog.format.keys.ordering import comparable_keys
from lakelog.format.merge.changelog import ChangelogRules, fold_commit, fold_commits
from lakelog.format.merge.runs import MergeRun
from lakelog.format.tables.plan import AtSnapshot, PlanRequest
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.format.types.schema import TableSchema
from lakelog.storage.lookup.copy_cache import CopyCache
from lakelog.storage.lookup.key_lookup import FoundRecords, FoundTooMuchError, KeyLookup
from lakelog.storage.merging.aligned_runs import AlignedRows, Room, RunPart, read_aligned, read_run_within
from lakelog.storage.merging.merge_policy import MergePolicy
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.data_files import DataFiles
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.own_columns import KIND_FIELD, REPLACES_FIELD, TIME_FIELD, has_times
from lakelog.storage.parquet.read_counts import ReadCounts

RowIndices = npt.NDArray[np.int64]

Bucket: TypeAlias = tuple[bytes, int]
"""An encoded partition and the number of a bucket in it."""

NAMED_PARTITIONS: Final = 500
"""Partitions that a plan names; beyond this, excluding the others is not worth their names."""


HELD_BYTES: Final = 96 << 20
"""Bytes of the rows of commits, and of their old rows, that are in memory at once; changes take as much again."""


@dataclass(frozen=True)
class BucketChanges:
    """Reads the rows of commits to one bucket and computes their changes. Threads may share it.

    Args:
        store: Where the files are.
        schema: The schema to read with.
        policy: Decides between rows of one key.
        fields: The columns to read, as files store them, including those of the key and of the sequence.
        rules: How to emit the changes.
        copies: Local copies of data files, for lookups of old rows; None: no old rows are needed.
        counts: Counts what is read of the commits' files; None: nothing is counted.
    """

    store: ObjectStore
    schema: TableSchema
    policy: MergePolicy
    fields: Sequence[pa.Field]
    rules: ChangelogRules
    copies: CopyCache | None
    counts: ReadCounts | None = None

    def read(self, file: LiveFile, room: Room) -> MergeRun:
        """Reads a file's rows at once.

        Raises:
            FoundTooMuchError: There is no room for them.
            DataCorrupted: The file is damaged or missing; named.
        """
        fields = [*self.fields, KIND_FIELD] if file.delete_count else self.fields
        rows = read_run_within(DataFiles(self.store, counts=self.counts), RunPart(file, fields), room)
        if rows is None:
            raise FoundTooMuchError
        return to_run(rows, file)

    def read_by_key_ranges(self, files: Sequence[LiveFile]) -> Iterator[list[AlignedRows]]:
        """Reads the rows of files side by side, a row group of each at a time or less; see `read_aligned`."""
        parts = [RunPart(file, [*self.fields, KIND_FIELD, *self._pick_times(file)]) for file in files]
        data_files = DataFiles(self.store, counts=self.counts)
        yield from read_aligned(data_files, parts, self.policy.key, held_bytes=HELD_BYTES)

    def _pick_times(self, file: LiveFile) -> list[pa.Field]:
        return [TIME_FIELD, REPLACES_FIELD] if has_times(file, self.policy.sequence) else []

    def fold(
        self, base: Sequence[LiveFile], commits: Sequence[Sequence[MergeRun]], most_bytes: int | None = None
    ) -> list[pa.Table]:
        """Returns the changelog of each of some successive commits to the bucket.

        Args:
            base: The files that were live before the first of them.
            commits: The runs of each commit in their order.
            most_bytes: The most bytes of old rows in memory; None: no limit.

        Raises:
            FoundTooMuchError: The old rows take more.
            DataCorrupted: A file is damaged or missing; named.
        """
        found = self._look_up(base, commits, most_bytes)
        return fold_commits(None if found is None else found.run, commits, self.rules)

    def fold_one(
        self, base: Sequence[LiveFile], runs: Sequence[MergeRun], starts: Sequence[int]
    ) -> Iterator[FoldedPart]:
        """Returns the changelog of one commit to the bucket, and the rows that no read shows after it.

        Args:
            base: The files that were live before it.
            runs: The commit's rows, or a part of them with all rows of some keys, in its order; sorted by key.
            starts: The position in its file of each run's first row.

        Yields:
            The changes in parts, in the order of the keys, so that old rows of any size fit into memory.

        Raises:
            DataCorrupted: A file is damaged or missing; named.
        """
        try:
            part = self._fold_one(base, runs, starts)
        except FoundTooMuchError:
            counts = self._count_lower(runs)
        else:
            yield part
            return
        lower = [_slice(run, 0, count) for run, count in zip(runs, counts, strict=True)]
        upper = [_slice(run, count, run.table.num_rows) for run, count in zip(runs, counts, strict=True)]
        # The changes of one half are written before the other half is looked up.
        del runs
        yield from self.fold_one(base, lower, starts)
        yield from self.fold_one(base, upper, [start + count for start, count in zip(starts, counts, strict=True)])

    def _fold_one(self, base: Sequence[LiveFile], runs: Sequence[MergeRun], starts: Sequence[int]) -> FoldedPart:
        found = self._look_up(base, [runs], HELD_BYTES)
        folded = fold_commit(None if found is None else found.run, runs, self.rules)
        if folded.window != ANY_TIME:
            return FoldedPart(folded.changes, None, folded.window)
        deleted: list[RowIndices] = [np.empty(0, np.int64)] * len(base)
        if found is not None:
            gone = ~folded.base_shown
            deleted = [np.sort(found.indices[gone & (found.files == place)]) for place in range(len(base))]
        own = [start + np.flatnonzero(~shown) for start, shown in zip(starts, folded.shown, strict=True)]
        return FoldedPart(folded.changes, deleted + own, ANY_TIME)

    def _count_lower(self, runs: Sequence[MergeRun]) -> list[int]:
        """How many rows of each run have a key below the middle key of all runs."""
        tables = [pa.table(run.table).select(list(self.policy.key)) for run in runs]
        keys = pa.concat_tables(tables)
        codes = comparable_keys(keys.columns)
        distinct = np.unique(codes)
        assert len(distinct) > 1, "the record of a single key is never too much"
        ends = np.cumsum([table.num_rows for table in tables])
        middle = distinct[len(distinct) // 2]
        return [int(np.searchsorted(own, middle)) for own in np.split(codes, ends[:-1])]

    def _look_up(
        self, base: Sequence[LiveFile], commits: Sequence[Sequence[MergeRun]], most_bytes: int | None
    ) -> FoundRecords | None:
        if not base:
            return None
        assert self.copies is not None, "a detached read is not read"
        lookup = KeyLookup(self.store, self.schema, self.policy, self.copies, self.fields)
        return lookup.find(base, _distinct_keys(commits, self.policy.key), most_bytes)


@dataclass(frozen=True)
class FoldedPart:
    """The changes of a commit to some keys.

    Args:
        changes: The changes.
        deleted: For each file of the base, then for each run, rising positions in the file of rows that no read shows
            any more; None: the commit time decides.
        window: The commit times for which the changes are valid.
    """

    changes: pa.Table
    deleted: list[RowIndices] | None
    window: TimeWindow


def _slice(run: MergeRun, start: int, end: int) -> MergeRun:
    return replace(run, table=run.table.slice(start, end - start))


def to_run(rows: pa.Table, file: LiveFile) -> MergeRun:
    """A file's rows as a run: without kinds if no row is a delete, even if they were read with those of others."""
    if not file.delete_count and ROW_KIND_COLUMN in rows.schema.names:
        rows = rows.drop_columns([ROW_KIND_COLUMN])
    return MergeRun(rows, file.order_time_ms)


def group_by_bucket(files: Iterable[LiveFile]) -> dict[Bucket, list[LiveFile]]:
    """Groups files by bucket, in their order."""
    found: dict[Bucket, list[LiveFile]] = defaultdict(list)
    for file in files:
        found[file.partition, file.bucket].append(file)
    return dict(found)


def to_request_before(table_uuid: str, touching: Sequence[LiveFile]) -> PlanRequest:
    """Requests the state before a commit that only added files, for the buckets it touches. Pure.

    It is the live state at the commit without what it added (`leave_out_added`): the snapshot before it may have
    expired.

    Args:
        table_uuid: The table.
        touching: Files that the commit added, first, and perhaps later ones.
    """
    return to_plan_request(table_uuid, AtSnapshot(touching[0].added_snapshot), touching)


def leave_out_added(files: Sequence[LiveFile], snapshot_id: int) -> list[LiveFile]:
    """The files that were there before a snapshot, among those that are live at it. Pure."""
    return [file for file in files if file.added_snapshot != snapshot_id]


def to_plan_request(table_uuid: str, at: AtSnapshot | None, touching: Sequence[LiveFile]) -> PlanRequest:
    """Requests the files of a state that can hold the keys of some others. Pure."""
    partitions = {file.partition for file in touching}
    firsts, lasts = ([getattr(file, name) for file in touching] for name in ("min_key", "max_key"))
    return PlanRequest(
        table_uuid,
        at,
        buckets=tuple(sorted({file.bucket for file in touching})),
        partitions=tuple(sorted(partitions)) if len(partitions) <= NAMED_PARTITIONS else (),
        first_key=None if None in firsts else min(firsts),
        last_key=None if None in lasts else max(lasts),
    )


def _distinct_keys(commits: Sequence[Sequence[MergeRun]], key: Sequence[str]) -> pa.Table:
    """The keys that some commits touched, rising, each once."""
    tables = [pa.table(run.table).select(list(key)) for runs in commits for run in runs]
    keys = pa.concat_tables(tables).combine_chunks()
    _, first = np.unique(comparable_keys(keys.columns), return_index=True)
    return keys.take(pa.array(first))
