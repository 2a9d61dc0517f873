"""Jobs that commits make due by themselves: waiting work is not weakened, and failed work rests.

Such a job differs from a request (`lakelog.format.jobs.job.plan_request`) in that no user waits for it. So it can come
later, and it seldom wakes a job that failed for good: otherwise a damaged file would be read again with each commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from lakelog.format.jobs.job import (
    BY_ITSELF,
    COMPACT,
    DELETION_VECTORS,
    DUE,
    NOT_BEFORE,
    STRATEGY,
    DueJob,
    Job,
    JobState,
    merge_payloads,
    plan_request,
)

FAILED_REST_MS: Final = 3_600_000
"""How long a job that failed for good rests before a commit starts one more try. People fix the cause (a damaged file,
contradicting options), and then call `lakelog jobs retry`. A try once an hour costs nothing, repairs the job if they
forget that, and keeps its reason up to date."""


def plan_due(job: Job | None, due: DueJob, now_ms: int) -> DueJob:
    """Combines a job with what makes it due, so that waiting work is not weakened. Pure.

    Args:
        job: The job as it is; None: there is none yet.
        due: What makes it due.
        now_ms: The database's time.
    """
    if due.kind not in (COMPACT, DELETION_VECTORS):
        return replace(due, payload=plan_request(job, due.payload))
    if job is None or job.state is JobState.DONE:
        return due
    if job.state is JobState.LEASED:
        return _plan_after(job.requested, due, now_ms)
    if is_requested(job.payload):
        return replace(due, payload=merge_payloads(job.payload, due.payload))
    if job.state is JobState.DUE and due.delay_ms and not job.remaining_ms:
        # It is due already, for another reason than passed time.
        return replace(due, payload=job.payload)
    # Of two that are due by themselves the newer one knows more, or does more.
    return due


def merge_due(due: Sequence[DueJob]) -> list[DueJob]:
    """Merges jobs of one kind and scope of a table that several planners make due. Pure.

    The result does the strongest of what they request, as soon as the first of them requests it.
    """
    merged: dict[tuple[str, str], DueJob] = {}
    for each in due:
        known = merged.get((each.kind, each.scope))
        if known is not None:
            each = replace(
                each,
                priority=max(known.priority, each.priority),
                payload=merge_payloads(known.payload, each.payload),
                delay_ms=min(known.delay_ms, each.delay_ms),
            )
        merged[each.kind, each.scope] = each
    return list(merged.values())


def is_requested(payload: Mapping[str, str]) -> bool:
    """Whether a user requested the work of a payload; else it is due by itself, or there is none. Pure."""
    return payload.get(STRATEGY, DUE) != DUE and BY_ITSELF not in payload


def take_delay(requested: Mapping[str, str], now_ms: int) -> tuple[dict[str, str], int]:
    """What a job has to do after its end, and in how many milliseconds. Pure."""
    payload = {key: value for key, value in requested.items() if key not in (NOT_BEFORE, BY_ITSELF)}
    return payload, max(int(requested.get(NOT_BEFORE, "0")) - now_ms, 0)


def _plan_after(requested: Mapping[str, str], due: DueJob, now_ms: int) -> DueJob:
    """What is to be done after the end of a running compaction.

    Later work is stored with its time: planning after the end does not see that files wait, since no later snapshot
    says so.
    """
    if requested and NOT_BEFORE not in requested and due.delay_ms:
        return replace(due, payload=requested, delay_ms=0)
    is_weaker = due.payload.get(STRATEGY, DUE) == DUE != requested.get(STRATEGY, DUE)
    payload = merge_payloads(requested, due.payload) if is_weaker or is_requested(requested) else dict(due.payload)
    payload.pop(NOT_BEFORE, None)
    if due.delay_ms:
        payload[NOT_BEFORE] = str(now_ms + due.delay_ms)
    if payload.get(STRATEGY, DUE) != DUE and not is_requested(requested):
        payload[BY_ITSELF] = "true"
    return replace(due, payload=payload, delay_ms=0)
