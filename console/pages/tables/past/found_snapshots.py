"""Snapshots by their numbers, and the sentence about one that is not there."""

from __future__ import annotations

from typing import Any, Final

from lakelog.errors import NotFound, SnapshotExpired
from lakelog.sdk.tables.table import Table

from ...page import PageRequest
from ..numbers import NumberField
from ..rows import to_rows

SNAPSHOT: Final = NumberField("snapshot_id", "snapshot", 1)


def load_snapshots(table: Table, *ids: int) -> dict[int, dict[str, Any]]:
    """Snapshots by number, as `$snapshots` has them; those that are not there are left out."""
    found: dict[int, dict[str, Any]] = {}
    for each in sorted({each for each in ids if each > 0}):
        rows = table.system_table("snapshots").scan(filter="id = :id", params={"id": each}).to_arrow()
        found |= {row["id"]: row for row in to_rows(rows)}
    return found


def find_snapshot(request: PageRequest, table: Table, found: dict[int, dict[str, Any]], wanted: int) -> dict[str, Any]:
    """One of some snapshots.

    Raises:
        SnapshotExpired: It has expired.
        NotFound: There is none of this number yet.
    """
    if wanted in found:
        return found[wanted]
    latest = request.catalog.metastore.list_latest([table.uuid])[0]
    if wanted > latest.snapshot_id:
        raise NotFound(
            f"Table {table.name} has no snapshot {wanted} yet; its newest one is "
            f"{latest.snapshot_id or 'still to come'}.",
            reason="SNAPSHOT_NOT_FOUND",
            metadata={"table": table.name},
        )
    raise SnapshotExpired(
        f"Snapshot {wanted} of {table.name} has expired. The oldest one that is retained is "
        f"{latest.earliest_snapshot_id}; 'snapshot.time-retained' says for how long they are.",
        metadata={"table": table.name, "earliest": str(latest.earliest_snapshot_id)},
    )
