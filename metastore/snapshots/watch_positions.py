"""Compares what a watcher has seen with a table's history: it can go on, or the database has lost snapshots."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.client.metastore.metastore import WatchPosition
from lakelog.errors import HistoryDiverged, SnapshotExpired
from lakelog.format.commit.facts import TableHead
from lakelog.format.tables.snapshot import Snapshot

from ..store.limits import Limits
from ..store.transaction import Transaction
from ..store.validation import check_number, check_table_uuids, check_uuid, invalid
from .retained import load_snapshot


def check_positions(positions: Sequence[WatchPosition], limits: Limits) -> None:
    """Checks the positions of a new watch; raises InvalidArgument."""
    check_table_uuids(
        "positions.table_uuid", [position.table_uuid for position in positions], limits.max_watched_tables
    )
    for position in positions:
        check_number("positions.after", position.after, 0)
        if position.after_uuid:
            check_uuid("positions.after_uuid", position.after_uuid)
            if not position.after:
                raise invalid(
                    "positions.after_uuid", position.after_uuid, "With after=0 there is none; leave it empty."
                )


async def check_history(tx: Transaction, head: TableHead, position: WatchPosition) -> None:
    """Checks that a watcher can go on after a position; raises HistoryDiverged or SnapshotExpired."""
    after, latest = position.after, head.latest_snapshot_id
    if after > latest:
        raise HistoryDiverged(
            f"The watcher of {head.name} knows snapshot {after}, but the newest one is {latest}: the metastore was "
            "restored to an earlier state. Stop, and compare what was read with the table.",
            reason="SNAPSHOT_UNKNOWN",
            metadata={"table": head.name, "snapshot_id": str(after), "latest": str(latest)},
        )
    if after and after + 1 < head.earliest_change_id:
        raise SnapshotExpired(
            f"The watcher of {head.name} begins after snapshot {after}, but the snapshots up to "
            f"{head.earliest_change_id - 1} have expired; {head.earliest_change_id} to {latest} can still be read.",
            metadata={"table": head.name, "earliest": str(head.earliest_change_id), "latest": str(latest)},
        )
    if not position.after_uuid:
        return
    known = ""
    if after >= head.earliest_change_id:
        known = (await load_snapshot(tx, head, after)).snapshot_uuid
    elif after < latest:
        known = (await load_snapshot(tx, head, after + 1)).parent_uuid
    if known != position.after_uuid:
        raise HistoryDiverged(
            f"The watcher of {head.name} knows snapshot {after} as {position.after_uuid}, but here it is {known}: the "
            "metastore was restored to an earlier state and went on. Stop, and compare what was read with the table.",
            metadata={"table": head.name, "snapshot_id": str(after), "snapshot_uuid": known},
        )


def check_parent(table_uuid: str, known_uuid: str, snapshot: Snapshot) -> None:
    """Checks that a snapshot follows the one that a watcher has, if its uuid is known; raises HistoryDiverged."""
    if known_uuid and snapshot.parent_uuid != known_uuid:
        before = snapshot.snapshot_id - 1
        raise HistoryDiverged(
            f"The watcher of table {table_uuid} knows snapshot {before} as {known_uuid}, but what follows it here "
            f"names {snapshot.parent_uuid}: the database was restored to an earlier state and went on. Stop, and "
            "compare what was read with the table.",
            metadata={"table_uuid": table_uuid, "snapshot_id": str(before), "snapshot_uuid": snapshot.parent_uuid},
        )


def is_loss(head: TableHead, known: int, known_uuid: str) -> bool:
    """Whether a head shows that snapshots are gone.

    Args:
        head: As it was read.
        known: The newest snapshot that was known before it was read.
        known_uuid: The uuid under which the head's newest snapshot is known; empty: it is not known.
    """
    return head.latest_snapshot_id < known or bool(known_uuid and known_uuid != head.latest_uuid)


def follows(last: Snapshot, snapshot: Snapshot) -> bool:
    """Whether a snapshot is the next one after another."""
    return snapshot.snapshot_id == last.snapshot_id + 1 and snapshot.parent_uuid == last.snapshot_uuid
