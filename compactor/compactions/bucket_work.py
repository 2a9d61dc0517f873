"""The compaction of one bucket: planned on the files that are live now, done task by task, committed in groups.

      live files -> plan (pure, `lakelog.format.compaction`) -> rewrite tasks, each on its own -> one group for each
      task

Rewrite tasks share no keys, or have no order: each of them is committed or dropped without the others.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.commit.request import BucketRef, Change, CompactionGroup
from lakelog.format.compaction.plan import BucketPlan, NoPlan
from lakelog.format.compaction.requested import plan_bucket
from lakelog.format.compaction.settings import to_compaction_settings
from lakelog.format.jobs import job
from lakelog.format.merge.sections import KeyRange, do_meet, find_hull
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.plan import Plan, PlanRequest
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.tables.table import TableInfo
from lakelog.options.values import TableOptions
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.live_file import LiveFile, to_live_files
from lakelog.storage.rewrite.append import FileRewrite, rewrite_files
from lakelog.storage.rewrite.full import EmissionRewrite, rewrite_and_emit
from lakelog.storage.rewrite.runs import RunRewrite, rewrite_runs
from lakelog.writes.change import to_compaction_change

MAX_GROUPS: Final = 1000
"""Groups of one commit: the metastore takes no more."""


class Strategy(enum.Enum):
    """Which files of a bucket are compacted."""

    DUE = job.DUE
    """Those that their sizes and the table's options make due."""
    MINOR = job.MINOR
    """Those, or else all that writers have written since the last compaction."""
    FULL = job.FULL
    """All files, to the highest level."""


@dataclass(frozen=True)
class RewriteTask:
    """Files that are rewritten together by one worker. Picklable.

    Args:
        rewrite: What to read and write.
        why: The reason, in a sentence for people.
    """

    rewrite: RunRewrite | FileRewrite | EmissionRewrite
    why: str

    @property
    def inputs(self) -> tuple[LiveFile, ...]:
        """The files that are replaced."""
        return self.rewrite.inputs

    @property
    def size_bytes(self) -> int:
        """The size of the files that are replaced."""
        return sum(file.size_bytes for file in self.inputs)


@dataclass(frozen=True)
class BucketWork:
    """What a compaction of a bucket does.

    Args:
        info: The table, as it was when this was planned.
        planned_at: The snapshot whose files it is about.
        bucket: The bucket.
        level: The level of all files that are written and moved.
        rewrite_tasks: The tasks, in any order.
        moved: Ids of files that only change their level.
        why: The reason, in a sentence for people.
        run_count: How many sorted runs the bucket had; 0 without a primary key.
        moved_new_bytes: The size of those moved files that no compaction has taken before.
        is_full: All of the bucket's files end at its highest level.
    """

    info: TableInfo
    planned_at: Snapshot
    bucket: BucketRef
    level: int
    rewrite_tasks: tuple[RewriteTask, ...]
    moved: tuple[int, ...]
    why: str
    run_count: int = 0
    moved_new_bytes: int = 0
    is_full: bool = False


@dataclass(frozen=True)
class RewrittenTask:
    """A rewrite task and the files it wrote: none where no row was left, or no change is to be emitted."""

    rewrite_task: RewriteTask
    files: tuple[DataFile, ...]
    changelog: tuple[DataFile, ...] = ()


def list_bucket(metastore: Metastore, info: TableInfo, bucket: BucketRef, payload: Mapping[str, str]) -> Plan:
    """The live files of a bucket now; in a table without key and buckets, those that the job may concern.

    Raises:
        NotFound: There is no such table.
        InvalidArgument: The table's options contradict each other.
    """
    partitions = (bucket.partition,) if bucket.partition else ()
    request = PlanRequest(info.table_uuid, buckets=(bucket.bucket,), partitions=partitions)
    if not info.schema.primary_key and TableOptions(info.options).bucket_count(False) < 1:
        request = replace(request, buckets=())
        # Large files count, too, if rows of them may have been removed.
        if payload.get(job.STRATEGY, job.DUE) == job.DUE and job.REMOVED_ROWS not in payload:
            request = replace(
                request,
                below_bytes=to_compaction_settings(info.options, has_primary_key=False).small_file_bytes,
                added_after=int(payload.get(job.ADDED_AFTER, "0")),
            )
    return metastore.plan(request)


def plan_work(plan: Plan, bucket: BucketRef, strategy: Strategy, *, has_waited: bool = False) -> BucketWork | NoPlan:
    """Plan the compaction of a bucket. Pure.

    Args:
        plan: The live files of the bucket, and nothing else.
        bucket: The bucket.
        strategy: Which of its files.
        has_waited: As in `lakelog.format.compaction.requested.plan_bucket`.

    Raises:
        InvalidArgument: The table's options contradict each other.
    """
    if plan.snapshot is None or plan.files.num_rows == 0:
        return NoPlan("The bucket has no files.")
    info = plan.table
    found = plan_bucket(plan.files, info, strategy.value, as_of_ms=plan.snapshot.committed_at_ms, has_waited=has_waited)
    if isinstance(found, NoPlan):
        return found
    files = {file.file_id: file for file in to_live_files(plan.files)}
    if isinstance(found, BucketPlan):
        rewrite_tasks = tuple(
            RewriteTask(
                to_run_rewrite(number, each.file_ids, found.output_level, files, plan.snapshot.committed_at_ms),
                each.why,
            )
            for number, each in enumerate(found.rewrites)
        )
        moved = tuple(move.file_id for move in found.moves)
        levels = [file.level for file in files.values()]
        run_count = levels.count(0) + len({level for level in levels if level})
        new_bytes = count_new_bytes([files[file_id] for file_id in moved])
        level, is_full = found.output_level, found.is_full
        return BucketWork(
            info, plan.snapshot, bucket, level, rewrite_tasks, moved, found.why, run_count, new_bytes, is_full
        )
    rewrite_tasks = tuple(
        RewriteTask(FileRewrite(f"compact-{number:05d}", tuple(files[file_id] for file_id in each.file_ids)), each.why)
        for number, each in enumerate(found)
    )
    return BucketWork(info, plan.snapshot, bucket, 0, rewrite_tasks, (), found[0].why)


def count_new_bytes(files: Iterable[LiveFile]) -> int:
    """The size of those files that no compaction has written or moved before. Pure.

    Their order key is that of the commit that added them; or they got deletion vectors since, at level 0.
    """
    return sum(
        file.size_bytes
        for file in files
        if file.added_snapshot == file.order_snapshot or (file.level == 0 and file.deletion_vector_path is not None)
    )


def run_rewrite_task(store: ObjectStore, info: TableInfo, attempt_id: str, rewrite_task: RewriteTask) -> RewrittenTask:
    """Writes the files that replace a task's inputs; blocks. A failure leaves no files.

    Raises:
        DataCorrupted: A data file is damaged or missing; the error names it.
        LakelogError: The store failed.
    """
    options, rewrite = TableOptions(info.options), rewrite_task.rewrite
    if isinstance(rewrite, EmissionRewrite):
        done = rewrite_and_emit(store, info.schema, options, attempt_id, rewrite)
        return RewrittenTask(rewrite_task, done.files, done.changelog_files)
    if isinstance(rewrite, RunRewrite):
        return RewrittenTask(rewrite_task, rewrite_runs(store, info.schema, options, attempt_id, rewrite))
    return RewrittenTask(rewrite_task, rewrite_files(store, info.schema, options, attempt_id, rewrite))


def to_work_change(work: BucketWork, done: Sequence[RewrittenTask], moved: Sequence[int]) -> Change:
    """What is committed of a compaction: a group for each task, and as many as possible for moved files. Pure.

    Args:
        work: The compaction.
        done: Some of its tasks, fewer than `MAX_GROUPS`.
        moved: Which of its files are moved with them.
    """
    groups = [_to_group(work, each) for each in done]
    room = MAX_GROUPS - len(groups)
    size = -(-len(moved) // room)
    groups += [
        CompactionGroup(work.bucket, moves=tuple(moved[start : start + size]), level=work.level, is_full=work.is_full)
        for start in range(0, len(moved), max(size, 1))
    ]
    return to_compaction_change(
        work.info,
        work.planned_at,
        groups,
        [file for each in done for file in each.files],
        [file for each in done for file in each.changelog],
    )


def _to_group(work: BucketWork, done: RewrittenTask) -> CompactionGroup:
    group = CompactionGroup(
        work.bucket,
        tuple(file.file_id for file in done.rewrite_task.inputs),
        len(done.files),
        level=work.level,
        is_full=work.is_full,
    )
    rewrite = done.rewrite_task.rewrite
    if not isinstance(rewrite, EmissionRewrite):
        return group
    return replace(
        group,
        moves=() if rewrite.moved is None else (rewrite.moved.file_id,),
        changelog_count=len(done.changelog),
        emits_changelog=True,
        baseline=tuple(file.file_id for file in rewrite.baseline),
    )


def to_run_rewrite(
    number: int, file_ids: Collection[int], level: int, files: Mapping[int, LiveFile], base_time_ms: int
) -> RunRewrite:
    """A rewrite of some files of a bucket. Pure.

    Args:
        number: Its number among the rewrites of the plan.
        file_ids: Its inputs.
        level: The level of the files it writes.
        files: All live files of the bucket by id, in a plan's order.
        base_time_ms: When the plan's snapshot was committed.
    """
    chosen = set(file_ids)
    # In the plan's order, which `files` has.
    inputs = tuple(file for file_id, file in files.items() if file_id in chosen)
    hull = find_hull([KeyRange(file.min_key, file.max_key) for file in inputs])
    rest = tuple(
        file
        for file_id, file in files.items()
        if file_id not in chosen and do_meet(hull, KeyRange(file.min_key, file.max_key))
    )
    return RunRewrite(f"compact-{number:05d}", inputs, rest, base_time_ms, level)
