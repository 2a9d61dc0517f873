"""How jobs commit: under the job's name, numbered behind all that earlier holders committed, fenced by the epoch."""

from __future__ import annotations

from typing import Final

from lakelog.format.commit.request import Change, ChangeResult, CommitRequest, Fence
from lakelog.format.jobs.job import Job
from lakelog.writes.attempt import CommitAttempt

_COMMITS_A_JOB: Final = 1 << 20
"""More than any job makes under one epoch; identifiers of later epochs come behind."""


def first_identifier(job: Job) -> int:
    """The identifier from which on a holder of a job numbers its commits. Pure."""
    return job.epoch * _COMMITS_A_JOB


def commit_for_job(attempt: CommitAttempt, job: Job, change: Change, number: int) -> ChangeResult:
    """Commits a change of the job's table; refused once another holds the job. Blocks.

    Args:
        attempt: Whose files it brings.
        job: Held by the caller.
        change: Of its table.
        number: The holder's own number of the commit, a new one for each.

    Raises:
        Fenced: Another holds the job.
        OutcomeUnknown: It may have been committed.
    """
    identifier = first_identifier(job) + number
    fence = Fence(job.lease, job.epoch)
    request = CommitRequest(job.lease, identifier, (change,), attempt.attempt_id, fences=(fence,))
    return attempt.commit(request).results[0]
