"""What becomes of a job that a commit makes due by itself: what waits is not weakened, what failed is left in peace.

It differs from a request (`lakelog.format.job.plan_request`) in that nobody waits for it. So it may come later, and it
never wakes a job that failed for good: a damaged file would be read again with each commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from lakelog.format.job import DUE, NOT_BEFORE, STRATEGY, DueJob, Job, JobState, merge_payloads

FAILED_REST_MS: Final = 3_600_000
"""How long a job that failed for good rests, before a commit may have it tried once more. What made it fail (a damaged
file, contradicting options) is mended by people, who then say `lakelog jobs retry`; once an hour costs nothing where
they only mend it, and shows in the reason that it is still so where they do not."""


@dataclass(frozen=True)
class DueChange:
    """How a job is to be changed.

    Args:
        job: As it shall be; changed are its state, priority, attempts, payload and what was asked for since.
        due_in_ms: In how many milliseconds it is due; None: that stays as it is.
    """

    job: Job
    due_in_ms: int | None


def plan_due(job: Job, due: DueJob, now_ms: int) -> DueChange | None:
    """What becomes of a job that is there already; None: it stays as it is. Pure.

    Args:
        job: As it is.
        due: What makes it due.
        now_ms: The database's time.
    """
    if job.state is JobState.DONE:
        fresh = replace(job, state=JobState.DUE, priority=due.priority, payload=dict(due.payload), attempts=0)
        return DueChange(fresh, due.delay_ms)
    if job.state is JobState.LEASED:
        changed = replace(job, requested=_plan_behind(job.requested, due, now_ms))
        changed = replace(changed, priority=max(job.priority, due.priority))
        return None if changed == job else DueChange(changed, None)
    if job.state is JobState.FAILED and now_ms - job.updated_at_ms < FAILED_REST_MS:
        return None
    payload = merge_due(job.payload, due.payload)
    changed = replace(job, state=JobState.DUE, payload=payload, priority=max(job.priority, due.priority))
    if job.state is JobState.FAILED:
        # Its attempts stay, so that it is tried once.
        return DueChange(changed, due.delay_ms)
    if job.attempts or not job.remaining_ms:
        # It rests after a failure, as long as it would have rested; or it is due already.
        keeps = due.delay_ms > 0 and not job.remaining_ms
        changed = replace(changed, payload=job.payload) if keeps else changed
        return None if changed == job else DueChange(changed, None)
    if is_asked_for(job.payload):
        return None if changed == job else DueChange(changed, min(job.remaining_ms, due.delay_ms))
    # Nothing but time was missing: it is due now, or as much later as there is something new to wait for.
    return DueChange(changed, due.delay_ms)


def merge_due(waiting: Mapping[str, str], due: Mapping[str, str]) -> dict[str, str]:
    """What a job does that waits with one payload and is made due with another. Pure.

    What was asked for stays as strong as it is. Of two that are due by themselves the newer one knows more.
    """
    return merge_payloads(waiting, due) if is_asked_for(waiting) else dict(due)


def is_asked_for(payload: Mapping[str, str]) -> bool:
    """Whether somebody asked for what a payload says; else it is due by itself, or there is nothing. Pure."""
    return payload.get(STRATEGY, DUE) != DUE


def take_delay(requested: Mapping[str, str], now_ms: int) -> tuple[dict[str, str], int]:
    """What a job has to do behind its end, and in how many milliseconds. Pure."""
    payload = {key: value for key, value in requested.items() if key != NOT_BEFORE}
    return payload, max(int(requested.get(NOT_BEFORE, "0")) - now_ms, 0)


def _plan_behind(requested: Mapping[str, str], due: DueJob, now_ms: int) -> dict[str, str]:
    """What is to be done behind the end of a job that somebody does."""
    if requested and due.delay_ms and NOT_BEFORE not in requested:
        return dict(requested)
    payload = merge_due(requested, due.payload) if requested else dict(due.payload)
    payload.pop(NOT_BEFORE, None)
    return {**payload, NOT_BEFORE: str(now_ms + due.delay_ms)} if due.delay_ms else payload
