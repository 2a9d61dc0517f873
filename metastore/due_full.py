"""What commits make due as full compactions: every so many of them, or some time behind them (SEMANTICS.md 3.6).

With the changelog producer `full-compaction` streams of a table wait for these; other tables may have them as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakelog.format.commit import BucketRef
from lakelog.format.compaction.commit_count import (
    CommitsSinceFull,
    FullCompactionDue,
    count_commits,
    plan_full_by_commits,
    settle_full,
)
from lakelog.format.compaction.settings import to_compaction_settings
from lakelog.format.job import CHANGELOG_PRIORITY, COMPACT, FULL, STRATEGY, DueJob, to_bucket_scope
from lakelog.options.table_options import WRITE_ONLY

from .due_work import TableWork
from .store import Transaction
from .told import tells_later

_PRIORITY: Final = 25
"""Of full compactions for which no reader waits: what was asked for comes first."""


async def plan_full_compactions(tx: Transaction, work: TableWork) -> Sequence[DueJob]:
    """The full compactions that the number of commits has made due; none while the table is write-only.

    What is counted is kept with the table, in the transaction in which the jobs are made and under the same lock.
    """
    info, table_id = work.table.info, work.head.table_id
    if not info.schema.primary_key:
        return ()
    settings = to_compaction_settings(info.options, has_primary_key=True)
    if settings.delta_commits is None:
        return ()
    # Of a table that gets the option only now, the commits before it are not counted.
    known = await tx.find_full_count(table_id)
    is_new, known = known is None, known or CommitsSinceFull(work.after, work.after)
    if WRITE_ONLY.read(info.options):
        # They are counted once it is not any more: what they changed is still to be told.
        if is_new:
            await tx.put_full_count(table_id, known)
        return ()
    if known.counted_until < work.until:
        count = await tx.count_data_commits(table_id, known.counted_until, work.until)
        known = count_commits(known, work.until, count)
    found = plan_full_by_commits(known, settings)
    due: list[DueJob] = []
    if isinstance(found, FullCompactionDue):
        buckets = await tx.list_written_buckets(table_id, found.after, found.until)
        priority = CHANGELOG_PRIORITY if tells_later(info.options) else _PRIORITY
        due = [_to_job(table_id, bucket, priority) for bucket in buckets]
        known = settle_full(found)
    await tx.put_full_count(table_id, known)
    return due


def _to_job(table_id: int, bucket: BucketRef, priority: int) -> DueJob:
    scope = to_bucket_scope(bucket.partition, bucket.bucket)
    return DueJob(table_id, COMPACT, scope, priority, {STRATEGY: FULL})
