"""What a store does for expiry and tags: parts of `metastore.store.transaction`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lakelog.format.retention.expiry import SnapshotLease
from lakelog.format.retention.tag import Tag
from lakelog.format.tables.snapshot import Snapshot


@dataclass(frozen=True)
class ExpiryState:
    """How far expired snapshots were cleared away.

    Args:
        cleared_until: Of the files removed up to this snapshot only those are left that a named snapshot retains.
        kept: The named snapshots below the earliest one that were retained then, rising.
    """

    cleared_until: int = 0
    kept: tuple[int, ...] = ()


@dataclass(frozen=True)
class Clearing:
    """What is to be cleared away in a table.

    Args:
        table_id: The table.
        after: Entries are deleted whose files were removed after this snapshot,
        until: and at or before this one,
        named: except files that are live at one of these snapshots, rising.
        rows_before: Snapshots before this one are deleted, except the named ones, with their ends in the external log.
        changes_before: Changelog entries of snapshots before this one are deleted; log segments of snapshots before
            `until`.
        limit: At most this many entries, and this many snapshots.
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
        files: Number of files that nothing refers to any more, queued for deletion.
        size_bytes: Of the data and changelog files among them.
        is_done: Nothing is left to clear away.
    """

    files: int = 0
    size_bytes: int = 0
    is_done: bool = True


class RetentionTransaction(Protocol):
    """Snapshot leases, expiry, and aborted files. The table's head is locked where something changes."""

    async def list_leases(self, table_id: int) -> list[SnapshotLease]:
        """The snapshot leases of readers that have not expired, in any order."""
        ...

    async def put_lease(
        self, table_id: int, holder: str, snapshot_id: int, duration_ms: int, owner: str
    ) -> tuple[int, str, int]:
        """Makes or moves a reader's snapshot lease, and removes expired ones of others.

        If the lease has no owner, `owner` owns it from now on. Returns when it expires, its owner, and the number of
        this owner's other leases in the table.
        """
        ...

    async def delete_lease(self, table_id: int, holder: str) -> str:
        """Removes the snapshot lease of a reader, if there is one; returns its owner; empty: it had none."""
        ...

    async def list_needed_tables(self, limit: int) -> list[str]:
        """The uuids of existing tables with snapshots that may be needed, those retained for longest first."""
        ...

    async def load_expiry(self, table_id: int) -> ExpiryState:
        """How far expired snapshots were cleared away."""
        ...

    async def put_expiry(self, table_id: int, state: ExpiryState) -> None:
        """Records how far expired snapshots were cleared away."""
        ...

    async def set_earliest(self, table_id: int, earliest: int, earliest_change: int) -> None:
        """Moves the beginning of what is retained of a table."""
        ...

    async def measure_expired(self, clearing: Clearing) -> Cleared:
        """What `clear_expired` would clear away in all, without doing it; a shared file counts once for each entry."""
        ...

    async def clear_expired(self, clearing: Clearing) -> Cleared:
        """Deletes entries, and queues the files that no entry refers to any more."""
        ...

    async def list_expired(self, table_id: int, limit: int, after: str = "") -> list[str]:
        """Returns at most `limit` paths after `after` of files that are to be deleted, rising by their bytes."""
        ...

    async def find_expired_age(self, table_id: int) -> int | None:
        """For how many milliseconds the files that are to be deleted have been listed; None: there are none.

        It is the age of the newest one. If there are very many, only some are read.
        """
        ...

    async def forget_expired(self, table_id: int, paths: Sequence[str]) -> None:
        """Takes deleted files out of the queue."""
        ...


class TagTransaction(Protocol):
    """Tags: names of snapshots."""

    async def find_tag(self, table_id: int, name: str) -> Tag | None:
        """A tag of a table."""
        ...

    async def has_tag(self, table_id: int, snapshot_id: int) -> bool:
        """Whether a snapshot has a tag."""
        ...

    async def list_tags(self, table_id: int) -> list[Tag]:
        """A table's tags by name."""
        ...

    async def insert_tag(self, table_id: int, name: str, snapshot: Snapshot) -> Tag:
        """Gives a snapshot a free name. The table's head is locked."""
        ...

    async def delete_tag(self, table_id: int, name: str) -> None:
        """Removes a tag. The table's head is locked."""
        ...
