"""The tasks for the changes of a table with a primary key: each emits those of some buckets, commit by commit.

Snapshots with a changelog are read from it; for the others, the states in which old rows are looked up are planned. If
a range has both kinds, a task processes them in sequence, so a bucket's changes stay in order.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.tables.plan import AtSnapshot, PlanRequest
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.tables.table import TableInfo
from lakelog.reads.change_plan import find_overwrites, pick_shown_files, split_by_changelog
from lakelog.reads.change_range import ChangeRange
from lakelog.spark.executor.read_changes import ChangePart, ChangeSplit, PlannedStates
from lakelog.spark.stream.packing import pack, pick_times, sum_bytes
from lakelog.storage.lookup.bucket_changes import Bucket, group_by_bucket, leave_out_added, to_request_before
from lakelog.storage.parquet.live_file import LiveFile, to_live_files

_LOOKUP_COST: Final = 4
"""A file whose changes need lookups of old rows is as much work as this many files of its size that are only read."""


@dataclass(frozen=True)
class KeyedSegment:
    """Successive snapshots that are read in one way.

    Args:
        files: Their files, by commit, then in the order of their buckets.
        states: The files of the needed states, by snapshot and bucket; None: `files` are changelog files.
        overwrites: Ids of the snapshots that replaced rows, rising.
        shows_overwrites: Whether to show what these changed.
    """

    files: Sequence[LiveFile]
    states: Mapping[int, Mapping[Bucket, Sequence[LiveFile]]] | None
    overwrites: Sequence[int] = ()
    shows_overwrites: bool = False

    @cached_property
    def bucket_sizes(self) -> Mapping[Bucket, int]:
        """The buckets with changes, each with the number of bytes to read for it."""
        sizes = {bucket: sum_bytes(files) for bucket, files in group_by_bucket(self.files).items()}
        if self.states is None:
            return sizes
        found: defaultdict[Bucket, int] = defaultdict(int, sizes)
        for each in self.overwrites if self.shows_overwrites else ():
            # A bucket in which an overwrite changed nothing has no changes.
            old, kept = self.states[each - 1], self.states[each]
            for bucket in {*old, *kept}:
                if old.get(bucket) != kept.get(bucket):
                    found[bucket] += sum_bytes(kept.get(bucket, ()))
        return {bucket: size * _LOOKUP_COST for bucket, size in found.items()}

    def pick_part(self, buckets: Set[Bucket]) -> ChangePart:
        """What a task that emits the changes of some buckets needs."""
        added = tuple(file for file in self.files if (file.partition, file.bucket) in buckets)
        if self.states is None:
            return ChangePart(added)
        planned = {
            each: tuple(file for bucket in sorted(buckets) for file in found.get(bucket, ()))
            for each, found in self.states.items()
        }
        return ChangePart(added, PlannedStates(planned, added), tuple(self.overwrites), self.shows_overwrites)


def plan_segments(
    metastore: Metastore, changes: ChangeRange, snapshots: Sequence[Snapshot], *, overwrites: bool
) -> list[KeyedSegment]:
    """Splits snapshots by how they are read, and requests the states that tasks need; blocks.

    Args:
        metastore: Plans the states.
        changes: The files of the range.
        snapshots: The snapshots of the range that are shown, rising.
        overwrites: Whether to show what overwrites changed.
    """
    uuid = changes.plan.table.table_uuid
    segments = []
    for has_changelog, group in split_by_changelog(snapshots):
        if has_changelog:
            shown = pick_shown_files(changes.changelog, group, overwrites=overwrites, changelog=True)
            segments.append(KeyedSegment(shown, None))
            continue
        segments.append(plan_looked_up(metastore, uuid, changes.data, group, overwrites=overwrites))
    return segments


def plan_looked_up(
    metastore: Metastore, table_uuid: str, data: Sequence[LiveFile], snapshots: Sequence[Snapshot], *, overwrites: bool
) -> KeyedSegment:
    """Requests the states for lookups of old rows of some snapshots, given the data files of the range."""
    files = pick_shown_files(data, snapshots)
    broken = find_overwrites(snapshots)
    states = _plan_states(metastore, table_uuid, files, snapshots[0].snapshot_id - 1, broken, overwrites)
    by_bucket = {each: group_by_bucket(held) for each, held in states}
    return KeyedSegment(files, by_bucket, broken, overwrites)


def to_keyed_splits(
    table: TableInfo, segments: Sequence[KeyedSegment], times_ms: Mapping[int, int], size_bytes: int
) -> list[ChangeSplit]:
    """The tasks that emit the changes of some segments. Pure.

    Args:
        table: The table, with the schema to read with.
        segments: The segments in sequence.
        times_ms: The commit times of their snapshots.
        size_bytes: The size of the changelog files that one task reads.
    """
    sizes = measure_segments(segments)
    return [pick_keyed_split(table, segments, buckets, times_ms) for buckets in pack(sorted(sizes.items()), size_bytes)]


def measure_segments(segments: Sequence[KeyedSegment]) -> dict[Bucket, int]:
    """The buckets with changes in some segments, each with the number of bytes to read for it."""
    sizes: defaultdict[Bucket, int] = defaultdict(int)
    for segment in segments:
        for bucket, size in segment.bucket_sizes.items():
            sizes[bucket] += size
    return dict(sizes)


def pick_keyed_split(
    table: TableInfo, segments: Sequence[KeyedSegment], buckets: Set[Bucket], times_ms: Mapping[int, int]
) -> ChangeSplit:
    """The task that emits the changes of some buckets. Pure; arguments as of `to_keyed_splits`."""
    changes = [segment.pick_part(buckets) for segment in segments if not buckets.isdisjoint(segment.bucket_sizes)]
    shown = [each for part in changes if part.shows_overwrites for each in part.overwrites]
    times = pick_times([file for part in changes for file in part.files], times_ms)
    return ChangeSplit(table, (), times | {each: times_ms[each] for each in shown}, parts=tuple(changes))


def _plan_states(
    metastore: Metastore,
    table_uuid: str,
    files: Sequence[LiveFile],
    after: int,
    broken: Sequence[int],
    overwrites: bool,
) -> Iterator[tuple[int, list[LiveFile]]]:
    """The states that tasks need: before each sequence of commits, and around overwrites."""
    if overwrites:
        for each in broken:
            yield each, request_state(metastore, PlanRequest(table_uuid, AtSnapshot(each)))
            if each > 1:
                yield each - 1, request_state(metastore, PlanRequest(table_uuid, AtSnapshot(each - 1)))
            else:
                yield 0, []
    starts = [after, *broken]
    for place, start in enumerate(starts):
        if overwrites and start in broken:
            continue
        end = starts[place + 1] if place + 1 < len(starts) else None
        first = bisect.bisect_right(files, start, key=lambda file: file.added_snapshot)
        last = None if end is None else bisect.bisect_left(files, end, key=lambda file: file.added_snapshot)
        followers = files[first:last]
        if start == 0:
            yield 0, []
        elif followers:
            live = request_state(metastore, to_request_before(table_uuid, followers))
            yield start, leave_out_added(live, followers[0].added_snapshot)


def request_state(metastore: Metastore, request: PlanRequest) -> list[LiveFile]:
    """Requests the live files of a state; blocks."""
    return to_live_files(metastore.plan(request).files)
