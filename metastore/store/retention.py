"""What a store does for expiry: a part of `metastore.store.transaction`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lakelog.format.retention.expiry import SnapshotLease


@dataclass(frozen=True)
class ExpiryState:
    """How far what has expired was cleared away.

    Args:
        cleared_until: Of the files that were removed up to this snapshot only those are left that a name keeps.
        kept: The snapshots below the earliest one that names kept then, rising.
    """

    cleared_until: int = 0
    kept: tuple[int, ...] = ()


@dataclass(frozen=True)
class Clearing:
    """What is to be cleared away of a table.

    Args:
        table_id: The table.
        after: Entries of files that were removed behind this snapshot,
        until: up to and with this one, go,
        named: but for those that are live at one of these snapshots, rising.
        rows_before: Snapshots before this one go, but for those named, and where they end in the external log.
        changes_before: Entries of changelogs of snapshots before this one go; of log segments those of snapshots before
            `until`.
        limit: At most so many entries, and so many snapshots.
    """

    table_id: int
    after: int
    until: int
    named: Sequence[int]
    rows_before: int
    changes_before: int
    limit: int


@dataclass(frozen=True)
class Cleared:
    """What was cleared away, or would be.

    Args:
        files: That nothing refers to any more: queued for being deleted.
        size_bytes: Of the data and changelog files among them.
        is_done: Nothing is left of what was to be cleared away.
    """

    files: int = 0
    size_bytes: int = 0
    is_done: bool = True


class RetentionTransaction(Protocol):
    """Pins, expiry, and files that are aborted. The table's head is locked where something changes."""

    async def list_leases(self, table_id: int) -> list[SnapshotLease]:
        """The pins of readers that have not expired, in any order."""
        ...

    async def find_lease(self, table_id: int, holder: str) -> SnapshotLease | None:
        """The pin of a reader, expired or not."""
        ...

    async def put_lease(self, table_id: int, holder: str, snapshot_id: int, duration_ms: int) -> int:
        """Makes or moves the pin of a reader, and returns when it expires; pins of others that expired are removed."""
        ...

    async def delete_lease(self, table_id: int, holder: str) -> None:
        """Removes the pin of a reader, if there is one."""
        ...

    async def list_needed_tables(self, limit: int) -> list[str]:
        """The uuids of tables that are there and of which somebody may need snapshots, those kept for longest first."""
        ...

    async def load_expiry(self, table_id: int) -> ExpiryState:
        """How far what has expired was cleared away."""
        ...

    async def put_expiry(self, table_id: int, state: ExpiryState) -> None:
        """Writes that down."""
        ...

    async def set_earliest(self, table_id: int, earliest: int, earliest_change: int) -> None:
        """Moves where what is kept of a table begins."""
        ...

    async def measure_expired(self, clearing: Clearing) -> Cleared:
        """What `clear_expired` would clear away in all, without doing it; shared files count as often as they stand."""
        ...

    async def clear_expired(self, clearing: Clearing) -> Cleared:
        """Deletes entries, and queues the files that no entry refers to any more."""
        ...

    async def list_expired(self, table_id: int, limit: int) -> list[str]:
        """Paths of files that are to be deleted, at most `limit`, in any order."""
        ...

    async def forget_expired(self, table_id: int, paths: Sequence[str]) -> None:
        """Takes files that are deleted out of the queue."""
        ...
