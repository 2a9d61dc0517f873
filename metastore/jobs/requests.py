"""Requests for work: what may be requested, and how a request changes jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from lakelog.errors import InvalidArgument
from lakelog.format.commit.attachment import job_not_found
from lakelog.format.jobs.due_job import merge_due, plan_due
from lakelog.format.jobs.job import (
    COMPACT,
    FULL,
    MINOR,
    PURGE,
    STRATEGY,
    DueJob,
    Job,
    JobState,
    parse_bucket_scope,
    plan_request,
    take_requested,
)

from ..store.limits import Limits
from ..store.transaction import Transaction
from ..store.validation import check_number, check_uuid, invalid
from ..tables.lookup import lock_head

MAX_PRIORITY: Final = 1_000_000

_STRATEGIES: Final = (FULL, MINOR)


def check_job_request(
    table_uuid: str, kind: str, scopes: Sequence[str], payload: Mapping[str, str], priority: int, limits: Limits
) -> None:
    """Check all parts of a request that can be checked without the table.

    Raises:
        InvalidArgument: The request is not possible; names the field, its value and the remedy.
    """
    check_uuid("table_uuid", table_uuid)
    if kind != COMPACT:
        raise invalid("kind", kind, f"Only jobs of the kind '{COMPACT}' can be asked for; commits make others due.")
    if not 1 <= len(scopes) <= limits.max_requested_jobs:
        raise invalid(
            "scopes", f"{len(scopes)} scopes", f"Name 1 to {limits.max_requested_jobs}; ask several times for more."
        )
    for scope in scopes:
        parse_bucket_scope(scope)
    if len(set(scopes)) < len(scopes):
        ((twice, _),) = Counter(scopes).most_common(1)
        raise invalid("scopes", twice, "Name each bucket once.")
    unknown = next((key for key in payload if key != STRATEGY), None)
    if unknown is not None:
        raise invalid("payload", unknown, f"A compaction needs its '{STRATEGY}' and nothing else.")
    strategy = payload.get(STRATEGY)
    if strategy not in _STRATEGIES:
        raise invalid("payload.strategy", strategy, f"Give '{FULL}' or '{MINOR}'.")
    check_number("priority", priority, -MAX_PRIORITY, MAX_PRIORITY)


async def request_jobs(
    tx: Transaction, table_uuid: str, kind: str, scopes: Sequence[str], payload: Mapping[str, str], priority: int
) -> list[Job]:
    """Makes jobs of a table due, in the order of the scopes.

    Raises:
        NotFound: There is no such table (any more).
    """
    # Before the jobs, as commits lock; while it is held no one else makes a new job of the table.
    head = await lock_head(tx, table_uuid)
    found = {job.scope: job for job in await tx.lock_jobs(head.table_id, kind, scopes)}
    due = [DueJob(head.table_id, kind, scope, priority, plan_request(found.get(scope), payload)) for scope in scopes]
    await tx.request_jobs(due)
    made = {job.scope: job for job in await tx.lock_jobs(head.table_id, kind, scopes)}
    return [made[scope] for scope in scopes]


async def retry_job(tx: Transaction, job_id: int) -> None:
    """Makes a job that failed or rests due at once.

    Raises:
        NotFound: There is none.
        InvalidArgument: It is being done, has nothing to do, or waits for as long as a dropped table is kept.
    """
    job = await tx.lock_job(job_id)
    if job is None:
        raise job_not_found(job_id)
    if job.state is JobState.DONE:
        raise InvalidArgument(
            f"Job {job_id} ({job.kind} of {job.table}) is done, and nothing is left to do. It becomes due by "
            "itself when there is.",
            reason="JOB_DONE",
            metadata={"job_id": str(job_id)},
        )
    if job.state is JobState.LEASED and job.remaining_ms > 0:
        raise InvalidArgument(
            f"Job {job_id} ({job.kind} of {job.table}) is being done by '{job.holder}'. Wait for its end; "
            f"after a kill it is due again in {job.remaining_ms / 1000:.0f} s.",
            reason="JOB_HELD",
            metadata={"job_id": str(job_id), "holder": job.holder},
        )
    if job.kind == PURGE and job.state is JobState.DUE and not job.reason and job.remaining_ms > 0:
        raise InvalidArgument(
            f"Job {job_id} has not failed: it waits {job.remaining_ms / 1000:.0f} s more, for as long as the dropped "
            f"table {job.table} is kept. Wait, or restore the table: lakelog table restore {job.table}.",
            reason="TABLE_KEPT",
            metadata={"job_id": str(job_id), "table_uuid": job.table_uuid},
        )
    await tx.put_job(replace(take_requested(job), state=JobState.DUE, attempts=0), 0)


async def make_due(tx: Transaction, table_uuid: str, due: Sequence[DueJob]) -> None:
    """Makes jobs of one table due without a request; no waiting job is weakened. No effect on a dropped table.

    This locks the head before the jobs, as commits do.
    """
    head = (await tx.lock_heads([table_uuid])).get(table_uuid)
    if head is None or not due:
        return
    due = merge_due(due)
    scopes_of: dict[str, list[str]] = {}
    for each in due:
        scopes_of.setdefault(each.kind, []).append(each.scope)
    found: dict[tuple[str, str], Job] = {}
    for kind, scopes in sorted(scopes_of.items()):
        found.update({(kind, job.scope): job for job in await tx.lock_jobs(head.table_id, kind, scopes)})
    now_ms = await tx.now_ms()
    await tx.make_due([plan_due(found.get((each.kind, each.scope)), each, now_ms) for each in due])
