"""Expiry and snapshot leases over gRPC."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.client.connection.calls import Calls
from lakelog.format.retention.expiry import ExpiryStep, OverdueSnapshots, SnapshotLease
from lakelog.rpc.messages import build
from lakelog.rpc.retention import from_proto_overdue, from_proto_snapshot_lease, from_proto_step
from lakelog.rpc.v1 import retention_pb2


class GrpcRetention:
    """The part of `lakelog.client.metastore.metastore.Metastore` that is about how long snapshots are retained."""

    _calls: Calls

    def expire_snapshots(
        self,
        table_uuid: str,
        *,
        older_than_ms: int | None = None,
        retain_last: int | None = None,
        dry_run: bool = False,
        by_itself: bool = False,
    ) -> ExpiryStep:
        """Does one step of expiry. Repeated: work whose answer was lost is missing in the counts, and nothing else."""
        request = build(
            retention_pb2.ExpireSnapshotsRequest,
            table_uuid=table_uuid,
            older_than_ms=older_than_ms,
            retain_last=retain_last,
            dry_run=dry_run,
            by_itself=by_itself,
        )
        response = self._calls.mutate("ExpireSnapshots", lambda on: on.retention.ExpireSnapshots, request)
        return from_proto_step(response)

    def lease_snapshot(self, table_uuid: str, holder: str, snapshot_id: int, duration_ms: int) -> int:
        """Protects a snapshot from expiring for a while. Repeated: idempotent."""
        request = build(
            retention_pb2.LeaseSnapshotRequest,
            table_uuid=table_uuid,
            holder=holder,
            snapshot_id=snapshot_id,
            duration_ms=duration_ms,
        )
        return self._calls.mutate("LeaseSnapshot", lambda on: on.retention.LeaseSnapshot, request).expires_at_ms

    def release_snapshot(self, table_uuid: str, holder: str) -> None:
        """Ends a holder's snapshot leases. Repeated: idempotent."""
        request = build(retention_pb2.ReleaseSnapshotRequest, table_uuid=table_uuid, holder=holder)
        self._calls.mutate("ReleaseSnapshot", lambda on: on.retention.ReleaseSnapshot, request)

    def list_snapshot_leases(self, table_uuid: str) -> list[SnapshotLease]:
        """What keeps snapshots from expiring."""
        request = build(retention_pb2.ListSnapshotLeasesRequest, table_uuid=table_uuid)
        response = self._calls.read("ListSnapshotLeases", lambda on: on.retention.ListSnapshotLeases, request)
        return [from_proto_snapshot_lease(lease) for lease in response.leases]

    def list_overdue_snapshots(self) -> list[OverdueSnapshots]:
        """Snapshots that would have expired, but something needs them."""
        request = retention_pb2.ListOverdueSnapshotsRequest()
        response = self._calls.read("ListOverdueSnapshots", lambda on: on.retention.ListOverdueSnapshots, request)
        return [from_proto_overdue(each) for each in response.overdue]

    def list_expired_files(self, table_uuid: str, limit: int, after: str = "") -> list[str]:
        """Returns files to delete, in rising order."""
        request = build(retention_pb2.ListExpiredFilesRequest, table_uuid=table_uuid, limit=limit, after=after)
        return list(self._calls.read("ListExpiredFiles", lambda on: on.retention.ListExpiredFiles, request).paths)

    def forget_expired_files(self, table_uuid: str, paths: Sequence[str]) -> None:
        """Reports that files are deleted. Repeated: idempotent."""
        request = build(retention_pb2.ForgetExpiredFilesRequest, table_uuid=table_uuid, paths=paths)
        self._calls.mutate("ForgetExpiredFiles", lambda on: on.retention.ForgetExpiredFiles, request)
