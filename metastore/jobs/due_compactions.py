"""Which compactions are due for a table after some snapshots (semantics 6): a planner of `due_work.py`.

The rules are in `lakelog.format.compaction`: `due`, and `windows` for append tables with buckets.

Objectives, which pull against each other: no files are listed to find out that nothing is due; what is due is found
even though options change; commits of the table do not wait for the planning. So:

1. In a table with a primary key only the buckets that the snapshots touched are checked, by sums of their sorted runs.
2. Without a key and buckets the small files of each partition are counted, from the files that were added and removed
   (`small_files`, stored with the work cursor).
   Files of append tables that have lost many rows are found among those that the snapshots added again.
3. With buckets, but without a key, the ends of the touched buckets are checked, after the files that need no further
   check. A bucket is checked as a whole after an overwrite, since its files have other neighbours then.
4. All buckets are checked only if that was never done, or was done under other options: when a table is altered.
5. A job that already waits is not made due again, since that would lock the head.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import pyarrow as pa

from lakelog.errors import InvalidArgument
from lakelog.format.commit.request import BucketRef
from lakelog.format.compaction.due import (
    Due,
    count_needed_runs,
    find_priority,
    find_priority_of_bytes,
    plan_due_backlog,
    plan_due_runs,
)
from lakelog.format.compaction.plan import AppendPlan, NoPlan
from lakelog.format.compaction.removed_rows import REMOVED_PERCENT
from lakelog.format.compaction.settings import CompactionSettings, to_compaction_settings
from lakelog.format.compaction.windows import plan_window
from lakelog.format.jobs.job import (
    ADDED_AFTER,
    COMPACT,
    DUE,
    HAS_WAITED,
    REMOVED_ROWS,
    STRATEGY,
    DueJob,
    to_bucket_scope,
)
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.options.declared.tables import WRITE_ONLY

from ..store.due import Backlog, SmallChange
from ..store.transaction import Transaction
from .due_work import TableWork

T = TypeVar("T")

log = logging.getLogger(__name__)

_OPTIONS: Final = BucketRef(b"", -1)
"""The entry that remembers the options under which all buckets were checked; no bucket has this number."""

_BUCKETS_TOGETHER: Final = 500
"""Some milliseconds of work between two statements, in which nothing else runs: commits wait no longer than this."""

_WORTH_LOGGING: Final = 4
"""A waiting job is made due again only for a priority that is higher by more than this: it saves four times as much."""


_JOBS_TOGETHER: Final = 5_000
"""Jobs that are made due at once: the head is locked for some 0.1 ms a job. Those that save most come first, the others
when half of these are done."""

_MORE: Final = "more"
"""Replaces the options in their entry while more is due than was made due."""


async def plan_compactions(tx: Transaction, work: TableWork) -> Sequence[DueJob]:
    """The compactions that snapshots, or options, have made due; none where the table is write-only."""
    table = _to_table(work)
    if table is None:
        return ()
    seen = (await _find_backlogs(tx, table, [_OPTIONS])).get(_OPTIONS)
    is_new = seen is None and work.after == 0
    is_all = not is_new and (seen is None or seen.rule != table.options_rule)
    if seen is not None and seen.rule == _MORE and await is_supplied(tx, work):
        is_all = False
    if work.after == work.until and not is_all:
        return ()
    if is_all and not table.has_buckets:
        # Partitions without files would not be counted again.
        await tx.clear_backlogs(table.table_id)
    if is_new or is_all:
        await tx.put_backlogs(table.table_id, [Backlog(_OPTIONS, table.options_rule)])
    is_quiet = WRITE_ONLY.read(table.options)
    if table.has_buckets:
        if not table.has_key:
            await _forget_overwritten(tx, table, work)
        if is_quiet:
            return ()
        due = await _plan_buckets(tx, table, work, is_all=is_all)
    else:
        # The counts of small files are kept up to date even if nothing is due.
        due = _plan_backlogs(table, await _count_backlogs(tx, table, work, is_all=is_all))
        if is_quiet:
            return ()
    due = await _add_removed_rows(tx, table, work, due, is_all=is_all)
    first = take_first(await _leave_waiting_out(tx, table, due))
    if first.has_more:
        await tx.put_backlogs(table.table_id, [Backlog(_OPTIONS, _MORE)])
    return first.jobs


async def plan_dedicated(tx: Transaction, work: TableWork) -> FirstJobs:
    """The compactions that are due for a dedicated compactor, whether or not the table is write-only.

    Args:
        tx: The transaction in which `plan_compactions` has planned and remembered everything up to `work.until`.
        work: `after` is what was planned for that compactor before; 0: nothing, so that all buckets are checked.
    """
    table = _to_table(work)
    if table is None or work.after == work.until:
        return FirstJobs((), has_more=False)
    is_all = work.after == 0
    if table.has_buckets:
        due = await _plan_buckets(tx, table, work, is_all=is_all)
    else:
        buckets = await _list_buckets(tx, table, work, 2, is_all=is_all)
        due = _plan_backlogs(table, (await _find_backlogs(tx, table, buckets)).values())
    due = await _add_removed_rows(tx, table, work, due, is_all=is_all)
    return take_first(await _leave_waiting_out(tx, table, due))


async def is_supplied(tx: Transaction, work: TableWork) -> bool:
    """Whether so many of a table's compactions wait that no more need to be planned."""
    return await tx.count_waiting(work.head.table_id, COMPACT) > _JOBS_TOGETHER // 2


@dataclass(frozen=True)
class FirstJobs:
    """The jobs that are made due now.

    Args:
        jobs: The jobs that save most.
        has_more: Whether others are to follow.
    """

    jobs: Sequence[DueJob]
    has_more: bool


def take_first(due: Sequence[DueJob]) -> FirstJobs:
    """As many jobs as may be made due at once. Pure."""
    if len(due) <= _JOBS_TOGETHER:
        return FirstJobs(due, has_more=False)
    return FirstJobs(sorted(due, key=lambda job: -job.priority)[:_JOBS_TOGETHER], has_more=True)


@dataclass(frozen=True)
class _Table:
    """What planning needs to know of a table.

    Args:
        table_id: The store's number of it.
        has_key: Whether it has a primary key.
        bucket_count: Number of buckets; -1: none.
        options: The table's options as given.
        settings: What the options say about compactions.
    """

    table_id: int
    has_key: bool
    bucket_count: int
    options: Mapping[str, str]
    settings: CompactionSettings

    @property
    def has_buckets(self) -> bool:
        """Whether each bucket is checked separately."""
        return self.has_key or self.bucket_count > 0

    @property
    def options_rule(self) -> str:
        """What the whole table is checked under: with other settings, other buckets are due."""
        given = (self.bucket_count, WRITE_ONLY.read(self.options), self.settings)
        return hashlib.sha256(repr(given).encode()).hexdigest()[:32]

    @property
    def rule(self) -> str:
        """The options by which small files are counted, and from which file on buckets are checked."""
        return f"{self.settings.target_file_size_bytes}/{self.settings.min_file_count}"


def _to_table(work: TableWork) -> _Table | None:
    info = work.table.info
    has_key = bool(info.schema.primary_key)
    try:
        settings = to_compaction_settings(info.options, has_primary_key=has_key)
    except InvalidArgument as error:
        # They were checked when they were set, perhaps by another version.
        log.warning("nothing is due at %s by itself: %s", info.name, error.message)
        return None
    return _Table(work.head.table_id, has_key, work.head.bucket_count, info.options, settings)


async def _list_buckets(
    tx: Transaction, table: _Table, work: TableWork, min_files: int, *, is_all: bool
) -> list[BucketRef]:
    if is_all:
        return await tx.list_crowded_buckets(table.table_id, min_files)
    return await tx.list_touched_buckets(table.table_id, work.after, work.until)


async def _plan_buckets(tx: Transaction, table: _Table, work: TableWork, *, is_all: bool) -> list[DueJob]:
    fewest = count_needed_runs(table.settings) if table.has_key else table.settings.min_file_count
    buckets = await _list_buckets(tx, table, work, fewest, is_all=is_all)
    return await (_plan_keyed if table.has_key else _plan_windows)(tx, table, buckets)


async def _forget_overwritten(tx: Transaction, table: _Table, work: TableWork) -> None:
    """Has buckets checked from their start where files between others may be gone, for example by a rollback."""
    count = work.until - work.after
    found = await tx.list_snapshots(table.table_id, work.after, work.until, count)
    # Nothing is known of snapshots that have expired.
    if len(found) == count and all(each.kind is not SnapshotKind.OVERWRITE for each in found):
        return
    for some in _split(await tx.list_touched_buckets(table.table_id, work.after, work.until)):
        await tx.put_backlogs(table.table_id, [Backlog(bucket, table.rule) for bucket in some])


async def _plan_keyed(tx: Transaction, table: _Table, buckets: Sequence[BucketRef]) -> list[DueJob]:
    due = []
    for some in _split(buckets):
        for found in await tx.sum_runs(table.table_id, some, count_needed_runs(table.settings)):
            plan = plan_due_runs(found.runs, table.settings)
            if isinstance(plan, Due):
                due.append(_to_job(table, found.bucket, plan.priority))
    return due


async def _count_backlogs(tx: Transaction, table: _Table, work: TableWork, *, is_all: bool) -> list[Backlog]:
    """The small files, at `work.until`, of all partitions in which some came or went; remembers the counts."""
    below = table.settings.small_file_bytes
    if is_all:
        buckets = await tx.list_crowded_buckets(table.table_id, 1)
        changes: dict[bytes, SmallChange | None] = {each.partition: None for each in buckets}
    else:
        found = await tx.sum_small_changes(table.table_id, work.after, work.until, below)
        changes = {each.partition: each for each in found}
        if await _is_overtaken(tx, work):
            # The places are unknown: the next file that comes or goes has its partition counted again.
            await tx.clear_backlogs(table.table_id)
    counted: list[Backlog] = []
    for some in _split(list(changes)):
        looked = [BucketRef(partition, 0) for partition in some]
        known = await _find_backlogs(tx, table, [] if is_all else looked)
        updated: list[Backlog] = []
        recounted: list[bytes] = []
        afters: dict[bytes, int] = {}
        for bucket in looked:
            change, backlog = changes[bucket.partition], known.get(bucket)
            if change is None or backlog is None or backlog.rule != table.rule:
                recounted.append(bucket.partition)
            elif change.has_removed:
                # Which of them is the first one now is unknown; all that are left came after the former first one.
                first = backlog.first_snapshot or change.first_added or 0
                if first >= work.head.earliest_change_id:
                    afters[bucket.partition] = first - 1
                else:
                    # What came since is unknown by now, or nearly all of it: the partition has fewer.
                    recounted.append(bucket.partition)
            else:
                updated.append(
                    replace(
                        backlog,
                        file_count=backlog.file_count + change.file_count,
                        size_bytes=backlog.size_bytes + change.size_bytes,
                        first_snapshot=backlog.first_snapshot or change.first_added or 0,
                    )
                )
        lowest = min(afters.values(), default=0)
        for partitions, after in ((recounted, 0), (list(afters), lowest)):
            if partitions:
                small = await tx.count_small_files(table.table_id, partitions, work.until, below, after)
                by_partition = {each.bucket.partition: each for each in small}
                for partition in partitions:
                    none = Backlog(BucketRef(partition, 0), "")
                    updated.append(replace(by_partition.get(partition, none), rule=table.rule))
        await tx.put_backlogs(table.table_id, updated)
        counted += updated
    return counted


async def _is_overtaken(tx: Transaction, work: TableWork) -> bool:
    """Whether uncounted removals may be lost: the snapshots that removed the files have expired."""
    head = (await tx.find_heads([work.head.table_uuid])).get(work.head.table_uuid)
    return head is None or 0 < work.after < head.earliest_snapshot_id


def _plan_backlogs(table: _Table, backlogs: Iterable[Backlog]) -> list[DueJob]:
    due = []
    for each in backlogs:
        plan = plan_due_backlog(each.file_count, each.size_bytes, table.settings)
        if isinstance(plan, NoPlan):
            continue
        job = _to_job(table, each.bucket, plan.priority, plan.delay_ms)
        more = {ADDED_AFTER: str(max(each.first_snapshot - 1, 0))}
        if plan.delay_ms:
            more[HAS_WAITED] = "true"
        due.append(replace(job, payload={**job.payload, **more}))
    return due


async def _add_removed_rows(
    tx: Transaction, table: _Table, work: TableWork, due: Sequence[DueJob], *, is_all: bool
) -> list[DueJob]:
    """Adds the buckets, or partitions, of an append table with files that have lost many of their rows."""
    if table.has_key:
        return list(due)
    found = await tx.list_removed_rows(table.table_id, 0 if is_all else work.after, work.until, REMOVED_PERCENT)
    by_scope = {job.scope: job for job in due}
    for bucket in found:
        job = _to_job(table, bucket, find_priority_of_bytes(REMOVED_PERCENT, 100))
        known = by_scope.get(job.scope, job)
        payload = {**known.payload, REMOVED_ROWS: "true"}
        by_scope[job.scope] = replace(known, payload=payload, delay_ms=0, priority=max(known.priority, job.priority))
    return list(by_scope.values())


async def _plan_windows(tx: Transaction, table: _Table, buckets: Sequence[BucketRef]) -> list[DueJob]:
    due = []
    for some in _split(buckets):
        known = await _find_backlogs(tx, table, some)
        looked = [
            known[bucket] if bucket in known and known[bucket].rule == table.rule else Backlog(bucket, table.rule)
            for bucket in some
        ]
        backlogs, moved = {each.bucket: each for each in looked}, []
        for bucket, files in _split_buckets(await tx.load_bucket_tails(table.table_id, looked)):
            plan = plan_window(files, table.settings)
            if isinstance(plan, AppendPlan):
                written = plan.size_bytes // table.settings.target_file_size_bytes + 1
                due.append(_to_job(table, bucket, find_priority(len(plan.file_ids) - written, plan.size_bytes)))
            elif plan.after is not None and plan.after != backlogs[bucket].after:
                moved.append(replace(backlogs[bucket], after=plan.after))
        if moved:
            await tx.put_backlogs(table.table_id, moved)
    return due


def _split_buckets(files: pa.Table) -> Iterator[tuple[BucketRef, pa.Table]]:
    ordered = files.sort_by([("partition", "ascending"), ("bucket", "ascending")])
    if not ordered.num_rows:
        return
    groups = ordered.group_by(["partition", "bucket"], use_threads=False).aggregate([([], "count_all")])
    start = 0
    for partition, bucket, count in zip(*(groups[name].to_pylist() for name in groups.column_names), strict=True):
        yield BucketRef(partition, bucket), ordered.slice(start, count)
        start += count


async def _find_backlogs(tx: Transaction, table: _Table, buckets: Sequence[BucketRef]) -> dict[BucketRef, Backlog]:
    found: dict[BucketRef, Backlog] = {}
    for some in _split(buckets):
        found.update((each.bucket, each) for each in await tx.find_backlogs(table.table_id, some))
    return found


async def _leave_waiting_out(tx: Transaction, table: _Table, due: Sequence[DueJob]) -> list[DueJob]:
    """The jobs that do not wait already: a compactor that takes a waiting job sees all that was committed by then."""
    left: list[DueJob] = []
    for some in _split(due):
        waiting = {
            job.scope: job for job in await tx.list_waiting(table.table_id, COMPACT, [each.scope for each in some])
        }
        for each in some:
            job = waiting.get(each.scope)
            if job is None or job.priority + _WORTH_LOGGING < each.priority:
                left.append(each)
            elif each.delay_ms == 0 and job.remaining_ms and not job.attempts:
                # It waits for time to pass, as jobs for small files and full compactions do; now it need not.
                left.append(each)
    return left


def _split(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + _BUCKETS_TOGETHER] for start in range(0, len(items), _BUCKETS_TOGETHER))


def _to_job(table: _Table, bucket: BucketRef, priority: int, delay_ms: int = 0) -> DueJob:
    scope = to_bucket_scope(bucket.partition, bucket.bucket)
    return DueJob(table.table_id, COMPACT, scope, priority, {STRATEGY: DUE}, delay_ms)
