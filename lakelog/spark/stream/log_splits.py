"""The ranges of the topic's partitions that the tasks of a batch read, if its changes come from the table's log.

Both ends of a range are what publishers have reported to the metastore, so every planning of a batch gives the same
tasks. Each task also knows the files that show the same rows, and uses them if the log cannot be used.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql.datasource import InputPartition

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import NotFound
from lakelog.format.tables.plan import InRange
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.tables.table import TableInfo
from lakelog.reads.change_plan import order_of_change, pick_shown_files
from lakelog.reads.change_range import ChangeRange
from lakelog.reads.continued_columns import ContinuedColumns
from lakelog.reads.log.plan import has_topic_buckets, to_topic_partition
from lakelog.reads.log.sources import ChangeSource, ChangeSources
from lakelog.reads.reading import make_parser, plan_files
from lakelog.spark.executor.read_changes import ChangeSplit, PlannedStates
from lakelog.spark.stream.keyed_splits import (
    KeyedSegment,
    measure_segments,
    pick_keyed_split,
    plan_looked_up,
    plan_segments,
)
from lakelog.spark.stream.packing import pack, pick_times, sum_bytes
from lakelog.storage.lookup.bucket_changes import Bucket
from lakelog.storage.parquet.live_file import LiveFile, to_live_files

_MOST_SNAPSHOTS: Final = 10_000
"""Each task receives all of them; a stream that lags further reads files, and each task gets only its own."""


@dataclass(frozen=True)
class LogRange:
    """The place of some snapshots in a table's log.

    Args:
        topic: The topic's name.
        options: How its brokers are reached; secrets are references.
        starts: By partition, the offset before which they have no record.
        ends: Offsets after all of their records, or of later ones.
        is_even: Whether the topic had the same number of partitions all the time.
    """

    topic: str
    options: Mapping[str, str]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    is_even: bool


@dataclass
class LogSplit(InputPartition):
    """What one task reads of the log.

    Args:
        topic: The topic's name.
        options: As of `LogRange`.
        starts: By partition of the topic, where to begin.
        ends: Where to end, for the same partitions.
        source: How records become changes.
        snapshots: The snapshots whose records are shown, rising; for all buckets.
        states: The states before, for lookups of old rows; None: there are no lookups.
        requires_log: Whether the user requested the log: a process that may not read it gets an error.
        partitions: The topic's number of partitions; 0: it changed, so for rows without buckets it is unknown which
            file went to which.
        files: The files with the same rows.
    """

    topic: str
    options: Mapping[str, str]
    starts: Mapping[int, int]
    ends: Mapping[int, int]
    source: ChangeSource
    snapshots: tuple[Snapshot, ...]
    states: PlannedStates | None
    requires_log: bool
    partitions: int
    files: ChangeSplit


def find_common_source(sources: ChangeSources, snapshots: Sequence[Snapshot]) -> ChangeSource:
    """The common change source of some snapshots. Pure.

    FILES if they have different sources or are too many; NOTHING if none has changes.
    One task emits a bucket's changes in order, so a batch has only one source.
    """
    found = {sources.find(each) for each in snapshots} - {ChangeSource.NOTHING}
    if not found:
        return ChangeSource.NOTHING
    return found.pop() if len(found) == 1 and len(snapshots) <= _MOST_SNAPSHOTS else ChangeSource.FILES


def find_log_range(metastore: Metastore, table_uuid: str, after: int, until: int) -> LogRange | None:
    """The place in the log of the snapshots after `after` up to and including `until`; asks the metastore.

    Returns:
        None: they are not (all) in the log, or their place is unknown.
    """
    try:
        info = metastore.get_log(table_uuid)
        # If a snapshot's own end was not reported, the next known end is after it.
        ends = metastore.list_log_offsets(table_uuid, after=until - 1, limit=1)
        # Read after the ends: the start of a generation is final once something of it is published.
        begin = metastore.find_log_offsets(table_uuid, until=after)
        is_same = metastore.get_publish_state(table_uuid).generation == info.generation
    except NotFound as error:
        if error.reason == "TABLE_NOT_FOUND":
            raise
        # The table has no log any more.
        return None
    # Records before the first snapshot of a later generation belong to another history.
    is_known = begin is not None or info.generation == 1
    if not ends or not is_same or not is_known or after < info.starts_after:
        return None
    starts = () if begin is None else begin.offsets
    # A partition without a known place is read completely.
    added = (0,) * (len(ends[0].offsets) - len(starts))
    # Topics never lose a partition.
    is_even = not added or len(ends[0].offsets) == 1
    return LogRange(info.topic, info.options, (*starts, *added), ends[0].offsets, is_even)


def plan_log_splits(
    metastore: Metastore,
    changes: ChangeRange,
    table: TableInfo,
    snapshots: Sequence[Snapshot],
    condition: str | None,
    *,
    continued: ContinuedColumns,
    requires_log: bool,
    size_bytes: int,
) -> list[LogSplit] | None:
    """Plans the tasks of a batch from the log, each with adjacent partitions of the topic; blocks on the metastore.

    Args:
        metastore: Plans the states.
        changes: The files of the batch's snapshots.
        table: The table, with the schema to read with.
        snapshots: The shown snapshots, rising.
        condition: The condition of the wanted rows; None: all.
        continued: The columns that the stream began with.
        requires_log: As of `LogSplit`.
        size_bytes: The size of the files that one task would read instead.

    Returns:
        None: these snapshots come from files.
    """
    sources = ChangeSources.of(table)
    source = find_common_source(sources, snapshots)
    if source in (ChangeSource.FILES, ChangeSource.NOTHING):
        return None
    # Tasks need not know all of them.
    shown = tuple(
        dataclasses.replace(each, properties={}, co_committed={})
        for each in snapshots
        if sources.find(each) is not ChangeSource.NOTHING
    )
    found = find_log_range(metastore, table.table_uuid, shown[0].snapshot_id - 1, shown[-1].snapshot_id)
    return (
        None
        if found is None
        else _Planner(metastore, changes, table, shown, found, source, continued, requires_log).plan(
            condition, size_bytes
        )
    )


@dataclass(frozen=True)
class _Planner:
    """Plans the tasks of one batch from the log.

    Args:
        metastore: Plans the states.
        changes: The files of the batch's snapshots.
        table: The table, with the schema to read with.
        snapshots: The shown snapshots.
        range: Their place in the log.
        source: Their change source.
        continued: As of `plan_log_splits`.
        requires_log: As of `LogSplit`.
    """

    metastore: Metastore
    changes: ChangeRange
    table: TableInfo
    snapshots: tuple[Snapshot, ...]
    range: LogRange
    source: ChangeSource
    continued: ContinuedColumns
    requires_log: bool

    def plan(self, condition: str | None, size_bytes: int) -> list[LogSplit] | None:
        """As `plan_log_splits`."""
        if not self.table.schema.primary_key:
            return self._plan_appended(size_bytes)
        segments = plan_segments(self.metastore, self.changes, self.snapshots, overwrites=False)
        if len(segments) != 1:
            return None
        states = self._plan_states(condition) if self.source is ChangeSource.LOOKED_UP else None
        times = {each.snapshot_id: each.committed_at_ms for each in self.snapshots}
        buckets: defaultdict[int, set[Bucket]] = defaultdict(set)
        sizes: defaultdict[int, int] = defaultdict(int)
        for bucket, size in measure_segments(segments).items():
            buckets[bucket[1]].add(bucket)
            sizes[bucket[1]] += size
        if max(sizes, default=0) >= len(self.range.ends):
            return None
        splits = []
        for numbers in pack(sorted(sizes.items()), size_bytes):
            own = {bucket for number in numbers for bucket in buckets[number]}
            files = pick_keyed_split(self.table, segments, own, times)
            found = files.parts[0].states if states is None else states.pick_part(own).states
            splits.append(self._to_split(sorted(numbers), found, files))
        return splits

    def _plan_appended(self, size_bytes: int) -> list[LogSplit] | None:
        count = len(self.range.ends)
        has_buckets = has_topic_buckets(self.table)
        shown = pick_shown_files(self.changes.data, self.snapshots)
        units: defaultdict[int, list[LiveFile]] = defaultdict(list)
        for file in shown:
            units[to_topic_partition(file, count, has_buckets=has_buckets)].append(file)
        if has_buckets and max(units, default=0) >= count:
            return None
        if not has_buckets and not self.range.is_even:
            # All files, because it is unknown which file went to which partition.
            read = [each for each in range(count) if self.range.starts[each] < self.range.ends[each]]
            return [self._to_appended(read, shown)] if sum_bytes(shown) <= size_bytes else None
        packed = pack([(each, sum_bytes(files)) for each, files in sorted(units.items())], size_bytes)
        return [
            self._to_appended(sorted(numbers), [file for each in numbers for file in units[each]]) for numbers in packed
        ]

    def _to_appended(self, numbers: Sequence[int], files: Sequence[LiveFile]) -> LogSplit:
        times = {each.snapshot_id: each.committed_at_ms for each in self.snapshots}
        ordered = tuple(sorted(files, key=order_of_change))
        return self._to_split(numbers, None, ChangeSplit(self.table, ordered, pick_times(ordered, times)))

    def _plan_states(self, condition: str | None) -> KeyedSegment:
        first, last = self.snapshots[0].snapshot_id, self.snapshots[-1].snapshot_id
        at, parse = InRange(first - 1, last), make_parser(condition)
        plan, _ = plan_files(self.metastore, self.table, at, parse, continued=self.continued)
        data = to_live_files(plan.files)
        return plan_looked_up(self.metastore, self.table.table_uuid, data, self.snapshots, overwrites=False)

    def _to_split(self, numbers: Sequence[int], states: PlannedStates | None, files: ChangeSplit) -> LogSplit:
        return LogSplit(
            topic=self.range.topic,
            options=self.range.options,
            starts={each: self.range.starts[each] for each in numbers},
            ends={each: self.range.ends[each] for each in numbers},
            source=self.source,
            snapshots=self.snapshots,
            states=states,
            requires_log=self.requires_log,
            partitions=len(self.range.ends) if self.range.is_even else 0,
            files=files,
        )
