"""What is done with a bucket when somebody asks for its compaction, whether or not anything is due by itself."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakelog.format.compaction.bucket_plan import find_delete_horizon, plan_due, plan_full, plan_level_0
from lakelog.format.compaction.plan import AppendPlan, NoPlan
from lakelog.format.compaction.runs import to_bucket_files
from lakelog.format.compaction.settings import to_compaction_settings
from lakelog.format.compaction.small_files import plan_all_small_files
from lakelog.format.compaction.windows import plan_whole_bucket, plan_window
from lakelog.format.table import TableInfo
from lakelog.options.table_options import SEQUENCE_DELETE_RETENTION, SEQUENCE_FIELD
from lakelog.options.values import TableOptions


@dataclass(frozen=True)
class AskedWork:
    """What a compaction that is asked for would do with a bucket, as far as people want to know.

    Args:
        replaced_files: How many files are replaced or change their level.
        rewritten_bytes: How much is read and written anew.
        why: In a sentence for people.
    """

    replaced_files: int
    rewritten_bytes: int
    why: str


def plan_asked(files: pa.Table, info: TableInfo, *, full: bool, as_of_ms: int) -> AskedWork | NoPlan:
    """Plan the compaction of a bucket that somebody asks for. Pure.

    `full` compacts everything. Else it is what is due, or, where nothing is, all files of level 0; in an append table
    all small files, or the oldest window of neighbours where it has buckets.

    Args:
        files: Columns of `lakelog.format.files.FILE_SCHEMA`: all live files of the bucket, at least one.
        info: The table.
        full: Everything, whatever its sizes.
        as_of_ms: A time that no later commit lies before: that of the newest snapshot.

    Raises:
        InvalidArgument: The table's options contradict each other.
    """
    settings = to_compaction_settings(info.options, has_primary_key=bool(info.schema.primary_key))
    options = TableOptions(info.options)
    if not info.schema.primary_key:
        if options.bucket_count(False) > 0:
            window = plan_whole_bucket(files, settings) if full else plan_window(files, settings)
            return _describe([window]) if isinstance(window, AppendPlan) else NoPlan(window.reason)
        tasks = plan_all_small_files(files, settings)
        return _describe(tasks) if tasks else NoPlan("Fewer than two small files are there.")
    horizon_ms = None
    if options.get(SEQUENCE_FIELD):
        horizon_ms = find_delete_horizon(as_of_ms, options.get(SEQUENCE_DELETE_RETENTION))
    bucket = to_bucket_files(files)
    if full:
        found = plan_full(bucket, settings, why="A full compaction was asked for.", delete_horizon_ms=horizon_ms)
    else:
        # When it was last compacted as a whole is not known here, and what is asked for needs no interval.
        found = plan_due(bucket, settings, now_ms=as_of_ms, last_full_ms=as_of_ms, delete_horizon_ms=horizon_ms)
        if isinstance(found, NoPlan):
            found = plan_level_0(bucket, settings, delete_horizon_ms=horizon_ms)
    if isinstance(found, NoPlan):
        return found
    return AskedWork(len(found.file_ids), found.rewritten_bytes, found.why)


def _describe(tasks: list[AppendPlan] | tuple[AppendPlan, ...]) -> AskedWork:
    return AskedWork(sum(len(task.file_ids) for task in tasks), sum(task.size_bytes for task in tasks), tasks[0].why)
