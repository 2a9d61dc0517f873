"""What the tasks of a batch of changes read: a function of the metastore's state, whoever asks and however late.

Buckets are independent of each other, so that a task tells the changes of some buckets, commit by commit. Rows without
buckets have no order, and a task reads some files.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

from lakelog.change_plan import find_overwrites, pick_change_files
from lakelog.changes import plan_state_before
from lakelog.client.metastore import Metastore
from lakelog.format.filter import parse_filter
from lakelog.format.plan import AtSnapshot, InRange, Plan, PlanRequest
from lakelog.format.table import TableInfo
from lakelog.options.values import TableOptions
from lakelog.reading import State, plan_files
from lakelog.spark.stream.offsets import StreamOffset
from lakelog.spark.stream.tasks import ChangeSplit, PlannedStates
from lakelog.storage.live_file import LiveFile, to_live_files

_READ_BYTES: Final = 128 << 20
"""Of files that one task reads as they are, as in Spark's own sources."""

_TOLD_BYTES: Final = 32 << 20
"""Of new files that one task tells the changes of: for each row an old one is looked up."""

T = TypeVar("T")
Bucket: TypeAlias = tuple[bytes, int]


def plan_row_splits(
    metastore: Metastore, table: TableInfo, snapshot_id: int, since_ms: int | None, condition: str | None
) -> tuple[Plan, list[ChangeSplit]]:
    """The rows at a snapshot; with `since_ms` only those of files committed at or after this time. Blocks."""
    plan = _plan(metastore, table, AtSnapshot(snapshot_id), condition)
    files = [file for file in to_live_files(plan.files) if since_ms is None or file.order_time_ms >= since_ms]
    assert plan.snapshot is not None, "it was asked for by its number"
    whole = dataclasses.replace(plan.table, schema=plan.schema)
    times = {snapshot_id: plan.snapshot.committed_at_ms}
    return plan, [
        ChangeSplit(whole, tuple(group), times, rows_at=snapshot_id)
        for group in _group(_to_units(plan, files), _READ_BYTES)
    ]


def plan_change_splits(
    metastore: Metastore,
    table: TableInfo,
    after: int,
    until: int,
    condition: str | None,
    *,
    raw: bool,
    overwrites: bool,
    offset: StreamOffset | None = None,
) -> tuple[Plan, list[ChangeSplit]]:
    """What the snapshots behind `after`, up to and with `until`, changed; blocks.

    Args:
        metastore: Who plans.
        table: The table.
        after: Excluded.
        until: Included; greater than `after`.
        condition: Of the rows wanted; None: all.
        raw: Rows as they were written.
        overwrites: Also what overwrites changed.
        offset: Passes over the first of them; None: none is passed over.
    """
    plan = _plan(metastore, table, InRange(after, until), condition)
    if offset is not None:
        shown = tuple(each for each in plan.range_snapshots if not offset.passes_over(each))
        # Those passed over are the first ones, since ids and times rise.
        after = until if not shown else shown[0].snapshot_id - 1
        plan = dataclasses.replace(plan, range_snapshots=shown)
    files = pick_change_files(plan, raw=raw, overwrites=overwrites)
    whole = dataclasses.replace(plan.table, schema=plan.schema)
    times = {each.snapshot_id: each.committed_at_ms for each in plan.range_snapshots}
    if raw or not plan.schema.primary_key:
        return plan, [_to_split(whole, group, times) for group in _group(_to_units(plan, files), _READ_BYTES)]
    broken = find_overwrites(plan)
    states = {each: _by_bucket(held) for each, held in _plan_states(metastore, whole, files, after, broken, overwrites)}
    return plan, _to_keyed_splits(whole, files, states, broken, overwrites, times)


def plan_difference_splits(
    metastore: Metastore, table: TableInfo, before: int, until: int, condition: str | None
) -> list[ChangeSplit]:
    """What the states at two snapshots differ in, as if one had led to the other; blocks."""
    plan = _plan(metastore, table, AtSnapshot(until), None)
    if condition is not None:
        parse_filter(condition, plan.schema.arrow)
    assert plan.snapshot is not None, "it was asked for by its number"
    whole = dataclasses.replace(plan.table, schema=plan.schema)
    old = _ask(metastore, PlanRequest(table.table_uuid, AtSnapshot(before))) if before else []
    states = {until - 1: _by_bucket(old), until: _by_bucket(to_live_files(plan.files))}
    return _to_keyed_splits(whole, [], states, [until], True, {until: plan.snapshot.committed_at_ms})


def _plan(metastore: Metastore, table: TableInfo, at: State | InRange, condition: str | None) -> Plan:
    plan, _ = plan_files(
        metastore, table, at, lambda schema: None if condition is None else parse_filter(condition, schema.arrow)
    )
    return plan


def _to_split(table: TableInfo, files: Sequence[LiveFile], times: Mapping[int, int]) -> ChangeSplit:
    # By commit, however the buckets were put together.
    ordered = sorted(files, key=lambda file: (file.added_snapshot, file.partition, file.bucket, file.order_ordinal))
    return ChangeSplit(table, tuple(ordered), _times_of(files, times))


def _times_of(files: Sequence[LiveFile], times: Mapping[int, int]) -> dict[int, int]:
    return {each: times[each] for each in sorted({file.added_snapshot for file in files})}


def _to_keyed_splits(
    table: TableInfo,
    files: Sequence[LiveFile],
    by_state: Mapping[int, Mapping[Bucket, Sequence[LiveFile]]],
    broken: Sequence[int],
    overwrites: bool,
    times: Mapping[int, int],
) -> list[ChangeSplit]:
    new = _by_bucket(files)
    buckets = set(new)
    for each in broken if overwrites else ():
        # Where an overwrite changed nothing there is nothing to tell.
        old, kept = by_state[each - 1], by_state[each]
        buckets |= {bucket for bucket in {*old, *kept} if old.get(bucket) != kept.get(bucket)}
    units = []
    for bucket in sorted(buckets):
        replaced = [file for each in broken if overwrites for file in by_state[each].get(bucket, ())]
        units.append((bucket, sum(file.size_bytes for file in (*new.get(bucket, ()), *replaced))))
    splits = []
    for names in _pack(units, _TOLD_BYTES):
        added = tuple(file for file in files if (file.partition, file.bucket) in names)
        planned = {
            each: tuple(file for bucket in sorted(names) for file in found.get(bucket, ()))
            for each, found in by_state.items()
        }
        told = _times_of(added, times) | ({each: times[each] for each in broken} if overwrites else {})
        splits.append(
            ChangeSplit(
                table,
                added,
                told,
                states=PlannedStates(planned, added),
                overwrites=tuple(broken),
                shows_overwrites=overwrites,
            )
        )
    return splits


def _plan_states(
    metastore: Metastore,
    table: TableInfo,
    files: Sequence[LiveFile],
    after: int,
    broken: Sequence[int],
    overwrites: bool,
) -> Iterator[tuple[int, list[LiveFile]]]:
    """The states that tasks will ask for: where commits begin to follow each other, and around overwrites."""
    if overwrites:
        for each in broken:
            yield each, _ask(metastore, PlanRequest(table.table_uuid, AtSnapshot(each)))
            if each > 1:
                yield each - 1, _ask(metastore, PlanRequest(table.table_uuid, AtSnapshot(each - 1)))
            else:
                yield 0, []
    starts = [after, *broken]
    for place, start in enumerate(starts):
        if overwrites and start in broken:
            continue
        end = starts[place + 1] if place + 1 < len(starts) else None
        first = bisect.bisect_right(files, start, key=lambda file: file.added_snapshot)
        last = None if end is None else bisect.bisect_left(files, end, key=lambda file: file.added_snapshot)
        segment = files[first:last]
        if start == 0:
            yield 0, []
        elif segment:
            request = plan_state_before(table.table_uuid, segment)
            yield start, _ask(metastore, dataclasses.replace(request, at=AtSnapshot(start)))


def _ask(metastore: Metastore, request: PlanRequest) -> list[LiveFile]:
    return to_live_files(metastore.plan(request).files)


def _by_bucket(files: Sequence[LiveFile]) -> dict[Bucket, list[LiveFile]]:
    found: dict[Bucket, list[LiveFile]] = defaultdict(list)
    for file in files:
        found[file.partition, file.bucket].append(file)
    return dict(found)


def _to_units(plan: Plan, files: Sequence[LiveFile]) -> list[list[LiveFile]]:
    """What cannot be taken apart: a bucket, or a file of a table without buckets."""
    if TableOptions(plan.table.options).bucket_count(bool(plan.schema.primary_key)) > 0:
        return [found for _, found in sorted(_by_bucket(files).items())]
    return [[file] for file in files]


def _group(units: Sequence[Sequence[LiveFile]], size_bytes: int) -> Iterator[list[LiveFile]]:
    """Some units for each task."""
    sizes = [(place, sum(file.size_bytes for file in unit)) for place, unit in enumerate(units)]
    for places in _pack(sizes, size_bytes):
        yield [file for place in sorted(places) for file in units[place]]


def _pack(units: Sequence[tuple[T, int]], size_bytes: int) -> Iterator[set[T]]:
    """Neighbours, as many as are within a size, at least one."""
    held: set[T] = set()
    held_bytes = 0
    for unit, unit_bytes in units:
        if held and held_bytes + unit_bytes > size_bytes:
            yield held
            held, held_bytes = set(), 0
        held.add(unit)
        held_bytes += unit_bytes
    if held:
        yield held
