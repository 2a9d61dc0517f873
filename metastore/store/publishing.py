"""What a store does for the publishing of external logs: a part of `metastore.store.transaction`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lakelog.format.log.state import SnapshotOffsets
from lakelog.format.tables.snapshot import LogContent


@dataclass(frozen=True)
class Published:
    """How far a log is published, as its publisher told.

    Args:
        generation: Of the log.
        snapshot_id: All up to it is.
        snapshot_uuid: Its uuid; empty where the log begins behind it.
        next_index: Of the snapshot behind it so many rows; 0: none.
        next_uuid: That snapshot's uuid; empty with 0 rows.
        problem: Why it stands still; empty: it does not.
        reported_at_ms: When; set by the store.
    """

    generation: int
    snapshot_id: int
    snapshot_uuid: str = ""
    next_index: int = 0
    next_uuid: str = ""
    problem: str = ""
    reported_at_ms: int = 0


class PublishTransaction(Protocol):
    """What commits bring to logs, and how far these are published."""

    async def set_log(self, table_id: int, log: LogContent) -> None:
        """Changes what the commits to a table, whose head is locked, must bring to its log."""
        ...

    async def find_published(self, table_id: int) -> Published | None:
        """How far a table's log is published, of whichever generation; None: nobody has told."""
        ...

    async def lock_published(self, table_id: int) -> Published | None:
        """As `find_published`; nobody else changes it before the transaction ends."""
        ...

    async def put_published(self, table_id: int, published: Published) -> None:
        """Writes it down, with the time."""
        ...

    async def find_snapshot_uuids(self, table_id: int, snapshot_ids: Sequence[int]) -> dict[int, str]:
        """The uuids of those of the snapshots that are there."""
        ...

    async def insert_log_offsets(self, table_id: int, generation: int, snapshots: Sequence[SnapshotOffsets]) -> None:
        """Writes down where snapshots end; one that is known stays as it is."""
        ...

    async def put_log_offsets(self, table_id: int, generation: int, snapshot: SnapshotOffsets) -> None:
        """Writes down where a snapshot ends, instead of what is known of it."""
        ...

    async def find_log_offsets(self, table_id: int, generation: int, until: int) -> SnapshotOffsets | None:
        """Where the newest snapshot at or before `until` ends of which that is known."""
        ...

    async def list_log_offsets(
        self, table_id: int, generation: int, after: int, until: int, limit: int
    ) -> list[SnapshotOffsets]:
        """Where snapshots behind `after` up to `until` end, rising; at most `limit`."""
        ...

    async def find_lease_holder(self, name: str) -> str:
        """Who holds a lease that is not over; empty: nobody."""
        ...
