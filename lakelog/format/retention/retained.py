"""Which snapshots of a table can be read. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from lakelog.errors import NotFound, SnapshotExpired
from lakelog.format.commit.facts import TableHead

_NAMED: Final = 5
"""Tagged snapshots that a message names, the newest ones."""


def check_retained(head: TableHead, snapshot_id: int, *, tagged: bool = False) -> None:
    """Checks that a snapshot can be read.

    Args:
        head: The table's head.
        snapshot_id: The snapshot.
        tagged: Whether it has a tag, which retains it when those around it expire (semantics 7.3).

    Raises:
        NotFound: It was not committed yet.
        SnapshotExpired: It has expired.
    """
    latest, earliest = head.latest_snapshot_id, head.earliest_snapshot_id
    if snapshot_id > latest:
        kept = f"it has the snapshots {earliest} to {latest}" if latest else "it has no snapshot yet"
        raise NotFound(
            f"{head.name} has no snapshot {snapshot_id}; {kept}.",
            reason="SNAPSHOT_NOT_FOUND",
            metadata={"table": head.name, "snapshot_id": str(snapshot_id), "latest": str(latest)},
        )
    if snapshot_id < earliest and not tagged:
        raise to_expired(head, snapshot_id)


def to_expired(head: TableHead, snapshot_id: int, tagged: Collection[int] = ()) -> SnapshotExpired:
    """The error for an expired snapshot.

    Args:
        head: The table's head.
        snapshot_id: The snapshot.
        tagged: Snapshots with a tag, expired ones included.
    """
    alone = sorted(each for each in set(tagged) if each < head.earliest_snapshot_id)
    named = ", ".join(map(str, alone[-_NAMED:]))
    others = f", of earlier ones those with a tag: {'..., ' * (len(alone) > _NAMED)}{named}" if alone else ""
    return SnapshotExpired(
        f"Snapshot {snapshot_id} of {head.name} has expired; the snapshots {head.earliest_snapshot_id} to "
        f"{head.latest_snapshot_id} can still be read{others}.",
        metadata={
            "table": head.name,
            "snapshot_id": str(snapshot_id),
            "earliest": str(head.earliest_snapshot_id),
            "latest": str(head.latest_snapshot_id),
        },
    )
