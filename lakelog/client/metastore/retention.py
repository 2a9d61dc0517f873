"""How long snapshots are kept: a part of the protocol `lakelog.client.metastore.metastore.Metastore`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lakelog.format.retention.expiry import ExpiryStep, OverdueSnapshots, SnapshotLease


class Retention(Protocol):
    """Expiry, pins, and files that go."""

    def expire_snapshots(
        self,
        table_uuid: str,
        *,
        older_than_ms: int | None = None,
        retain_last: int | None = None,
        dry_run: bool = False,
        by_itself: bool = False,
    ) -> ExpiryStep:
        """Does a bounded step of expiring snapshots, or tells what all would do; repeat until it is done.

        Args:
            table_uuid: The table.
            older_than_ms: What was replaced by then expires; None: as the table's options say.
            retain_last: So many of the newest are kept; None: as the table's options say.
            dry_run: Change nothing.
            by_itself: Nobody has asked for it, so that of a `write-only` table nothing expires.
        """
        ...

    def lease_snapshot(self, table_uuid: str, holder: str, snapshot_id: int, duration_ms: int) -> int:
        """Keeps a snapshot, and all behind it, from expiring for a while, or for longer; when that ends. Idempotent.

        Of one whose state has expired its changes are kept, while there are any. SnapshotExpired: nothing of it is.
        """
        ...

    def release_snapshot(self, table_uuid: str, holder: str) -> None:
        """Ends what a holder holds of a table. Idempotent."""
        ...

    def list_snapshot_leases(self, table_uuid: str) -> list[SnapshotLease]:
        """What keeps snapshots of a table from expiring, the lowest first; tags are not among them."""
        ...

    def list_overdue_snapshots(self) -> list[OverdueSnapshots]:
        """Snapshots of all tables that would have expired but for somebody who needs them, the oldest first."""
        ...

    def list_expired_files(self, table_uuid: str, limit: int) -> list[str]:
        """Paths of files that nothing refers to any more, to be deleted from the store; at most `limit`."""
        ...

    def forget_expired_files(self, table_uuid: str, paths: Sequence[str]) -> None:
        """Takes files that are deleted off that list. Idempotent."""
        ...
