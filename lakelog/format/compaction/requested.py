"""The work on a bucket by a strategy: for compactors, and as a preview for people who request it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakelog.format.compaction.bucket_plan import find_delete_horizon, plan_due, plan_full, plan_level_0
from lakelog.format.compaction.plan import AppendPlan, BucketPlan, NoPlan
from lakelog.format.compaction.removed_rows import plan_removed_rows
from lakelog.format.compaction.runs import BucketFiles, to_bucket_files
from lakelog.format.compaction.settings import CompactionSettings, to_compaction_settings
from lakelog.format.compaction.small_files import SmallFileState, add_files, plan_all_small_files, plan_small_files
from lakelog.format.compaction.windows import plan_whole_bucket, plan_window
from lakelog.format.jobs.job import DUE, FULL, MINOR
from lakelog.format.tables.table import TableInfo
from lakelog.options.declared.tables import SEQUENCE_DELETE_RETENTION, SEQUENCE_FIELD
from lakelog.options.values import TableOptions


@dataclass(frozen=True)
class RequestedWork:
    """What a requested compaction would do with a bucket, as far as people want to know.

    Args:
        replaced_files: How many files are replaced or change their level.
        rewritten_bytes: How many bytes are read and written again.
        why: The reason, in a sentence for people.
    """

    replaced_files: int
    rewritten_bytes: int
    why: str


def plan_requested(files: pa.Table, info: TableInfo, *, full: bool, as_of_ms: int) -> RequestedWork | NoPlan:
    """Plans the requested compaction of a bucket. Pure.

    `full` compacts everything. Else it is what is due, or, if nothing is, all files of level 0; in an append table all
    small files, or the oldest window of adjacent files if it has buckets. Files of append tables with removed rows are
    rewritten as well: with `full` each of them, else those with many.

    Args:
        files: Columns of `lakelog.format.tables.files.FILE_SCHEMA`: all live files of the bucket, at least one.
        info: The table.
        full: Everything, whatever its sizes.
        as_of_ms: A time before which no later commit can be: that of the newest snapshot.

    Raises:
        InvalidArgument: The table's options contradict each other.
    """
    found = plan_bucket(files, info, FULL if full else MINOR, as_of_ms=as_of_ms)
    if isinstance(found, BucketPlan):
        return RequestedWork(len(found.file_ids), found.rewritten_bytes, found.why)
    return found if isinstance(found, NoPlan) else _describe(found)


def plan_bucket(
    files: pa.Table, info: TableInfo, strategy: str, *, as_of_ms: int, has_waited: bool = False
) -> BucketPlan | tuple[AppendPlan, ...] | NoPlan:
    """Plans the compaction of a bucket by a strategy of `lakelog.format.jobs.job`. Pure.

    Args:
        files: Columns of `lakelog.format.tables.files.FILE_SCHEMA`: all live files of the bucket, at least one; for a
            table without key and buckets the small ones are enough.
        info: The table.
        strategy: `due`, `minor` or `full`.
        as_of_ms: As of `plan_requested`.
        has_waited: In a table without key and buckets: all small files are `due`, since no others came.

    Returns:
        One plan for a bucket with a primary key; for an append table one or several independent ones.

    Raises:
        InvalidArgument: The table's options contradict each other.
    """
    has_key = bool(info.schema.primary_key)
    settings, options = to_compaction_settings(info.options, has_primary_key=has_key), TableOptions(info.options)
    if has_key:
        return _plan_keyed(to_bucket_files(files), settings, options, strategy, as_of_ms)
    has_buckets = options.bucket_count(False) > 0
    found = _plan_append(files, settings, strategy, has_buckets=has_buckets, has_waited=has_waited)
    plans = () if isinstance(found, NoPlan) else found
    taken = {file_id for plan in plans for file_id in plan.file_ids}
    return (*plans, *plan_removed_rows(files, taken, full=strategy == FULL, ordered=has_buckets)) or found


def _plan_append(
    files: pa.Table, settings: CompactionSettings, strategy: str, *, has_buckets: bool, has_waited: bool
) -> tuple[AppendPlan, ...] | NoPlan:
    """The plans for small files."""
    if has_buckets:
        window = plan_whole_bucket(files, settings) if strategy == FULL else plan_window(files, settings)
        return (window,) if isinstance(window, AppendPlan) else NoPlan(window.reason)
    if strategy != DUE or has_waited:
        return plan_all_small_files(files, settings, only_alike=strategy == DUE) or NoPlan(
            "Fewer than two small files are there."
        )
    scan = plan_small_files(add_files(SmallFileState(), files, settings), settings)
    return scan.plans or NoPlan(scan.reason)


def _plan_keyed(
    files: BucketFiles, settings: CompactionSettings, options: TableOptions, strategy: str, as_of_ms: int
) -> BucketPlan | NoPlan:
    horizon_ms = None
    if options.get(SEQUENCE_FIELD):
        horizon_ms = find_delete_horizon(as_of_ms, options.get(SEQUENCE_DELETE_RETENTION))
    if strategy == FULL:
        return plan_full(files, settings, why="A full compaction was asked for.", delete_horizon_ms=horizon_ms)
    # The last compaction of the whole bucket is not known here, and a request needs no interval.
    found = plan_due(files, settings, now_ms=as_of_ms, last_full_ms=as_of_ms, delete_horizon_ms=horizon_ms)
    if isinstance(found, NoPlan) and strategy == MINOR:
        return plan_level_0(files, settings, delete_horizon_ms=horizon_ms)
    return found


def _describe(tasks: tuple[AppendPlan, ...]) -> RequestedWork:
    return RequestedWork(
        sum(len(task.file_ids) for task in tasks), sum(task.size_bytes for task in tasks), tasks[0].why
    )
