"""How jobs commit: under the job's name, numbered after the commits of earlier holders, fenced by the epoch."""

from __future__ import annotations

from lakelog.format.commit.request import Change, ChangeResult, CommitRequest, Fence
from lakelog.format.jobs.job import Job
from lakelog.writes.attempt import CommitAttempt


def first_identifier(job: Job) -> int:
    """The first identifier for the commits of a job's holder. Pure.

    The `EPOCH_STEP` numbers from its epoch on belong to it, more than any job needs under one epoch. Numbers of later
    epochs are higher.
    """
    return job.epoch


def commit_for_job(attempt: CommitAttempt, job: Job, change: Change, number: int) -> ChangeResult:
    """Commits a change of the job's table; refused once another compactor holds the job. Blocks.

    Args:
        attempt: The attempt whose files it adds.
        job: The job, held by the caller.
        change: The change of its table.
        number: The holder's own number of the commit, a new one for each.

    Raises:
        Fenced: Another holds the job.
        OutcomeUnknown: The commit may have been applied.
    """
    identifier = first_identifier(job) + number
    fence = Fence(job.lease, job.epoch)
    request = CommitRequest(job.lease, identifier, (change,), attempt.attempt_id, fences=(fence,))
    return attempt.commit(request).results[0]
