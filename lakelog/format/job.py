"""Jobs: work on a table that is due, who does it, and what became of it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

CHANGELOG: Final = "changelog"
"""The kind of job that attaches open changelogs."""

COMPACT: Final = "compact"
"""The kind of job that compacts a bucket, which its scope names."""

CHANGELOG_PRIORITY: Final = 100
"""Readers wait for it."""

MAX_ATTEMPTS: Final = 8
"""Tries one after the other without success: with the pauses between them about two minutes."""

_FIRST_PAUSE_MS: Final = 1_000
_LONGEST_PAUSE_MS: Final = 300_000


class JobState(enum.Enum):
    """Where a job is."""

    DUE = "due"
    """Somebody is to do it; perhaps not before a pause is over."""
    LEASED = "leased"
    """Somebody does it; one whose deadline has passed is due again."""
    DONE = "done"
    """Nothing is to do now."""
    FAILED = "failed"
    """It was tried in vain; more work for it, or a person, makes it due again."""


@dataclass(frozen=True)
class Job:
    """A job as the metastore knows it. Times are in milliseconds by the database's clock.

    There is one for each table, kind and scope, which becomes due again and again.

    Args:
        job_id: Never used twice.
        table_uuid: The table.
        table: Its name as `database.table`.
        kind: What is to be done, for instance `changelog`.
        scope: To what of the table; empty: all of it.
        state: Where it is.
        priority: Those with a higher one come first.
        payload: What the kind needs to know.
        attempts: How often it was taken since it last went well.
        reason: Why it failed last; empty when it went well.
        outcome: What was done last; empty before.
        epoch: Rises each time it is taken; whoever acts under a lower one is fenced.
        holder: Who does it; empty when nobody does.
        remaining_ms: While it is leased until its deadline, while it is due until its pause is over; 0: now.
        created_at_ms: When it became due first.
        updated_at_ms: When its state changed last.
        doomed_attempts: In the answer to taking it: attempts of those who held it before that can no longer be
            committed, and whose files may be deleted.
    """

    job_id: int
    table_uuid: str
    table: str
    kind: str
    scope: str
    state: JobState
    priority: int
    payload: Mapping[str, str]
    attempts: int
    reason: str
    outcome: str
    epoch: int
    holder: str
    remaining_ms: int
    created_at_ms: int
    updated_at_ms: int
    doomed_attempts: tuple[str, ...] = field(default=())

    @property
    def lease(self) -> str:
        """The name by which commits are fenced with its epoch, and under which its attempts are opened."""
        return to_lease_name(self.job_id)


@dataclass(frozen=True)
class DueJob:
    """A job that something made due.

    Args:
        table_id: The store's own number of the table.
        kind: What is to be done.
        scope: To what of the table.
        priority: Those with a higher one come first.
        payload: What the kind needs to know.
    """

    table_id: int
    kind: str
    scope: str = ""
    priority: int = 0
    payload: Mapping[str, str] = field(default_factory=dict)


JOB_LEASES: Final = "job/"
"""What the names of jobs' leases begin with; nobody else may have one of these."""


def to_lease_name(job_id: int) -> str:
    """The name of a job's lease. Pure."""
    return f"{JOB_LEASES}{job_id}"


def plan_pause_ms(attempts: int) -> int:
    """How long a job rests after so many tries in vain. Pure."""
    return min(_FIRST_PAUSE_MS * 2 ** min(max(attempts - 1, 0), 20), _LONGEST_PAUSE_MS)


def to_bucket_scope(partition: bytes, bucket: int) -> str:
    """The scope of a job on one bucket. Pure."""
    return f"{partition.hex()}/{bucket}"


def parse_bucket_scope(scope: str) -> tuple[bytes, int]:
    """The encoded partition and the bucket of a job. Pure."""
    partition, _, bucket = scope.partition("/")
    return bytes.fromhex(partition), int(bucket)
