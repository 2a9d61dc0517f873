"""How long snapshots are kept, over the service in this process: a part of `metastore.inprocess`."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from lakelog.format.retention.expiry import ExpiryStep, OverdueSnapshots, SnapshotLease

from .service import MetastoreService

T = TypeVar("T")


class InProcessRetention:
    """The part of `lakelog.client.metastore.metastore.Metastore` that is about how long snapshots are kept."""

    service: MetastoreService

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the service's event loop and waits for it."""
        raise NotImplementedError

    def expire_snapshots(
        self,
        table_uuid: str,
        *,
        older_than_ms: int | None = None,
        retain_last: int | None = None,
        dry_run: bool = False,
        by_itself: bool = False,
    ) -> ExpiryStep:
        """Does a bounded step of expiring snapshots, or tells what all would do; repeat until it is done."""
        work = self.service.expire_snapshots(
            table_uuid, older_than_ms=older_than_ms, retain_last=retain_last, dry_run=dry_run, by_itself=by_itself
        )
        return self.run(work)

    def lease_snapshot(self, table_uuid: str, holder: str, snapshot_id: int, duration_ms: int) -> int:
        """Keeps a snapshot, and all behind it, from expiring for a while; when that ends. Idempotent."""
        return self.run(self.service.lease_snapshot(table_uuid, holder, snapshot_id, duration_ms))

    def release_snapshot(self, table_uuid: str, holder: str) -> None:
        """Ends what a holder holds of a table. Idempotent."""
        self.run(self.service.release_snapshot(table_uuid, holder))

    def list_snapshot_leases(self, table_uuid: str) -> list[SnapshotLease]:
        """What keeps snapshots of a table from expiring, the lowest first."""
        return self.run(self.service.list_snapshot_leases(table_uuid))

    def list_overdue_snapshots(self) -> list[OverdueSnapshots]:
        """Snapshots of all tables that would have expired but for somebody who needs them, the oldest first."""
        return self.run(self.service.list_overdue_snapshots())

    def list_expired_files(self, table_uuid: str, limit: int) -> list[str]:
        """Paths of files that nothing refers to any more, to be deleted; at most `limit`."""
        return self.run(self.service.list_expired_files(table_uuid, limit))

    def forget_expired_files(self, table_uuid: str, paths: Sequence[str]) -> None:
        """Takes files that are deleted off that list. Idempotent."""
        self.run(self.service.forget_expired_files(table_uuid, paths))
