"""Guards: what must be unchanged since a snapshot that a user has read, for a commit to take effect. Pure.

1. `if_snapshot` guards a table, or some of its buckets and partitions, whether the commit changes it or not;
   `if_unchanged` guards what a change touches.
2. A COMPACT changes no row and violates no guard. Every other snapshot that added or removed files does.
3. If the answer is no longer known, the commit is refused: a guard never lets a commit through by mistake.
4. Guards are checked only for a commit that is not applied yet (invariant 1 of `rules.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from lakelog.clock import show_time
from lakelog.errors import CommitConflict, HistoryDiverged, InvalidArgument, NotFound
from lakelog.format.commit.facts import BucketChange, CommitFacts, FileFacts, GuardedChange, TableHead
from lakelog.format.commit.request import (
    BucketRef,
    Change,
    CommitRequest,
    RemoveEverything,
    RemoveFiles,
    RemovePartitions,
    RestoreState,
    TableGuard,
)
from lakelog.format.tables.snapshot import Snapshot

MAX_GUARDED_PLACES: Final = 10_000
"""The most partitions and buckets that the guards of a commit name together; beyond that, whole tables are guarded."""

CHANGED_SINCE: Final = "CHANGED_SINCE"
"""The reason of a conflict over a guard: another commit came in between. Only the user can resolve it."""

GUARD_EXPIRED: Final = "GUARD_EXPIRED"
"""The reason of a conflict over a guard if it is no longer known what happened since."""


@dataclass(frozen=True)
class Places:
    """Parts of a table: what a change adds files to or removes files from, or what a user has read.

    Args:
        partitions: Encoded partitions with all their buckets.
        buckets: Buckets of other partitions.
    """

    partitions: frozenset[bytes] = frozenset()
    buckets: frozenset[BucketRef] = frozenset()


def find_touched(change: Change, files: Iterable[FileFacts], matching: Iterable[bytes]) -> Places | None:
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
    buckets.update(group.bucket for group in change.groups)
    if isinstance(change.remove, RemoveFiles):
        buckets.update(file.bucket_ref for file in files)
    return Places(frozenset(partitions), frozenset(each for each in buckets if each.partition not in partitions))


def guard_places(guard: TableGuard, places: Places) -> TableGuard:
    """Returns a guard of some places of the same table; without any: of the whole table. Pure."""
    buckets = sorted(places.buckets, key=lambda each: (each.partition, each.bucket))
    return replace(guard, partitions=tuple(sorted(places.partitions)), buckets=tuple(buckets))


def count_places(guard: TableGuard) -> int:
    """Returns how many partitions and buckets a guard names; 0: it covers the whole table. Pure."""
    return len(guard.partitions) + len(guard.buckets)


def to_places(guard: TableGuard) -> Places | None:
    """Returns what a guard covers; None: the whole table. Pure."""
    if not guard.partitions and not guard.buckets:
        return None
    return Places(frozenset(guard.partitions), frozenset(guard.buckets))


def meet_guards(guards: Iterable[TableGuard]) -> tuple[TableGuard, ...]:
    """Combines guards since the same snapshot of a table to one, which refuses whatever one of them refuses. Pure.

    If all of them have too many places for a commit together, those with the most become guards of whole tables.
    """
    met: dict[tuple[str, int, str], TableGuard] = {}
    for guard in guards:
        other = met.setdefault((guard.table_uuid, guard.if_snapshot, guard.snapshot_uuid), guard)
        if other is guard:
            continue
        partitions = frozenset((*other.partitions, *guard.partitions))
        buckets = frozenset(each for each in (*other.buckets, *guard.buckets) if each.partition not in partitions)
        if not count_places(other) or not count_places(guard):
            partitions, buckets = frozenset(), frozenset()
        met[guard.table_uuid, guard.if_snapshot, guard.snapshot_uuid] = guard_places(guard, Places(partitions, buckets))
    excess = sum(map(count_places, met.values())) - MAX_GUARDED_PLACES
    for key, guard in sorted(met.items(), key=lambda each: count_places(each[1]), reverse=True):
        if excess <= 0:
            break
        excess -= count_places(guard)
        met[key] = guard_places(guard, Places())
    return tuple(met.values())


def check_guards(request: CommitRequest, facts: CommitFacts) -> None:
    """Checks that what a commit guards is unchanged. Pure.

    Raises:
        NotFound: A table that is only guarded does not exist.
        InvalidArgument: A guard names a snapshot that does not exist yet, by its number alone.
        HistoryDiverged: A guard names the uuid of a snapshot that the database has lost.
        CommitConflict: Rows have changed since, or this is no longer known.
    """
    for guard, found in zip(request.guards, facts.guards, strict=True):
        head = facts.heads.get(guard.table_uuid)
        if head is None:
            raise table_gone(guard.table_uuid)
        # Snapshots' rows in the metastore are kept as long as changes are, and say which writer changed a table.
        lowest = _lowest_known(head) if guard.partitions or guard.buckets else head.earliest_change_id - 1
        if guard.snapshot_uuid and guard.if_snapshot > head.latest_snapshot_id:
            raise _lost(head, guard)
        _check("if_snapshot", guard.if_snapshot, head, lowest)
        check_history(head, guard.if_snapshot, guard.snapshot_uuid, found.base_uuid)
        if found.change is not None:
            raise _changed("if_snapshot", guard.if_snapshot, head, found.change)
    for change in request.changes:
        if change.if_unchanged is None:
            continue
        head = facts.heads[change.table_uuid]
        _check("if_unchanged", change.if_unchanged, head, _lowest_known(head))
        touched = (facts.touched or {}).get(change.table_uuid)
        if touched is not None:
            raise _changed("if_unchanged", change.if_unchanged, head, touched)


def check_history(head: TableHead, snapshot_id: int, known: str, uuid: str) -> None:
    """Checks that a commit was made against a snapshot of this history. Pure.

    Args:
        head: The table.
        snapshot_id: The snapshot that the commit rests on.
        known: Its uuid, as the caller knows it; empty: not given.
        uuid: That of the snapshot with this id; empty: it is not known any more.

    Raises:
        HistoryDiverged: The caller's snapshot is one that the database has lost; another one has its id.
    """
    if known and uuid and uuid != known:
        raise HistoryDiverged(
            f"The commit to {head.name} was made against snapshot {snapshot_id} as {known}, but here it is "
            f"{uuid}: the metastore was restored to an earlier state and went on. Plan again on the newest snapshot.",
            metadata={
                "table": head.name,
                "snapshot_id": str(snapshot_id),
                "snapshot_uuid": uuid,
                "retry": "replan",
            },
        )


def expires(head: TableHead) -> bool:
    """Whether snapshots of a table have expired. Pure."""
    return head.earliest_snapshot_id > 1


def _lowest_known(head: TableHead) -> int:
    """The lowest snapshot after which it is known what changed in each bucket."""
    # What the earliest snapshot itself removed is no longer known, unless it is the first of all.
    return head.earliest_snapshot_id if expires(head) else 0


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


def _lost(head: TableHead, guard: TableGuard) -> HistoryDiverged:
    """The error for a snapshot that was read, and is above the newest one."""
    return HistoryDiverged(
        f"The commit to {head.name} was made against snapshot {guard.if_snapshot} as {guard.snapshot_uuid}, but the "
        f"newest one here is {head.latest_snapshot_id}: the metastore was restored to an earlier state. Nothing was "
        "written. Read the rows again.",
        metadata={
            "table": head.name,
            "snapshot_id": str(guard.if_snapshot),
            "latest": str(head.latest_snapshot_id),
            "retry": "replan",
        },
    )


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


def _changed(guard: str, base: int, head: TableHead, found: GuardedChange) -> CommitConflict:
    return CommitConflict(
        f"{head.name} has changed since snapshot {base} ({guard}={base}): '{found.change.writer}' wrote to "
        f"{found.place or 'the table'} with {name_snapshot(found.change)}. Nothing of this commit was applied. Read "
        "the rows again at the newest snapshot, and write again.",
        reason=CHANGED_SINCE,
        metadata={
            "guard": guard,
            "table": head.name,
            "base": str(base),
            **to_metadata(found.change),
            **({"place": found.place} if found.place else {}),
            "retry": "replan",
        },
    )
