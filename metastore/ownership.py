"""Decides which caller owns attempts, writers' names, leases, jobs and consumers, and may act on them. Pure.

    principal --opens--> attempt, lease, job, consumer        the opener owns it until it ends
    principal --uses---> writer's name that has no owner      the first user owns it until an admin releases it

Rules:

1. Only the owner acts on the things that it owns. An admin acts on everything, and does not become the owner of a thing
   that has one.
2. Everyone with the role may act on a thing without an owner. This holds for all things that were opened before owners
   were recorded, or while the metastore identified no callers.
3. The name of a job (`job/7`) belongs only to the holder of the job, at any time.
4. A name that a program draws at random for one commit has no owner: no one can guess it, and no one uses it again.

The check is part of the transaction of the effect, like the check of epochs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakelog.errors import PermissionDenied
from lakelog.format.commit.facts import Attempt
from lakelog.format.commit.writer_names import is_of_job, is_one_time
from lakelog.format.jobs.job import Job

from .store.validation import invalid

NOT_OWNER: Final = "NOT_OWNER"
"""The reason of each refusal here."""


@dataclass(frozen=True)
class Principal:
    """The caller of a request.

    Args:
        name: The name of its token or certificate; empty: the metastore identifies no callers, and things that they
            open have no owner.
        may_all: Whether it may act on things that others own.
    """

    name: str
    may_all: bool = False


EVERYONE: Final = Principal("", may_all=True)
"""The caller of a metastore that identifies no callers."""


def check_attempt_owner(attempt: Attempt, by: Principal) -> None:
    """Raises PermissionDenied unless a principal may use an attempt."""
    _check(
        attempt.owner,
        by,
        f"Attempt {attempt.attempt_id} was opened",
        "Open an attempt of your own.",
        {"attempt_id": attempt.attempt_id},
    )


def is_claimed(writer: str, by: Principal, *, registers: bool = False) -> bool:
    """Whether the use of a name makes a principal its owner, if it has none yet.

    Args:
        writer: The name.
        by: The principal.
        registers: Whether it registers the name; then it will use it again, even if the name looks random.
    """
    return bool(by.name) and not is_of_job(writer) and (registers or not is_one_time(writer))


def is_checked(writer: str, by: Principal) -> bool:
    """Whether the owner of a name must be known before a principal opens an attempt under it."""
    return is_claimed(writer, by) or (is_of_job(writer) and not by.may_all)


def check_writer_owner(writer: str, owners: Mapping[str, str], by: Principal) -> None:
    """Raises PermissionDenied unless a principal may use a writer's name.

    Args:
        writer: The name.
        owners: The owners of those names that have one, and of all jobs that are held: empty if the holder is unknown.
        by: The principal.
    """
    metadata = {"writer": writer}
    if is_of_job(writer) and writer not in owners and not by.may_all:
        raise PermissionDenied(
            f"'{writer}' is the name of a job that no one holds, so that {by.name} cannot commit under it. Take the "
            "job first, or use a name of your own.",
            reason=NOT_OWNER,
            metadata=metadata,
        )
    kind = "The job" if is_of_job(writer) else "The writer's name"
    remedy = (
        "Take a job of your own, or use another name."
        if is_of_job(writer)
        else f"Use another name; or ask an admin to hand it over: lakelog writers release {writer}."
    )
    _check(owners.get(writer, ""), by, f"{kind} '{writer}' is held", remedy, metadata)


def check_registrable(writer: str) -> None:
    """Raises InvalidArgument for the name of a job: commits of jobs are fenced by the job's epoch alone."""
    if is_of_job(writer):
        raise invalid("writer", writer, "Names that begin with 'job/' are those of jobs; take a job instead.")


def check_lease_owner(name: str, owner: str, by: Principal) -> None:
    """Raises PermissionDenied unless a principal may act for the holder of a lease."""
    remedy = "Acquire it when it is free."
    _check(owner, by, f"Lease '{name}' is held", remedy, {"lease": name})


def check_job_owner(job: Job, by: Principal) -> None:
    """Raises PermissionDenied unless a principal may act for the holder of a job."""
    what = f"Job {job.job_id} ({job.kind} of {job.table}) is held"
    _check(job.owner, by, what, "Take a job of your own.", {"job_id": str(job.job_id)})


def check_consumer_owner(consumer_id: str, table: str, owner: str, by: Principal) -> None:
    """Raises PermissionDenied unless a principal may read as a consumer, move it or delete it."""
    _check(
        owner,
        by,
        f"Consumer '{consumer_id}' of table {table} was opened",
        "Read under another consumer id; or ask an admin to hand it over: lakelog consumers reset.",
        {"consumer_id": consumer_id, "table": table},
    )


def check_snapshot_lease_owner(holder: str, table: str, owner: str, by: Principal) -> None:
    """Raises PermissionDenied unless a principal may move or end a reader's snapshot lease."""
    what = f"The snapshot lease of '{holder}' in table {table} was opened"
    _check(owner, by, what, "Lease the snapshot under a holder's name of your own.", {"holder": holder, "table": table})


def _check(owner: str, by: Principal, what: str, remedy: str, metadata: Mapping[str, str]) -> None:
    if by.may_all or owner in ("", by.name):
        return
    raise PermissionDenied(
        f"{what} by '{owner}': only '{owner}' and admins may do this, and '{by.name}' is neither. {remedy}",
        reason=NOT_OWNER,
        metadata={**metadata, "owner": owner, "caller": by.name},
    )
