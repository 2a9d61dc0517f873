"""What the tasks of a batch of changes read: it depends only on the metastore's state, so every planning is the same.

Buckets are independent of each other, so a task emits the changes of some buckets, commit by commit. Rows without
buckets have no order, and a task reads some files.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.tables.plan import AtSnapshot, Plan, PlanRequest
from lakelog.format.tables.table import TableInfo
from lakelog.options.values import TableOptions
from lakelog.reads.change_plan import order_of_change, pick_shown_files
from lakelog.reads.change_range import ChangeRange, plan_range
from lakelog.reads.continued_columns import ContinuedColumns
from lakelog.reads.overwritten_rows import pick_new_rows
from lakelog.reads.reading import make_parser, plan_files
from lakelog.spark.executor.read_changes import ChangeSplit
from lakelog.spark.stream.keyed_splits import KeyedSegment, plan_segments, request_state, to_keyed_splits
from lakelog.spark.stream.log_splits import LogSplit, plan_log_splits
from lakelog.spark.stream.offsets import StreamOffset
from lakelog.spark.stream.packing import group_units, pick_times
from lakelog.storage.lookup.bucket_changes import group_by_bucket
from lakelog.storage.parquet.live_file import LiveFile, to_live_files

READ_BYTES: Final = 128 << 20
"""Size of the files that one task reads as they are, as in Spark's own sources."""


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
    continued: ContinuedColumns | None = None,
) -> tuple[Plan, list[ChangeSplit]]:
    """The tasks for what the snapshots after `after`, up to and including `until`, changed; blocks.

    Args:
        metastore: Plans the files.
        table: The table.
        after: Excluded.
        until: Included; greater than `after`.
        condition: The condition of the wanted rows; None: all.
        raw: Show rows as they were written.
        overwrites: Show what overwrites changed.
        offset: Skips the first of them; None: none is skipped.
        continued: The columns that a stream began with; None: the present ones.
    """
    changes, plan, whole = _plan_changes(metastore, table, after, until, condition, continued, raw=raw, offset=offset)
    return plan, _to_change_splits(metastore, changes, plan, whole, raw=raw, overwrites=overwrites)


def plan_logged_splits(
    metastore: Metastore,
    table: TableInfo,
    after: int,
    until: int,
    condition: str | None,
    *,
    overwrites: bool,
    offset: StreamOffset,
    continued: ContinuedColumns,
    requires_log: bool,
) -> tuple[Plan, Sequence[ChangeSplit] | Sequence[LogSplit]]:
    """As `plan_change_splits`, from the table's log if it has these snapshots; blocks.

    Args:
        metastore: As of `plan_change_splits`, as are all but the last one.
        table: A table with a log.
        after: See `metastore`.
        until: See `metastore`.
        condition: See `metastore`.
        overwrites: See `metastore`.
        offset: See `metastore`.
        continued: See `metastore`.
        requires_log: Whether the user requested the log: a process that may not read it gets an error.
    """
    changes, plan, whole = _plan_changes(metastore, table, after, until, condition, continued, raw=False, offset=offset)
    logged = plan_log_splits(
        metastore,
        changes,
        whole,
        plan.range_snapshots,
        condition,
        continued=continued,
        requires_log=requires_log,
        size_bytes=READ_BYTES,
    )
    if logged is not None:
        return plan, logged
    return plan, _to_change_splits(metastore, changes, plan, whole, raw=False, overwrites=overwrites)


def plan_difference_splits(
    metastore: Metastore, table: TableInfo, before: int, until: int, condition: str | None
) -> list[ChangeSplit]:
    """The tasks for the difference of two states, as if one had led to the other; blocks."""
    # Rows that the condition leaves out may have had other values, so it is only checked.
    plan, _ = plan_files(metastore, table, AtSnapshot(until), lambda _: None)
    make_parser(condition)(plan.schema)
    assert plan.snapshot is not None, "it was asked for by its number"
    whole = dataclasses.replace(plan.table, schema=plan.schema)
    old = request_state(metastore, PlanRequest(table.table_uuid, AtSnapshot(before))) if before else []
    states = {until - 1: group_by_bucket(old), until: group_by_bucket(to_live_files(plan.files))}
    segment = KeyedSegment((), states, (until,), shows_overwrites=True)
    return to_keyed_splits(whole, [segment], {until: plan.snapshot.committed_at_ms}, READ_BYTES)


def _plan_changes(
    metastore: Metastore,
    table: TableInfo,
    after: int,
    until: int,
    condition: str | None,
    continued: ContinuedColumns | None,
    *,
    raw: bool,
    offset: StreamOffset | None,
) -> tuple[ChangeRange, Plan, TableInfo]:
    """The files of a range, the plan with the shown snapshots, and the table with the schema to read with."""
    changes = plan_range(metastore, table, after, until, make_parser(condition), raw=raw, continued=continued)
    plan = changes.plan
    if offset is not None:
        shown = tuple(each for each in plan.range_snapshots if not offset.passes_over(each))
        plan = dataclasses.replace(plan, range_snapshots=shown)
    return changes, plan, dataclasses.replace(plan.table, schema=plan.schema)


def _to_change_splits(
    metastore: Metastore, changes: ChangeRange, plan: Plan, whole: TableInfo, *, raw: bool, overwrites: bool
) -> list[ChangeSplit]:
    times = {each.snapshot_id: each.committed_at_ms for each in plan.range_snapshots}
    if raw or not plan.schema.primary_key:
        files = pick_shown_files(changes.data, plan.range_snapshots, overwrites=overwrites)
        if overwrites and not plan.schema.primary_key:
            files = pick_new_rows(metastore, whole, files)
        return [_to_split(whole, group, times) for group in group_units(to_units(plan, files), READ_BYTES)]
    segments = plan_segments(metastore, changes, plan.range_snapshots, overwrites=overwrites)
    return to_keyed_splits(whole, segments, times, READ_BYTES)


def _to_split(table: TableInfo, files: Sequence[LiveFile], times: Mapping[int, int]) -> ChangeSplit:
    # By commit, however the buckets were distributed.
    ordered = sorted(files, key=order_of_change)
    return ChangeSplit(table, tuple(ordered), pick_times(files, times))


def to_units(plan: Plan, files: Sequence[LiveFile]) -> list[list[LiveFile]]:
    """What cannot be separated: a bucket, or a file of a table without buckets."""
    if TableOptions(plan.table.options).bucket_count(bool(plan.schema.primary_key)) > 0:
        return [found for _, found in sorted(group_by_bucket(files).items())]
    return [[file] for file in files]
