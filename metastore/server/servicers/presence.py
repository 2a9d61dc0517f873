"""PresenceService: from messages to use cases and back, nothing else."""

from __future__ import annotations

from typing import Any

import grpc

from lakelog.rpc.presence import from_proto_service_report, to_proto_service
from lakelog.rpc.v1 import presence_pb2, presence_pb2_grpc

from ...jobs.services import Services

Context = grpc.aio.ServicerContext[Any, Any]


class PresenceServicer(presence_pb2_grpc.PresenceServiceServicer):
    """Which services run."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def ReportPresence(  # noqa: N802
        self, request: presence_pb2.ReportPresenceRequest, context: Context
    ) -> presence_pb2.ReportPresenceResponse:
        """Records that a service is there, or removes one that has stopped."""
        report = from_proto_service_report(request)
        await self._services.report_presence(report)
        return presence_pb2.ReportPresenceResponse()

    async def ListServices(  # noqa: N802
        self, request: presence_pb2.ListServicesRequest, context: Context
    ) -> presence_pb2.ListServicesResponse:
        """Lists services."""
        services = await self._services.list_services()
        return presence_pb2.ListServicesResponse(services=[to_proto_service(service) for service in services])
