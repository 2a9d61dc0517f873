"""Guards: what must be unchanged since a snapshot that a user has read, for a commit to take effect. Pure.

1. `if_snapshot` guards a table, whether the commit changes it or not; `if_unchanged` guards what a change touches.
2. A COMPACT changes no row and violates no guard. Every other snapshot that added or removed files does.
3. If the answer is no longer known, the commit is refused: a guard never lets a commit through by mistake.
4. Guards are checked only for a commit that is not applied yet (invariant 1 of `rules.py`).
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
"""The reason of a conflict over a guard: another commit came in between. Only the user can resolve it."""

GUARD_EXPIRED: Final = "GUARD_EXPIRED"
"""The reason of a conflict over a guard if it is no longer known what happened since."""


@dataclass(frozen=True)
class Touched:
    """What a change adds files to or removes files from.

    Args:
        partitions: Encoded partitions with all their buckets.
        buckets: Buckets of other partitions.
    """

    partitions: frozenset[bytes] = frozenset()
    buckets: frozenset[BucketRef] = frozenset()


def find_touched(change: Change, files: Iterable[FileFacts], matching: Iterable[bytes]) -> Touched | None:
    """Returns what a change touches; None: the whole table. Pure.

    Args:
        change: The change.
        files: The files that its removal names.
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
    """Checks that what a commit guards is unchanged. Pure.

    Raises:
        NotFound: A table that is only guarded does not exist.
        InvalidArgument: A guard names a snapshot that does not exist yet.
        CommitConflict: Rows have changed since, or this is no longer known.
    """
    known = facts.guards or {}
    for guard in request.guards:
        head = facts.heads.get(guard.table_uuid)
        if head is None:
            raise table_gone(guard.table_uuid)
        found = known.get(guard.table_uuid, GuardFacts())
        # Snapshots' rows in the metastore are kept as long as changes are, and say which writer changed a table.
        _check("if_snapshot", guard.if_snapshot, head, head.earliest_change_id - 1)
        if found.table is not None:
            raise _changed("if_snapshot", guard.if_snapshot, head, found.table, "")
    for change in request.changes:
        if change.if_unchanged is None:
            continue
        head = facts.heads[change.table_uuid]
        # What the earliest snapshot itself removed is no longer known, unless it is the first of all.
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
    """The snapshot of another writer, for messages. Pure."""
    return f"snapshot {found.snapshot_id} ({found.kind.name}, {show_time(found.committed_at_ms)})"


def to_metadata(found: Snapshot | BucketChange) -> dict[str, str]:
    """The snapshot of another writer, for programs. Pure."""
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
    # After the newest snapshot nothing can have happened, whatever has expired.
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
