"""How long snapshots are retained: a part of the protocol `lakelog.client.metastore.metastore.Metastore`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lakelog.format.retention.expiry import ExpiryStep, OverdueSnapshots, SnapshotLease


class Retention(Protocol):
    """Expiry, snapshot leases, and files to delete."""

    def expire_snapshots(
        self,
        table_uuid: str,
        *,
        older_than_ms: int | None = None,
        retain_last: int | None = None,
        dry_run: bool = False,
        by_itself: bool = False,
    ) -> ExpiryStep:
        """Does a bounded step of expiring snapshots, or returns what all steps would do; repeat until it is done.

        Args:
            table_uuid: The table.
            older_than_ms: Snapshots that were replaced by then expire; None: as the table's options say.
            retain_last: So many of the newest are retained; None: as the table's options say.
            dry_run: Change nothing.
            by_itself: No user has requested it, so no snapshot of a `write-only` table expires.

        Raises:
            NotFound: There is no such table (any more).
        """
        ...

    def lease_snapshot(self, table_uuid: str, holder: str, snapshot_id: int, duration_ms: int) -> int:
        """Protects a snapshot, and all later ones, for a while, or for longer; returns when that ends. Idempotent.

        If the state has expired, the lease keeps the changes, while they exist.

        Args:
            table_uuid: The table.
            holder: The reader; one holder has one lease in a table.
            snapshot_id: The snapshot.
            duration_ms: How long the lease lasts from now on.

        Raises:
            PermissionDenied: The holder's lease belongs to another principal.
            NotFound: There is no such table or snapshot.
            SnapshotExpired: It is no longer retained, perhaps because the lease was renewed too late.
        """
        ...

    def release_snapshot(self, table_uuid: str, holder: str) -> None:
        """Ends a holder's leases on a table. Idempotent.

        Raises:
            PermissionDenied: It belongs to another principal.
        """
        ...

    def list_snapshot_leases(self, table_uuid: str) -> list[SnapshotLease]:
        """The snapshot leases of a table, the lowest first; tags are not among them."""
        ...

    def list_overdue_snapshots(self, table_uuid: str = "") -> list[OverdueSnapshots]:
        """Snapshots that would have expired, but something needs them; the oldest first.

        Args:
            table_uuid: Only those of this table; empty: those of the 200 tables with the oldest earliest snapshots.

        Raises:
            NotFound: There is no such table.
        """
        ...

    def list_expired_files(self, table_uuid: str, limit: int, after: str = "") -> list[str]:
        """Returns at most `limit` paths of files to delete, which nothing refers to any more, in rising order.

        Args:
            table_uuid: The table.
            limit: At most this many.
            after: Only paths after this one.
        """
        ...

    def forget_expired_files(self, table_uuid: str, paths: Sequence[str]) -> None:
        """Removes deleted files from that list. Idempotent."""
        ...
