"""RetentionService: from messages to use cases and back, nothing else."""

from __future__ import annotations

from typing import Any

import grpc

from lakelog.rpc.retention import to_proto_overdue, to_proto_snapshot_lease, to_proto_step
from lakelog.rpc.v1 import retention_pb2, retention_pb2_grpc

from ...retention.expiry import Expiry
from ...retention.overdue import Overdue
from ...retention.snapshot_leases import SnapshotLeases
from ..callers import principal

Context = grpc.aio.ServicerContext[Any, Any]


class RetentionServicer(retention_pb2_grpc.RetentionServiceServicer):
    """How long snapshots are retained."""

    def __init__(self, expiry: Expiry, snapshot_leases: SnapshotLeases, overdue: Overdue) -> None:
        self._expiry = expiry
        self._snapshot_leases = snapshot_leases
        self._overdue = overdue

    async def ExpireSnapshots(  # noqa: N802
        self, request: retention_pb2.ExpireSnapshotsRequest, context: Context
    ) -> retention_pb2.ExpireSnapshotsResponse:
        """Does a step of expiry."""
        step = await self._expiry.expire_snapshots(
            request.table_uuid,
            older_than_ms=request.older_than_ms if request.HasField("older_than_ms") else None,
            retain_last=request.retain_last if request.HasField("retain_last") else None,
            dry_run=request.dry_run,
            by_itself=request.by_itself,
        )
        return to_proto_step(step)

    async def LeaseSnapshot(  # noqa: N802
        self, request: retention_pb2.LeaseSnapshotRequest, context: Context
    ) -> retention_pb2.LeaseSnapshotResponse:
        """Retains a snapshot for a while."""
        expires_at_ms = await self._snapshot_leases.lease_snapshot(
            request.table_uuid, request.holder, request.snapshot_id, request.duration_ms, by=principal()
        )
        return retention_pb2.LeaseSnapshotResponse(expires_at_ms=expires_at_ms)

    async def ReleaseSnapshot(  # noqa: N802
        self, request: retention_pb2.ReleaseSnapshotRequest, context: Context
    ) -> retention_pb2.ReleaseSnapshotResponse:
        """Ends a snapshot lease."""
        await self._snapshot_leases.release_snapshot(request.table_uuid, request.holder, by=principal())
        return retention_pb2.ReleaseSnapshotResponse()

    async def ListSnapshotLeases(  # noqa: N802
        self, request: retention_pb2.ListSnapshotLeasesRequest, context: Context
    ) -> retention_pb2.ListSnapshotLeasesResponse:
        """Lists what keeps snapshots from expiring."""
        leases = await self._snapshot_leases.list_snapshot_leases(request.table_uuid)
        return retention_pb2.ListSnapshotLeasesResponse(leases=[to_proto_snapshot_lease(lease) for lease in leases])

    async def ListOverdueSnapshots(  # noqa: N802
        self, request: retention_pb2.ListOverdueSnapshotsRequest, context: Context
    ) -> retention_pb2.ListOverdueSnapshotsResponse:
        """Lists snapshots that would have expired if nothing retained them."""
        overdue = await self._overdue.list_overdue_snapshots()
        return retention_pb2.ListOverdueSnapshotsResponse(overdue=[to_proto_overdue(each) for each in overdue])

    async def ListExpiredFiles(  # noqa: N802
        self, request: retention_pb2.ListExpiredFilesRequest, context: Context
    ) -> retention_pb2.ListExpiredFilesResponse:
        """Lists files that are to be deleted."""
        paths = await self._expiry.list_expired_files(request.table_uuid, request.limit, request.after)
        return retention_pb2.ListExpiredFilesResponse(paths=paths)

    async def ForgetExpiredFiles(  # noqa: N802
        self, request: retention_pb2.ForgetExpiredFilesRequest, context: Context
    ) -> retention_pb2.ForgetExpiredFilesResponse:
        """Takes deleted files off that list."""
        await self._expiry.forget_expired_files(request.table_uuid, list(request.paths))
        return retention_pb2.ForgetExpiredFilesResponse()
