"""How long snapshots are kept: a part of `metastore.service`."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.format.retention.expiry import ExpiryStep, OverdueSnapshots, SnapshotLease

from .expiry import Expiry
from .overdue import Overdue
from .snapshot_leases import SnapshotLeases


class RetentionCalls:
    """What `lakelog.client.metastore.metastore.Metastore` says of it."""

    _expiry: Expiry
    _snapshot_leases: SnapshotLeases
    overdue: Overdue

    async def expire_snapshots(
        self,
        table_uuid: str,
        *,
        older_than_ms: int | None = None,
        retain_last: int | None = None,
        dry_run: bool = False,
        by_itself: bool = False,
    ) -> ExpiryStep:
        """Does a bounded step of expiring snapshots, or tells what all would do; repeat until it is done."""
        return await self._expiry.expire_snapshots(
            table_uuid, older_than_ms=older_than_ms, retain_last=retain_last, dry_run=dry_run, by_itself=by_itself
        )

    async def lease_snapshot(self, table_uuid: str, holder: str, snapshot_id: int, duration_ms: int) -> int:
        """Keeps a snapshot, and all behind it, from expiring for a while; when that ends. Idempotent."""
        return await self._snapshot_leases.lease_snapshot(table_uuid, holder, snapshot_id, duration_ms)

    async def release_snapshot(self, table_uuid: str, holder: str) -> None:
        """Ends what a holder holds of a table. Idempotent."""
        await self._snapshot_leases.release_snapshot(table_uuid, holder)

    async def list_snapshot_leases(self, table_uuid: str) -> list[SnapshotLease]:
        """What keeps snapshots of a table from expiring, the lowest first."""
        return await self._snapshot_leases.list_snapshot_leases(table_uuid)

    async def list_overdue_snapshots(self) -> list[OverdueSnapshots]:
        """Snapshots of all tables that would have expired but for somebody who needs them, the oldest first."""
        return await self.overdue.list_overdue_snapshots()

    async def list_expired_files(self, table_uuid: str, limit: int) -> list[str]:
        """Paths of files that nothing refers to any more, to be deleted; at most `limit`."""
        return await self._expiry.list_expired_files(table_uuid, limit)

    async def forget_expired_files(self, table_uuid: str, paths: Sequence[str]) -> None:
        """Takes files that are deleted off that list. Idempotent."""
        await self._expiry.forget_expired_files(table_uuid, paths)
