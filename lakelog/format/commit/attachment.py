"""Attaches changelogs to snapshots that were committed without one: the request and the rules, pure.

Invariants:

1. Changelogs are attached in the order of their snapshots: first to the lowest one whose changelog is pending.
2. They enter through an open attempt, and lie in its folder, like the files of a commit.
3. The caller holds the job; a lower epoch is refused inside the same transaction.
4. A repeated request gets the first result, even if another caller has taken the job over since.

All of it runs while the table's head is locked; nothing in here reads a clock or does I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakelog.errors import CommitConflict, Fenced, NotFound
from lakelog.format.commit.epochs import EPOCH_UNKNOWN, explain_unknown
from lakelog.format.commit.facts import Attempt, AttemptState, TableHead
from lakelog.format.commit.guards import check_history
from lakelog.format.commit.request import Change
from lakelog.format.commit.rules import Verdict, check_compatible
from lakelog.format.jobs.job import Job, JobState
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.snapshot import ChangelogState, Snapshot, SnapshotKind

MAX_SNAPSHOTS: Final = 1000
"""Snapshots of one request."""


@dataclass(frozen=True)
class SnapshotChangelog:
    """The changes of a snapshot.

    Args:
        snapshot_id: The snapshot.
        files: Like a commit's changelog files; none: nothing changed.
        snapshot_uuid: The snapshot's uuid, as `Change.base_snapshot_uuid`; empty: not checked.
    """

    snapshot_id: int
    files: tuple[DataFile, ...]
    snapshot_uuid: str = ""


@dataclass(frozen=True)
class AttachRequest:
    """Changelogs for successive pending snapshots of one table, all or none.

    Args:
        table_uuid: The table.
        schema_id: The schema of the files: that of the snapshots, so the table's current one or an earlier one.
        bucket_count: The number of buckets of the files; must be the table's.
        attempt_id: The attempt that wrote them.
        job_id: The caller's job.
        epoch: The caller's epoch of that job.
        changelogs: By rising snapshot, beginning with the lowest pending one, without gaps.
    """

    table_uuid: str
    schema_id: int
    bucket_count: int
    attempt_id: str
    job_id: int
    epoch: int
    changelogs: tuple[SnapshotChangelog, ...]

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The files of all changelogs."""
        return tuple(file for each in self.changelogs for file in each.files)

    def to_change(self) -> Change:
        """A commit with these files, for the checks that both share. Pure."""
        return Change(
            table_uuid=self.table_uuid,
            kind=SnapshotKind.APPEND,
            schema_id=self.schema_id,
            bucket_count=self.bucket_count,
            changelog=ChangelogState.ATTACHED,
            changelog_files=self.files,
        )


@dataclass(frozen=True)
class AttachResult:
    """The result of an attachment.

    Args:
        already_attached: An earlier try of the same request had done it.
        first_pending_snapshot: The lowest pending snapshot now; 0: none.
    """

    already_attached: bool
    first_pending_snapshot: int


@dataclass(frozen=True)
class AttachFacts:
    """All facts for the verdict, read under locks.

    Args:
        head: The table's head.
        job: The caller's job; None: there is none.
        attempt: The request's attempt; None: it is not known.
        open_snapshots: The lowest pending snapshots, rising: one more than the request has, or all.
    """

    head: TableHead
    job: Job | None
    attempt: Attempt | None
    open_snapshots: Sequence[Snapshot]


def check_attach(request: AttachRequest, facts: AttachFacts) -> Verdict:
    """Decides about an attachment. Pure.

    Raises:
        NotFound: The job or the attempt does not exist (any more).
        Fenced: Another caller has taken the job over, or it was given back.
        CommitConflict: The snapshots are not the lowest pending ones, the attempt has ended, or the table does not
            have that schema.
        HistoryDiverged: A snapshot is one that the database has lost; another one has its id.
        InvalidArgument: A file does not fit the table.
    """
    attempt = facts.attempt
    is_later = request.changelogs[0].snapshot_id > facts.head.complete_until
    if attempt is not None and attempt.state is AttemptState.COMMITTED and not is_later:
        return Verdict.ALREADY_APPLIED
    check_holder(facts.job, request.job_id, request.epoch)
    _check_attempt(request, attempt)
    _check_order(request, facts)
    check_compatible(request.to_change(), facts.head, request.attempt_id, takes_earlier=True)
    return Verdict.APPLY


def apply_attach(request: AttachRequest, facts: AttachFacts) -> TableHead:
    """Returns the head after it. Pure."""
    left = facts.open_snapshots[len(request.changelogs) :]
    return replace(facts.head, first_pending_snapshot=left[0].snapshot_id if left else 0)


def check_holder(job: Job | None, job_id: int, epoch: int) -> Job:
    """Checks that a caller holds a job, and returns the job. Pure.

    A job whose deadline has passed still belongs to its holder until another one takes it.

    Raises:
        NotFound: There is no such job; its table was dropped.
        Fenced: Another caller holds it, or no caller does any more; or the metastore does not know this epoch.
    """
    if job is None:
        raise job_not_found(job_id)
    metadata = {"job_id": str(job_id), "epoch": str(epoch), "current_epoch": str(job.epoch), "holder": job.holder}
    if epoch > job.epoch:
        raise Fenced(
            f"Job {job_id} is no longer the caller's: {explain_unknown(epoch, job.epoch)}. Stop this work; another "
            "caller can take the job.",
            reason=EPOCH_UNKNOWN,
            metadata=metadata,
        )
    if epoch < job.epoch or job.state is not JobState.LEASED:
        who = f"'{job.holder}' does it" if job.state is JobState.LEASED else f"it is {job.state.value}"
        raise Fenced(
            f"Job {job_id} ({job.kind} of {job.table}) has epoch {job.epoch} by now and {who}; the caller's epoch is "
            f"{epoch}. Stop this work; what it wrote is of no use.",
            reason="JOB_FENCED",
            metadata=metadata,
        )
    return job


def job_not_found(job_id: int) -> NotFound:
    """The error for the id of a job that does not exist."""
    return NotFound(
        f"There is no job {job_id}; its table was dropped, or it is of another metastore. `lakelog jobs` lists those "
        "there are.",
        reason="JOB_NOT_FOUND",
        metadata={"job_id": str(job_id)},
    )


def _check_attempt(request: AttachRequest, attempt: Attempt | None) -> None:
    metadata = {"attempt_id": request.attempt_id, "retry": "replan"}
    if attempt is None:
        raise NotFound(
            f"Attempt {request.attempt_id} is not known: it was never opened here. Open one and write the files again.",
            reason="ATTEMPT_NOT_FOUND",
            metadata=metadata,
        )
    if attempt.state is not AttemptState.OPEN:
        raise CommitConflict(
            f"Attempt {request.attempt_id} is {attempt.state.value}, so its files are "
            f"{'in use' if attempt.state is AttemptState.COMMITTED else 'deleted or will be'}. Open a new attempt and "
            "write the files again.",
            reason="ATTEMPT_DOOMED" if attempt.state is AttemptState.ABORTED else "ATTEMPT_COMMITTED",
            metadata=metadata,
        )
    if request.table_uuid not in attempt.table_uuids:
        raise CommitConflict(
            f"Attempt {request.attempt_id} was not opened for table {request.table_uuid}. Name the table when opening "
            "it.",
            reason="ATTEMPT_TABLES",
            metadata={**metadata, "table_uuid": request.table_uuid},
        )


def _check_order(request: AttachRequest, facts: AttachFacts) -> None:
    wanted = [each.snapshot_id for each in request.changelogs]
    there = [each.snapshot_id for each in facts.open_snapshots][: len(wanted)]
    if wanted == there:
        for each, snapshot in zip(request.changelogs, facts.open_snapshots, strict=False):
            check_history(facts.head, each.snapshot_id, each.snapshot_uuid, snapshot.snapshot_uuid)
        return
    begins = f"the lowest open one is {there[0]}" if there else "none is open"
    raise CommitConflict(
        f"Changelogs of {facts.head.name} were made for the snapshots {_listed(wanted)}, but {begins}: they are "
        "attached in the order of their snapshots, none left out. Look again which are open.",
        reason="CHANGELOG_ORDER",
        metadata={"table": facts.head.name, "first_pending": str(there[0] if there else 0), "retry": "replan"},
    )


def _listed(ids: Sequence[int]) -> str:
    return str(ids[0]) if len(ids) == 1 else f"{ids[0]} to {ids[-1]}"
