"""A random table whose files are put together between its commits, while others wait for theirs, or lose the race."""

from __future__ import annotations

import itertools
from random import Random
from typing import Final

from compactor.compactions.bucket_work import Strategy, list_bucket, plan_work, run_rewrite_task, to_work_change
from compactor.compactions.deletion_vectors import to_deletion_vector_change
from lakelog.format.commit.request import BucketRef, Change, CommitRequest, CommitResult, CompactionGroup
from lakelog.format.compaction.plan import NoPlan
from lakelog.format.jobs.job import STRATEGY
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.options.values import TableOptions
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.lookup.bucket_changes import group_by_bucket
from lakelog.storage.merging.bucket_vectors import build_deletion_vectors, pick_sections
from lakelog.storage.merging.merge_policy import to_merge_policy
from lakelog.storage.parquet.live_file import LiveFile, to_live_files
from lakelog.storage.rewrite.append import FileRewrite, rewrite_files
from lakelog.storage.rewrite.runs import RunRewrite, rewrite_runs
from tests.support.random_tables.history import History
from tests.support.random_tables.model import SnapshotModel

identifiers: Final = itertools.count(1)
"""Of all commits by the writer `compactor`: one that came twice would be answered with the first one's result."""

_MEMORY_BYTES: Final = (1, 1 << 20)


class CompactedHistory(History):
    """A history in which compactions happen.

    Args:
        catalog: Where the table is made.
        name: Its full name.
        seed: Decides everything.
    """

    def __init__(self, catalog: Catalog, name: str, seed: int) -> None:
        super().__init__(catalog, name, seed)
        self.compactions = self.vectors = 0
        self._waiting: list[CommitRequest] = []

    def step(self) -> None:
        """One of a history's steps, and perhaps a compaction that begins or ends."""
        super().step()
        if self.random.random() < 0.7:
            change = self.random.choice((rewrite_some, compact_some, build_some))
            rewritten = change(self.table, self.random)
            if rewritten is not None:
                self._waiting.append(rewritten)
        while self._waiting and self.random.random() < 0.7:
            self.commit_rewritten(self._waiting.pop(0))

    def commit_rewritten(self, request: CommitRequest) -> None:
        """Commits what a compactor has done, on what is there by now."""
        (result,) = commit_once(self.table, request).results
        # What lost its race, against an overwrite or another compaction, is dropped.
        if result.snapshot_id is not None:
            self.compactions += 1
            self.vectors += bool(request.changes[0].groups[0].vector_files)
            before = self.model.snapshots[-1]
            self.model.snapshots.append(
                SnapshotModel("COMPACT", self.model.rows(), [], [], set(), None, 0, before.watermark, {})
            )


def compact_some(table: Table, random: Random) -> CommitRequest | None:
    """Does what is planned for a bucket, as it is now; what comes of it can be committed at any time."""
    metastore = table._context.metastore
    everything = metastore.plan(PlanRequest(table.uuid))
    if not everything.files.num_rows:
        return None
    partition, number = random.choice(list(group_by_bucket(to_live_files(everything.files))))
    bucket = BucketRef(partition, number)
    strategy, has_waited = random.choice(tuple(Strategy)), random.random() < 0.5
    plan = list_bucket(metastore, everything.table, bucket, {STRATEGY: strategy.value})
    work = plan_work(plan, bucket, strategy, has_waited=has_waited)
    if isinstance(work, NoPlan):
        return None
    attempt_id = metastore.stage_attempt([table.uuid], "compactor").attempt_id
    store = table._context.open_store(work.info)
    done = [run_rewrite_task(store, work.info, attempt_id, rewrite_task) for rewrite_task in work.rewrite_tasks]
    return CommitRequest("compactor", next(identifiers), (to_work_change(work, done, work.moved),), attempt_id)


def commit_once(table: Table, request: CommitRequest) -> CommitResult:
    """Commits what nobody has committed before."""
    result = table._context.metastore.commit(request)
    assert result.attempt_id == request.attempt_id, f"identifier {request.identifier} was another commit's"
    return result


def build_some(table: Table, random: Random) -> CommitRequest | None:
    """Finds which rows of a bucket are superseded, as it is now; what comes of it can be committed at any time."""
    metastore = table._context.metastore
    plan = metastore.plan(PlanRequest(table.uuid))
    info, options = plan.table, TableOptions(plan.table.options)
    if not info.schema.primary_key:
        return None
    policy = to_merge_policy(info.schema, options)
    buckets = group_by_bucket(to_live_files(plan.files))
    unmarked = [(bucket, sections) for bucket, files in buckets.items() if (sections := pick_sections(files, policy))]
    if not unmarked:
        return None
    (partition, number), sections = random.choice(unmarked)
    attempt_id = metastore.stage_attempt([table.uuid], "compactor").attempt_id
    store = table._context.open_store(info)
    path = f"data/{attempt_id}/deletion-vectors-{number}.parquet"
    vectors = build_deletion_vectors(store, info.schema, options, path, sections, lambda: None)
    assert plan.snapshot is not None, "it has files"
    change = to_deletion_vector_change(info, plan.snapshot, BucketRef(partition, number), vectors)
    return CommitRequest("compactor", next(identifiers), (change,), attempt_id)


def rewrite_some(table: Table, random: Random) -> CommitRequest | None:
    """Rewrites some files of a bucket, as they are now; what comes of it can be committed at any time."""
    metastore = table._context.metastore
    plan = metastore.plan(PlanRequest(table.uuid))
    files = to_live_files(plan.files)
    if not files:
        return None
    assert plan.snapshot is not None
    info, options = plan.table, TableOptions(plan.table.options)
    has_key = bool(info.schema.primary_key)
    bucket = random.choice([*group_by_bucket(files).values()])
    first, count = random.randrange(len(bucket)), random.choice((1, 2, 3, len(bucket)))
    inputs = bucket[first : first + count]
    if not has_key:
        # A window ends where a place does.
        ends = [file for file in bucket[first + count :] if _place(file) == _place(inputs[-1])]
        inputs += ends
    if options.bucket_count(has_key) < 0:
        inputs = sorted(random.sample(bucket, len(inputs)), key=bucket.index)
    attempt_id = metastore.stage_attempt([table.uuid], "compactor").attempt_id
    store = table._context.open_store(info)
    made: tuple[DataFile, ...]
    level = random.randrange(1, 6) if has_key else 0
    if has_key:
        rest = [file for file in bucket if file not in inputs]
        rewrite = RunRewrite("c", tuple(inputs), tuple(rest), plan.snapshot.committed_at_ms, level)
        memory_bytes = random.choice(_MEMORY_BYTES)
        made = rewrite_runs(store, info.schema, options, attempt_id, rewrite, memory_bytes=memory_bytes)
        _check_ranges(made)
    else:
        rest = [file for file in bucket if file not in inputs]
        rewritten = FileRewrite("c", tuple(inputs), tuple(rest))
        made = rewrite_files(store, info.schema, options, attempt_id, rewritten)
        assert sum(file.row_count for file in made) == sum(file.row_count - file.delete_count for file in inputs)
    change = Change(
        table.uuid,
        SnapshotKind.COMPACT,
        info.schema.schema_id,
        options.bucket_count(has_key),
        made,
        groups=(
            CompactionGroup(
                BucketRef(inputs[0].partition, inputs[0].bucket),
                tuple(file.file_id for file in inputs),
                len(made),
                level=level,
            ),
        ),
    )
    return CommitRequest("compactor", next(identifiers), (change,), attempt_id)


def _place(file: LiveFile) -> tuple[int, int]:
    return file.order_snapshot, file.order_ordinal


def _check_ranges(made: tuple[DataFile, ...]) -> None:
    for before, behind in itertools.pairwise(made):
        assert before.max_key is not None
        assert behind.min_key is not None
        # Equal only where long keys are cut.
        assert before.max_key <= behind.min_key or len(before.max_key) >= 60
