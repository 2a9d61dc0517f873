"""Jobs: their kinds, the work that is due on a table, the holder of a job, and its result."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from lakelog.errors import InvalidArgument
from lakelog.format.keys.encoding import MAX_PARTITION_BYTES

CHANGELOG: Final = "changelog"
"""The kind of job that attaches pending changelogs."""

COMPACT: Final = "compact"
"""The kind of job that compacts a bucket, which its scope names."""

DELETION_VECTORS: Final = "deletion-vectors"
"""The kind of job that finds which rows of a bucket are superseded, so that reads need not; its scope names it."""

EXPIRE: Final = "expire"
"""The kind of job that expires a table's snapshots, and deletes the files that nothing needs any more."""

CLEAN: Final = "clean"
"""The kind of job that deletes what dead or aborted writers have left below a table's location."""

EXPIRE_PARTITIONS: Final = "expire-partitions"
"""The kind of job that removes a table's partitions that are old enough."""

PURGE: Final = "purge"
"""The kind of job that deletes a dropped table, once it can no longer be restored."""

KINDS: Final = (COMPACT, CHANGELOG, DELETION_VECTORS, EXPIRE, EXPIRE_PARTITIONS, CLEAN, PURGE)
"""All kinds of jobs."""

PURGE_PRIORITY: Final = -100
"""Nothing waits for it."""

CHANGELOG_PRIORITY: Final = 100
"""Readers wait for it."""

CHANGELOGS_IN_ROW: Final = 7
"""After this many of them comes one job of another kind: if changelogs are due all the time, nothing else would ever
be done."""

REQUEST_PRIORITY: Final = 50
"""A user waits for what was requested; what is due by itself comes after it."""

STRATEGY: Final = "strategy"
"""The key of a job's payload that says what of a bucket is compacted."""

DUE: Final = "due"
"""The strategy for what is due by itself."""

MINOR: Final = "minor"
"""The strategy that does what is due, and moves the rest out of level 0."""

FULL: Final = "full"
"""The strategy that compacts everything, to the highest level."""

NOT_BEFORE: Final = "not_before_ms"
"""A key of the next payload of a job that is due by itself: not before this time, by the database's clock."""

BY_ITSELF: Final = "by_itself"
"""A key of the next payload of a job that does more than what is due, without a user's request."""

ADDED_AFTER: Final = "added_after"
"""A key of the payload in an append table that is due by itself: no small file was added up to this snapshot."""

HAS_WAITED: Final = "has_waited"
"""A key of its payload if time alone makes it due: no small file waits for others any more."""

REMOVED_ROWS: Final = "removed_rows"
"""A key of its payload if large files have lost many of their rows."""

_STRENGTHS: Final[Mapping[str, int]] = {DUE: 0, MINOR: 1, FULL: 2}
"""Each strategy does at least what those before it do."""

MAX_ATTEMPTS: Final = 8
"""Successive tries without success: with the pauses between them about two minutes."""

_FIRST_PAUSE_MS: Final = 1_000
_LONGEST_PAUSE_MS: Final = 300_000


class JobState(enum.Enum):
    """The state of a job."""

    DUE = "due"
    """A compactor should do it, perhaps only after a pause."""
    LEASED = "leased"
    """A compactor does it; when its deadline has passed, it is due again."""
    DONE = "done"
    """There is nothing to do now."""
    FAILED = "failed"
    """Its tries failed; more work for it, or a person, makes it due again."""


class JobStatus(enum.Enum):
    """How a job stands by the database's clock: its state, with the two cases that its deadline tells apart."""

    FAILED = "failed"
    """As the state."""
    ABANDONED = "abandoned"
    """Leased beyond its deadline: its compactor does not report any more."""
    LEASED = "leased"
    """A compactor does it."""
    DUE = "due"
    """It waits for a compactor."""
    RESTING = "resting"
    """Due after a pause."""
    DONE = "done"
    """As the state."""


@dataclass(frozen=True)
class JobCount:
    """How many jobs of a kind stand so."""

    kind: str
    status: JobStatus
    count: int


@dataclass(frozen=True)
class Job:
    """A job as the metastore knows it. Times are in milliseconds by the database's clock.

    There is one for each table, kind and scope, which becomes due again and again.

    Args:
        job_id: Used once, unless the database is set back; epochs are not given twice even then.
        table_uuid: The table.
        table: Its name as `database.table`.
        kind: What is to be done, for instance `changelog`.
        scope: The part of the table; empty: all of it.
        state: Its state.
        priority: Jobs with a higher one come first.
        payload: Details that the kind needs.
        attempts: How often it was taken since its last success.
        reason: Why it failed last; empty after a success.
        outcome: What was done last; empty before.
        epoch: A new, higher number each time the job is taken; holders with any other epoch are fenced.
        holder: The process that does it; empty if there is none.
        remaining_ms: While it is leased until its deadline, while it is due until its pause is over; 0: now.
        created_at_ms: When it first became due.
        updated_at_ms: When its state changed last.
        requested: The payload of requests since it was taken, so it is due again after its end; empty: nothing.
        done_epoch: The epoch of its last success, 0 before. A request that was made during some epoch is done once this
            is above that epoch.
        aborted_attempts: In the answer to taking it: attempts of earlier holders that can no longer be committed, and
            whose files may be deleted.
        owner: The principal that holds it; empty: none does, or it is not known. Clients do not get it.
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
    requested: Mapping[str, str] = field(default_factory=dict)
    done_epoch: int = 0
    aborted_attempts: tuple[str, ...] = field(default=())
    owner: str = ""

    @property
    def status(self) -> JobStatus:
        """How it stood when the metastore answered."""
        if self.state is JobState.DUE and self.remaining_ms:
            return JobStatus.RESTING
        if self.state is JobState.LEASED and not self.remaining_ms:
            return JobStatus.ABANDONED
        return JobStatus(self.state.value)

    @property
    def lease(self) -> str:
        """The name of the lease that fences commits with its epoch, and under which its attempts are opened."""
        return to_lease_name(self.job_id)


@dataclass(frozen=True)
class JobPage:
    """Jobs of a list.

    Args:
        jobs: They.
        cursor: For the next page; empty: this was the last.
    """

    jobs: tuple[Job, ...]
    cursor: str = ""


@dataclass(frozen=True)
class DueJob:
    """A job that something made due.

    Args:
        table_id: The store's own number of the table.
        kind: What is to be done.
        scope: The part of the table.
        priority: Jobs with a higher one come first.
        payload: Details that the kind needs.
        delay_ms: It is due after this time.
    """

    table_id: int
    kind: str
    scope: str = ""
    priority: int = 0
    payload: Mapping[str, str] = field(default_factory=dict)
    delay_ms: int = 0


JOB_LEASES: Final = "job/"
"""The prefix of the names of jobs' leases; other leases must not use it."""


def to_lease_name(job_id: int) -> str:
    """The name of a job's lease. Pure."""
    return f"{JOB_LEASES}{job_id}"


def plan_pause_ms(attempts: int) -> int:
    """How long a job rests after this many failed tries. Pure."""
    return min(_FIRST_PAUSE_MS * 2 ** min(max(attempts - 1, 0), 20), _LONGEST_PAUSE_MS)


_BUCKET_SCOPE: Final = re.compile(r"((?:[0-9a-f]{2})*)/(0|[1-9][0-9]{0,9})", re.ASCII)
_MAX_BUCKET: Final = (1 << 31) - 1


def to_bucket_scope(partition: bytes, bucket: int) -> str:
    """The scope of a job on one bucket. Pure.

    Args:
        partition: As `lakelog.format.keys.encoding` encodes it; empty in a table without partitions.
        bucket: Its number.
    """
    assert len(partition) <= MAX_PARTITION_BYTES, "no larger partition is ever committed"
    assert 0 <= bucket <= _MAX_BUCKET, "buckets are counted from 0 in 32 bits"
    return f"{partition.hex()}/{bucket}"


def parse_bucket_scope(scope: str) -> tuple[bytes, int]:
    """Returns the encoded partition and the number of the bucket of a scope: the inverse of `to_bucket_scope`. Pure.

    Raises:
        InvalidArgument: It names no bucket.
    """
    found = _BUCKET_SCOPE.fullmatch(scope)
    if found is not None and int(found[2]) <= _MAX_BUCKET and len(found[1]) <= 2 * MAX_PARTITION_BYTES:
        return bytes.fromhex(found[1]), int(found[2])
    raise InvalidArgument(
        f"'{scope[:200]}' names no bucket. The scope of a job of the kind '{COMPACT}' is the encoded partition in "
        "lower-case hexadecimal digits, '/' and the number of the bucket, for instance '/0' in a table without "
        "partitions.",
        metadata={"field": "scope", "value": scope[:200]},
    )


def merge_payloads(waiting: Mapping[str, str], requested: Mapping[str, str]) -> dict[str, str]:
    """Combines the payload of a waiting job with a requested one: the stronger of both. Pure."""
    if STRATEGY not in waiting and STRATEGY not in requested:
        return {**waiting, **requested}
    stronger = max(
        waiting.get(STRATEGY, DUE), requested.get(STRATEGY, DUE), key=lambda strategy: _STRENGTHS.get(strategy, 0)
    )
    return {**waiting, **requested, STRATEGY: stronger}


def plan_request(job: Job | None, payload: Mapping[str, str]) -> dict[str, str]:
    """Returns what a job has to do after a request. Pure.

    Waiting work is never weakened. Running work does not count: it may have begun before the files of the request
    existed, so after it everything that was requested since is done again.

    Args:
        job: The job as it is; None: there is none yet.
        payload: The request.
    """
    if job is None or job.state is JobState.DONE:
        return dict(payload)
    if job.state is JobState.LEASED:
        # A request does not wait as work that is due by itself does.
        later = {key: value for key, value in job.requested.items() if key not in (NOT_BEFORE, BY_ITSELF)}
        return merge_payloads(later, payload) if later else dict(payload)
    return merge_payloads(job.payload, payload)


def take_requested(job: Job) -> Job:
    """A job whose work was not finished, combined with what was requested since. Pure."""
    if not job.requested:
        return job
    payload = merge_payloads(job.payload, job.requested)
    payload.pop(NOT_BEFORE, None)
    payload.pop(BY_ITSELF, None)
    return replace(job, payload=payload, requested={})
