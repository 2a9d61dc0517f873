"""The compaction of a bucket whose full compactions emit what has changed since the last one (semantics 3.6).

All files at the highest level are in the baseline, and no other compaction writes there. So every compaction that ends
at the highest level emits changes, whether it was requested or due. Changes that are compacted below it are emitted
later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import SnapshotExpired
from lakelog.format.commit.request import BucketRef
from lakelog.format.compaction.baseline import EmissionPart, plan_emission
from lakelog.format.compaction.picking import find_highest_level
from lakelog.format.compaction.plan import BucketPlan, NoPlan
from lakelog.format.compaction.requested import plan_bucket
from lakelog.format.compaction.runs import BucketFiles, to_bucket_files
from lakelog.format.compaction.settings import to_compaction_settings
from lakelog.format.merge.sections import KeyRange
from lakelog.format.tables.plan import AtSnapshot, Plan, PlanRequest
from lakelog.format.tables.table import TableInfo
from lakelog.options.declared.tables import CHANGELOG_PRODUCER, FULL_COMPACTION
from lakelog.options.values import TableOptions
from lakelog.storage.parquet.live_file import LiveFile, to_live_files
from lakelog.storage.rewrite.full import EmissionRewrite

from .bucket_work import BucketWork, RewriteTask, Strategy, list_bucket, plan_work, to_run_rewrite


def plan_next(
    metastore: Metastore,
    info: TableInfo,
    bucket: BucketRef,
    strategy: Strategy,
    payload: Mapping[str, str] = MappingProxyType({}),
    *,
    has_waited: bool = False,
) -> BucketWork | NoPlan:
    """Plans the next compaction of a bucket; blocks on the metastore.

    Args:
        metastore: Lists its files.
        info: The table.
        bucket: The bucket.
        strategy: Which of its files.
        payload: The job's payload.
        has_waited: As in `lakelog.format.compaction.requested.plan_bucket`.

    Raises:
        NotFound: There is no such table.
        InvalidArgument: The table's options contradict each other.
    """
    while True:
        live = list_bucket(metastore, info, bucket, payload)
        if live.snapshot is None or not _defers_changelog(live.table):
            return plan_work(live, bucket, strategy, has_waited=has_waited)
        partitions = (bucket.partition,) if bucket.partition else ()
        at = AtSnapshot(live.snapshot.snapshot_id)
        request = PlanRequest(info.table_uuid, at, buckets=(bucket.bucket,), partitions=partitions, baseline=True)
        try:
            baseline = to_live_files(metastore.plan(request).files)
        except SnapshotExpired:
            # It took very long; the live files have changed since.
            continue
        return plan_emission_work(live, bucket, strategy, baseline)


def plan_emission_work(
    plan: Plan, bucket: BucketRef, strategy: Strategy, baseline: Sequence[LiveFile]
) -> BucketWork | NoPlan:
    """Plan the compaction of a bucket whose full compactions emit what has changed. Pure.

    Args:
        plan: The live files of the bucket, and nothing else.
        bucket: The bucket.
        strategy: Which of its files.
        baseline: The files of the baseline at the plan's snapshot, live or not, in a plan's order.

    Raises:
        InvalidArgument: The table's options contradict each other.
    """
    assert plan.snapshot is not None, "a bucket without snapshots has nothing to tell"
    as_of_ms = plan.snapshot.committed_at_ms
    settings = to_compaction_settings(plan.table.options, has_primary_key=True)
    files: BucketFiles | None = None
    found: BucketPlan | NoPlan = NoPlan("The bucket has no files.")
    if plan.files.num_rows:
        files = to_bucket_files(plan.files)
        found = _plan_keyed(plan, strategy, as_of_ms)
    baseline_ids = {file.file_id for file in baseline}
    if isinstance(found, BucketPlan) and not found.is_full:
        if baseline_ids.isdisjoint(found.file_ids) or baseline_ids.issuperset(found.file_ids):
            return plan_work(plan, bucket, strategy)
        # Files inside and outside the baseline would become one file, so the changes are emitted now.
        found = _plan_keyed(plan, Strategy.FULL, as_of_ms)
    elif isinstance(found, NoPlan) and strategy is not Strategy.FULL:
        return found
    parts = plan_emission(files, found, {file.file_id: KeyRange(file.min_key, file.max_key) for file in baseline})
    if not parts:
        return (
            found if isinstance(found, NoPlan) else NoPlan("All files of the bucket are in the baseline, and may stay.")
        )
    live = {file.file_id: file for file in to_live_files(plan.files)}
    if isinstance(found, BucketPlan):
        level, why = found.output_level, found.why
    else:
        level, why = find_highest_level(() if files is None else files.runs, settings), parts[0].why
    rewrite_tasks = tuple(
        RewriteTask(_to_rewrite(number, part, level, live, baseline, as_of_ms), part.why)
        for number, part in enumerate(parts)
    )
    run_count = 0 if files is None else len(files.runs)
    return BucketWork(plan.table, plan.snapshot, bucket, level, rewrite_tasks, (), why, run_count, is_full=True)


def _defers_changelog(info: TableInfo) -> bool:
    return TableOptions(info.options).get(CHANGELOG_PRODUCER) == FULL_COMPACTION


def _plan_keyed(plan: Plan, strategy: Strategy, as_of_ms: int) -> BucketPlan | NoPlan:
    found = plan_bucket(plan.files, plan.table, strategy.value, as_of_ms=as_of_ms)
    assert isinstance(found, BucketPlan | NoPlan), "the table has a primary key"
    return found


def _to_rewrite(
    number: int,
    part: EmissionPart,
    level: int,
    live: dict[int, LiveFile],
    baseline: Sequence[LiveFile],
    base_time_ms: int,
) -> EmissionRewrite:
    ended = set(part.baseline)
    return EmissionRewrite(
        f"compact-{number:05d}",
        to_run_rewrite(number, part.inputs, level, live, base_time_ms) if part.inputs else None,
        None if part.moved is None else live[part.moved],
        tuple(file for file in baseline if file.file_id in ended),
    )
