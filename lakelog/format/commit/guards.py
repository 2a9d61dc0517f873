"""Guards: what must not have changed since a snapshot that somebody read, for a commit to take effect. Pure.

1. `if_snapshot` guards a table, whether the commit changes it or not; `if_unchanged` what a change touches.
2. A COMPACT changes no row and trips no guard. Every other snapshot that brought or took files does.
3. What can no longer be known is refused: a guard never lets a commit through by mistake.
4. Guards are looked at only for a commit that is not applied yet (invariant 1 of `commit_rules`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lakelog.clock import show_time
from lakelog.errors import CommitConflict, InvalidArgument, NotFound
from lakelog.format.commit.facts import BucketChange, CommitFacts, FileFacts, GuardFacts, TableHead
from lakelog.format.commit.request import (
    BucketRef,
    Change,
    CommitRequest,
    RemoveEverything,
    RemoveFiles,
    RemovePartitions,
    RestoreState,
)
from lakelog.format.tables.snapshot import Snapshot

CHANGED_SINCE: Final = "CHANGED_SINCE"
"""The reason of a conflict over a guard: another commit came in between. Nobody but the user can settle it."""

GUARD_EXPIRED: Final = "GUARD_EXPIRED"
"""The reason of a conflict over a guard of which nobody can say any more what came since."""


@dataclass(frozen=True)
class Touched:
    """What a change adds files to or takes files from.

    Args:
        partitions: With all their buckets, encoded.
        buckets: Of other partitions.
    """

    partitions: frozenset[bytes] = frozenset()
    buckets: frozenset[BucketRef] = frozenset()


def find_touched(change: Change, files: Iterable[FileFacts], matching: Iterable[bytes]) -> Touched | None:
    """What a change touches; None: the whole table. Pure.

    Args:
        change: The change.
        files: Those that its removal names.
        matching: The partitions whose values its removal names.
    """
    if isinstance(change.remove, RemoveEverything | RestoreState):
        return None
    partitions = set(matching)
    if isinstance(change.remove, RemovePartitions):
        partitions.update(change.remove.partitions)
    buckets = {BucketRef(file.partition, file.bucket) for file in change.add_files}
    if isinstance(change.remove, RemoveFiles):
        buckets.update(file.bucket_ref for file in files)
    return Touched(frozenset(partitions), frozenset(each for each in buckets if each.partition not in partitions))


def check_guards(request: CommitRequest, facts: CommitFacts) -> None:
    """Check that what a commit guards is as it was. Pure.

    Raises:
        NotFound: A table that is only guarded does not exist.
        InvalidArgument: A guard names a snapshot that there is not yet.
        CommitConflict: Rows have changed since, or it cannot be known any more.
    """
    known = facts.guards or {}
    for guard in request.guards:
        head = facts.heads.get(guard.table_uuid)
        if head is None:
            raise table_gone(guard.table_uuid)
        found = known.get(guard.table_uuid, GuardFacts())
        # Rows of snapshots are kept as long as changes are, and say who changed a table.
        _check("if_snapshot", guard.if_snapshot, head, head.earliest_change_id - 1)
        if found.table is not None:
            raise _changed("if_snapshot", guard.if_snapshot, head, found.table, "")
    for change in request.changes:
        if change.if_unchanged is None:
            continue
        head = facts.heads[change.table_uuid]
        # What the earliest snapshot itself took away is no longer known, unless it is the first there ever was.
        _check("if_unchanged", change.if_unchanged, head, head.earliest_snapshot_id if expires(head) else 0)
        found = known.get(change.table_uuid, GuardFacts())
        if found.touched is not None:
            raise _changed("if_unchanged", change.if_unchanged, head, found.touched, _name_place(found))


def expires(head: TableHead) -> bool:
    """Whether snapshots of a table have expired. Pure."""
    return head.earliest_snapshot_id > 1


def table_gone(table_uuid: str) -> NotFound:
    """The error for a table uuid that names no table."""
    return NotFound(
        f"Table {table_uuid} does not exist; it was dropped, or belongs to another metastore. Look the table up by its "
        "name again.",
        reason="TABLE_NOT_FOUND",
        metadata={"table_uuid": table_uuid},
    )


def name_snapshot(found: Snapshot | BucketChange) -> str:
    """A snapshot of another, for messages. Pure."""
    return f"snapshot {found.snapshot_id} ({found.kind.name}, {show_time(found.committed_at_ms)})"


def to_metadata(found: Snapshot | BucketChange) -> dict[str, str]:
    """A snapshot of another, for programs. Pure."""
    return {
        "other_writer": found.writer,
        "snapshot_id": str(found.snapshot_id),
        "snapshot_kind": found.kind.name,
        "committed_at_ms": str(found.committed_at_ms),
    }


def _check(guard: str, base: int, head: TableHead, lowest: int) -> None:
    if base > head.latest_snapshot_id:
        raise InvalidArgument(
            f"{guard}={base} is no snapshot of {head.name}: its newest one is {head.latest_snapshot_id}. Give the "
            "number of the snapshot that was read, as scan.snapshot_id has it.",
            reason="SNAPSHOT_UNKNOWN",
            metadata={"field": guard, "table": head.name, "value": str(base), "latest": str(head.latest_snapshot_id)},
        )
    # Behind the newest snapshot nothing can have come, whatever has expired.
    if lowest > base < head.latest_snapshot_id:
        raise CommitConflict(
            f"{guard}={base} cannot be checked: what came behind snapshot {base} of {head.name} has expired, and is "
            f"only known from snapshot {lowest} on. Nothing was written. Read the table again, and write again.",
            reason=GUARD_EXPIRED,
            metadata={
                "guard": guard,
                "table": head.name,
                "base": str(base),
                "earliest": str(lowest),
                "retry": "replan",
            },
        )


def _changed(guard: str, base: int, head: TableHead, found: Snapshot | BucketChange, place: str) -> CommitConflict:
    return CommitConflict(
        f"{head.name} has changed since snapshot {base} ({guard}={base}): '{found.writer}' wrote to "
        f"{place or 'the table'} with {name_snapshot(found)}. Nothing of this commit was applied. Read the rows again "
        "at the newest snapshot, and write again.",
        reason=CHANGED_SINCE,
        metadata={
            "guard": guard,
            "table": head.name,
            "base": str(base),
            **to_metadata(found),
            **({"place": place} if place else {}),
            "retry": "replan",
        },
    )


def _name_place(found: GuardFacts) -> str:
    partition = f"partition {found.partition}" if found.partition else ""
    if found.bucket is None:
        return partition
    return f"bucket {found.bucket} of {partition}" if partition else f"bucket {found.bucket}"
