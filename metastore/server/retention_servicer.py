"""RetentionService: from messages to use cases and back, nothing else."""

from __future__ import annotations

from typing import Any

import grpc

from lakelog.rpc.retention import to_proto_overdue, to_proto_pin, to_proto_step
from lakelog.rpc.v1 import retention_pb2, retention_pb2_grpc

from ..service import MetastoreService

Context = grpc.aio.ServicerContext[Any, Any]


class RetentionServicer(retention_pb2_grpc.RetentionServiceServicer):
    """How long snapshots are kept."""

    def __init__(self, service: MetastoreService) -> None:
        self._service = service

    async def ExpireSnapshots(  # noqa: N802
        self, request: retention_pb2.ExpireSnapshotsRequest, context: Context
    ) -> retention_pb2.ExpireSnapshotsResponse:
        """Does a step of expiry."""
        step = await self._service.expire_snapshots(
            request.table_uuid,
            older_than_ms=request.older_than_ms if request.HasField("older_than_ms") else None,
            retain_last=request.retain_last if request.HasField("retain_last") else None,
            dry_run=request.dry_run,
            by_itself=request.by_itself,
        )
        return to_proto_step(step)

    async def HoldSnapshot(  # noqa: N802
        self, request: retention_pb2.HoldSnapshotRequest, context: Context
    ) -> retention_pb2.HoldSnapshotResponse:
        """Keeps a snapshot for a while."""
        expires_at_ms = await self._service.hold_snapshot(
            request.table_uuid, request.holder, request.snapshot_id, request.duration_ms
        )
        return retention_pb2.HoldSnapshotResponse(expires_at_ms=expires_at_ms)

    async def ReleaseSnapshot(  # noqa: N802
        self, request: retention_pb2.ReleaseSnapshotRequest, context: Context
    ) -> retention_pb2.ReleaseSnapshotResponse:
        """Ends that."""
        await self._service.release_snapshot(request.table_uuid, request.holder)
        return retention_pb2.ReleaseSnapshotResponse()

    async def ListPins(  # noqa: N802
        self, request: retention_pb2.ListPinsRequest, context: Context
    ) -> retention_pb2.ListPinsResponse:
        """Lists what keeps snapshots from expiring."""
        pins = await self._service.list_pins(request.table_uuid)
        return retention_pb2.ListPinsResponse(pins=[to_proto_pin(pin) for pin in pins])

    async def ListOverdueSnapshots(  # noqa: N802
        self, request: retention_pb2.ListOverdueSnapshotsRequest, context: Context
    ) -> retention_pb2.ListOverdueSnapshotsResponse:
        """Lists what would have expired but for somebody."""
        overdue = await self._service.list_overdue_snapshots()
        return retention_pb2.ListOverdueSnapshotsResponse(overdue=[to_proto_overdue(each) for each in overdue])

    async def ListDoomedFiles(  # noqa: N802
        self, request: retention_pb2.ListDoomedFilesRequest, context: Context
    ) -> retention_pb2.ListDoomedFilesResponse:
        """Lists files that are to be deleted."""
        paths = await self._service.list_doomed_files(request.table_uuid, request.limit)
        return retention_pb2.ListDoomedFilesResponse(paths=paths)

    async def ForgetDoomedFiles(  # noqa: N802
        self, request: retention_pb2.ForgetDoomedFilesRequest, context: Context
    ) -> retention_pb2.ForgetDoomedFilesResponse:
        """Takes deleted files off that list."""
        await self._service.forget_doomed_files(request.table_uuid, list(request.paths))
        return retention_pb2.ForgetDoomedFilesResponse()
