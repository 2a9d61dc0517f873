"""The gRPC server: where it listens, its bounds, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2_grpc
from grpc_health.v1.health import aio as health_aio
from grpc_reflection.v1alpha import reflection

from lakelog.client.connection.connection import MAX_MESSAGE_BYTES
from lakelog.clock import Ids
from lakelog.rpc.v1 import (
    catalog_pb2,
    catalog_pb2_grpc,
    consumers_pb2,
    consumers_pb2_grpc,
    dropped_pb2,
    dropped_pb2_grpc,
    due_work_pb2,
    due_work_pb2_grpc,
    jobs_pb2,
    jobs_pb2_grpc,
    logs_pb2,
    logs_pb2_grpc,
    presence_pb2,
    presence_pb2_grpc,
    publishing_pb2,
    publishing_pb2_grpc,
    retention_pb2,
    retention_pb2_grpc,
    snapshots_pb2,
    snapshots_pb2_grpc,
    table_files_pb2,
    table_files_pb2_grpc,
    tags_pb2,
    tags_pb2_grpc,
)
from lakelog.serving.access import Access
from lakelog.serving.listening import ServerTls, listen

from ..store.limits import Limits
from ..use_cases import UseCases
from .audit import log
from .edge.call_limits import CallLimits
from .edge.request_limits import request_bounds
from .edge.requests import Requests
from .health import HealthMonitor, Probe
from .interceptor import CallInterceptor
from .rpc_metrics import RpcMetrics
from .servicers.catalog import CatalogServicer
from .servicers.consumers import ConsumerServicer
from .servicers.dropped import DroppedTableServicer
from .servicers.due_work import DueWorkServicer
from .servicers.jobs import JobServicer
from .servicers.logs import LogServicer
from .servicers.presence import PresenceServicer
from .servicers.publishing import PublishServicer
from .servicers.retention import RetentionServicer
from .servicers.snapshots import SnapshotServicer
from .servicers.table_files import TableFileServicer
from .servicers.tags import TagServicer

SERVICES: Final = (
    catalog_pb2.DESCRIPTOR.services_by_name["CatalogService"].full_name,
    snapshots_pb2.DESCRIPTOR.services_by_name["SnapshotService"].full_name,
    jobs_pb2.DESCRIPTOR.services_by_name["JobService"].full_name,
    due_work_pb2.DESCRIPTOR.services_by_name["DueWorkService"].full_name,
    consumers_pb2.DESCRIPTOR.services_by_name["ConsumerService"].full_name,
    dropped_pb2.DESCRIPTOR.services_by_name["DroppedTableService"].full_name,
    table_files_pb2.DESCRIPTOR.services_by_name["TableFileService"].full_name,
    retention_pb2.DESCRIPTOR.services_by_name["RetentionService"].full_name,
    tags_pb2.DESCRIPTOR.services_by_name["TagService"].full_name,
    logs_pb2.DESCRIPTOR.services_by_name["LogService"].full_name,
    presence_pb2.DESCRIPTOR.services_by_name["PresenceService"].full_name,
    publishing_pb2.DESCRIPTOR.services_by_name["PublishService"].full_name,
)

# Options that do not depend on settings.
_OPTIONS: Final = (
    # For all methods; each also has its own limit, `request_limits`, which is checked before a request is parsed.
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_metadata_size", 16 * 1024),
    # Two servers could share one port without notice.
    ("grpc.so_reuseport", 0),
    # A connection whose peer sends nothing is closed, before its first bytes or without a call. Clients open a new one
    # when they need it.
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 600_000),
    # Clients that vanished without closing are noticed after 60 + 20 seconds.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.ping_timeout_ms", 20_000),
    # A client that pings more often than every 10 s is disconnected after the third such ping; ours pings every 30 s.
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.http2.max_ping_strikes", 2),
    ("grpc.keepalive_permit_without_calls", 0),
)
_SPARE_STREAMS: Final = 64
"""Streams of a connection beyond its share: for calls that are refused, and calls that just ended."""
# After the grace period, running commits get this long before the process ends.
_LAST_MUTATIONS_S: Final = 5.0


@dataclass(frozen=True)
class ServerSettings:
    """How the server behaves.

    Args:
        host: Where to listen.
        port: 0 for a free one.
        tls: None for plaintext.
        access: How callers are authenticated.
        limits: Bounds of calls.
        request_limits: Bounds of single requests.
        large_request_bytes: Bytes of all large requests that are processed at once.
        max_connections: How many connections can be open.
        max_in_flight: Commits read ahead on one stream.
        heartbeat_s: Between empty messages of a silent watch.
        health_interval_s: Between checks of the database.
        grace_s: How long running calls may take when the server ends.
    """

    host: str
    port: int
    tls: ServerTls | None
    access: Access
    limits: CallLimits = field(default_factory=CallLimits)
    request_limits: Limits = field(default_factory=Limits)
    large_request_bytes: int = 32 << 20
    max_connections: int = 4000
    max_in_flight: int = 256
    heartbeat_s: float = 15.0
    health_interval_s: float = 1.0
    grace_s: float = 20.0


class _ByName:
    """Receives the handlers of the generated code, for a server that looks methods up by their names.

    SUBTLE: the generated code also registers each method. gRPC's asyncio server then waits for calls of each method
        separately, and starts a new wait after every call: with our 30 methods that was a sixth of the metastore's work
        for a commit (bench W9).
    """

    def __init__(self, server: grpc.aio.Server) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Adds a service."""
        self._server.add_generic_rpc_handlers(handlers)

    def add_registered_method_handlers(self, service: str, handlers: object) -> None:
        """Registers nothing."""


class MetastoreServer:
    """The server over some use cases. Made, started and drained on one event loop."""

    def __init__(
        self, use_cases: UseCases, probe: Probe, settings: ServerSettings, metrics: RpcMetrics, ids: Ids
    ) -> None:
        self._jobs = use_cases.jobs
        self._settings = settings
        self._draining = asyncio.Event()
        self._requests = Requests(request_bounds(settings.request_limits), settings.large_request_bytes)
        self._interceptor = CallInterceptor(
            settings.access, settings.limits, self._requests, metrics, ids, self._draining
        )
        options = (
            *_OPTIONS,
            # At this limit gRPC lets a client wait silently. Our limits are reached first, and answer.
            ("grpc.max_concurrent_streams", settings.limits.max_of_connection + _SPARE_STREAMS),
            ("grpc.max_allowed_incoming_connections", settings.max_connections),
        )
        self._server = grpc.aio.server(interceptors=[self._interceptor], options=options)
        health = health_aio.HealthServicer()
        self.health = HealthMonitor(health, SERVICES, probe, metrics, interval_s=settings.health_interval_s)
        self._monitoring: asyncio.Task[None] | None = None
        handlers: Any = _ByName(self._server)
        snapshots_pb2_grpc.add_SnapshotServiceServicer_to_server(
            SnapshotServicer(
                use_cases,
                self._requests,
                max_in_flight=settings.max_in_flight,
                heartbeat_s=settings.heartbeat_s,
                draining=self._draining,
                new_id=ids.new_id,
            ),
            handlers,
        )
        catalog_pb2_grpc.add_CatalogServiceServicer_to_server(CatalogServicer(use_cases.catalog), handlers)
        jobs_pb2_grpc.add_JobServiceServicer_to_server(
            JobServicer(use_cases.leases, use_cases.pipelines, use_cases.jobs), handlers
        )
        due_work_pb2_grpc.add_DueWorkServiceServicer_to_server(
            DueWorkServicer(use_cases.dedicated, use_cases.jobs), handlers
        )
        consumers_pb2_grpc.add_ConsumerServiceServicer_to_server(ConsumerServicer(use_cases.consumers), handlers)
        dropped_pb2_grpc.add_DroppedTableServiceServicer_to_server(
            DroppedTableServicer(use_cases.dropped_tables), handlers
        )
        table_files_pb2_grpc.add_TableFileServiceServicer_to_server(TableFileServicer(use_cases.table_files), handlers)
        retention_pb2_grpc.add_RetentionServiceServicer_to_server(
            RetentionServicer(use_cases.expiry, use_cases.snapshot_leases, use_cases.overdue), handlers
        )
        tags_pb2_grpc.add_TagServiceServicer_to_server(TagServicer(use_cases.tags), handlers)
        logs_pb2_grpc.add_LogServiceServicer_to_server(LogServicer(use_cases.log_topics), handlers)
        presence_pb2_grpc.add_PresenceServiceServicer_to_server(PresenceServicer(use_cases.services), handlers)
        publishing_pb2_grpc.add_PublishServiceServicer_to_server(PublishServicer(use_cases.publishing), handlers)
        health_pb2_grpc.add_HealthServicer_to_server(health, handlers)
        reflection.enable_server_reflection((*SERVICES, "grpc.health.v1.Health", reflection.SERVICE_NAME), self._server)
        self.port = 0
        """The port it listens on, after `start`."""

    @property
    def is_draining(self) -> bool:
        """Whether it is ending; any thread may call this."""
        return self._draining.is_set()

    async def start(self) -> None:
        """Listens and serves.

        Raises:
            InvalidArgument: The port is taken or the address is not this machine's, or a TLS file cannot be used.
        """
        settings = self._settings
        self.port = listen(self._server, settings.host, settings.port, settings.tls)
        await self.health.step()
        await self._server.start()
        self._monitoring = asyncio.create_task(self.health.run(), name="health monitor")

    async def drain(self) -> None:
        """Ends: reports NOT_SERVING, ends watches, lets running calls finish within the grace, then cancels them.

        Mutations that have begun are waited for even then, for a few seconds.
        """
        log.info("draining", grace_s=self._settings.grace_s)
        if self._monitoring is not None:
            self._monitoring.cancel()
            await asyncio.gather(self._monitoring, return_exceptions=True)
        await self.health.drain()
        self._draining.set()
        self._jobs.close()
        await self._server.stop(self._settings.grace_s)
        try:
            async with asyncio.timeout(_LAST_MUTATIONS_S):
                await self._interceptor.running.wait_for_mutations()
        except TimeoutError:
            log.error("mutations were still running at the end of the grace; their callers must repeat them")
        self._requests.close()
