"""What commits make due as full compactions: after a number of commits, or some time after them (semantics 3.6).

With the changelog producer `full-compaction` the table's streams wait for these; other tables may have them as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lakelog.format.commit.request import BucketRef
from lakelog.format.compaction.commit_count import (
    CommitsSinceFull,
    FullCompactionDue,
    FullCompactionLater,
    count_commits,
    plan_full_by_commits,
    plan_full_by_time,
    resolve_full,
)
from lakelog.format.compaction.plan import NoPlan
from lakelog.format.compaction.settings import to_compaction_settings
from lakelog.format.jobs.job import CHANGELOG_PRIORITY, COMPACT, FULL, STRATEGY, DueJob, to_bucket_scope
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.options.declared.tables import WRITE_ONLY

from ..store.transaction import Transaction
from ..tables.baseline import defers_changelog
from .due_work import TableWork

_PRIORITY: Final = 25
"""Of full compactions for which no reader waits: requested ones come first."""

_LOOKED_AT: Final = 100
"""Snapshots among which the first commit is looked for: so many compactions hardly ever follow each other."""


async def plan_full_compactions(tx: Transaction, work: TableWork) -> Sequence[DueJob]:
    """The full compactions that commits, or the time since them, have made due; none while the table is write-only."""
    return await plan_counted(tx, work, is_quiet=WRITE_ONLY.read(work.table.info.options))


async def plan_counted(tx: Transaction, work: TableWork, *, is_quiet: bool = False) -> list[DueJob]:
    """The full compactions that the number of commits, or the time since the first of them, has made due.

    The count is stored with the table, in the transaction that makes the jobs and under the same lock: that of the
    table's work cursor.

    Args:
        tx: The transaction in which the jobs are made.
        work: Commits up to `until` count; if a table's commits were never counted, those after `after`.
        is_quiet: Nothing is due now: the commits are counted when something may be due.
    """
    info, table_id = work.table.info, work.head.table_id
    if not info.schema.primary_key:
        return []
    settings = to_compaction_settings(info.options, has_primary_key=True)
    if settings.delta_commits is None and settings.optimization_interval_ms is None:
        return []
    # If a table gets the option only now, earlier commits are not counted.
    known = await tx.find_full_count(table_id)
    is_new, known = known is None, known or CommitsSinceFull(work.after, work.after)
    if is_quiet:
        if is_new:
            await tx.put_full_count(table_id, known)
        return []
    if known.counted_until < work.until:
        count = await tx.count_data_commits(table_id, known.counted_until, work.until)
        known = count_commits(known, work.until, count)
    if known.count and known.first_ms is None and settings.optimization_interval_ms is not None:
        # Now, because its snapshot may expire before it is old enough.
        known = replace(known, first_ms=await _find_first_ms(tx, table_id, known))
    found: FullCompactionDue | FullCompactionLater | NoPlan = plan_full_by_commits(known, settings)
    if isinstance(found, NoPlan) and settings.optimization_interval_ms is not None:
        found = plan_full_by_time(known, settings, now_ms=await tx.now_ms())
    due: list[DueJob] = []
    if not isinstance(found, NoPlan):
        buckets = await tx.list_written_buckets(table_id, known.resolved_until, known.counted_until)
        priority = CHANGELOG_PRIORITY if defers_changelog(info.options) else _PRIORITY
        if isinstance(found, FullCompactionDue):
            due = [_to_job(table_id, bucket, priority) for bucket in buckets]
            known = resolve_full(found)
        else:
            # One is enough: when it ends, the table is planned again. The same holds when a job ends that is being done
            # now,
            # and would not learn of the delay.
            due = [_to_job(table_id, bucket, priority, found.delay_ms) for bucket in buckets[:1]]
    await tx.put_full_count(table_id, known)
    return due


async def _find_first_ms(tx: Transaction, table_id: int, known: CommitsSinceFull) -> int:
    """When the first commit since the last full compaction was made; compactions may come before it."""
    found = await tx.list_snapshots(table_id, known.resolved_until, known.counted_until, _LOOKED_AT)
    times = [each.committed_at_ms for each in found if each.kind is not SnapshotKind.COMPACT]
    return times[0] if times else found[-1].committed_at_ms if found else 0


def _to_job(table_id: int, bucket: BucketRef, priority: int, delay_ms: int = 0) -> DueJob:
    scope = to_bucket_scope(bucket.partition, bucket.bucket)
    return DueJob(table_id, COMPACT, scope, priority, {STRATEGY: FULL}, delay_ms)
