"""Which buckets get deletion vectors once no more files come to them: a planner of `due_work.py`.

The rules are in `lakelog.format.compaction.deletion_vectors`.

Only buckets that got files from commits are checked, by their sums. Commits of deletion vectors make nothing due, and
what such a job leaves (sections for compactions) comes up again only with the next commit. Unlike for other jobs, each
commit puts the job of its bucket off: a deletion vector is void as soon as the next file shares its keys.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from lakelog.errors import InvalidArgument
from lakelog.format.compaction.deletion_vectors import MIN_BUCKET_BYTES, RunSums, plan_deletion_vectors
from lakelog.format.compaction.due import Due, plan_due_runs
from lakelog.format.compaction.runs import SortedRun
from lakelog.format.compaction.settings import to_compaction_settings
from lakelog.format.jobs.job import COMPACT, DELETION_VECTORS, DueJob, to_bucket_scope
from lakelog.format.types.widths import row_bytes
from lakelog.options.declared.tables import SEQUENCE_FIELD, WRITE_ONLY

from ..store.transaction import Transaction
from .due_work import TableWork

log = logging.getLogger(__name__)


async def plan_deletion_vector_jobs(tx: Transaction, work: TableWork) -> Sequence[DueJob]:
    """The buckets that get deletion vectors if no files come to them for a while; none in a write-only table."""
    info, table_id = work.table.info, work.head.table_id
    if work.after == work.until or not info.schema.primary_key or WRITE_ONLY.read(info.options):
        return ()
    try:
        settings = to_compaction_settings(info.options, has_primary_key=True)
    except InvalidArgument as error:
        log.warning("no deletion vectors are built at %s: %s", info.name, error.message)
        return ()
    sequence = SEQUENCE_FIELD.read(info.options)
    bytes_a_row = row_bytes(info.schema.arrow, (*info.schema.trimmed_key, *sequence))
    due = []
    for found in await tx.sum_grown_buckets(table_id, work.after, work.until, MIN_BUCKET_BYTES):
        if isinstance(plan_due_runs([_to_sorted(run) for run in found.runs], settings), Due):
            continue
        plan = plan_deletion_vectors(found.runs, bytes_a_row, has_sequence=bool(sequence))
        if isinstance(plan, Due):
            scope = to_bucket_scope(found.bucket.partition, found.bucket.bucket)
            due.append(DueJob(table_id, DELETION_VECTORS, scope, plan.priority, delay_ms=plan.delay_ms))
    waiting = await tx.list_waiting(table_id, COMPACT, [job.scope for job in due]) if due else []
    # A job that is due later may be due in hours.
    compacted = {job.scope for job in waiting if not job.remaining_ms}
    return [job for job in due if job.scope not in compacted]


def _to_sorted(run: RunSums) -> SortedRun:
    return SortedRun(run.level, run.size_bytes, run.file_count, run.order_key)
