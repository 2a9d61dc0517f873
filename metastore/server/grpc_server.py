"""The gRPC server: where it listens, its bounds, and how it ends."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

import grpc
from grpc_health.v1 import health_pb2
from grpc_health.v1.health import aio as health_aio
from grpc_reflection.v1alpha import reflection

from lakelog.client.connection.connection import MAX_MESSAGE_BYTES
from lakelog.clock import Ids
from lakelog.rpc.services import to_handler
from lakelog.rpc.unary import SERVICES as METASTORE_SERVICES
from lakelog.serving.access import Access
from lakelog.serving.edge.grpc_options import EDGE_OPTIONS, max_age_options
from lakelog.serving.edge.refusal_lines import RefusalLines
from lakelog.serving.listening import TlsCredentials, listen

from ..store.limits import Limits
from ..use_cases import UseCases
from .audit import log
from .edge.call_limits import CallLimits
from .edge.request_limits import request_bounds
from .edge.requests import Requests
from .health import HealthMonitor, Probe
from .interceptor import CallInterceptor
from .privileges.authorization import Authorizer
from .rpc_metrics import RpcMetrics
from .servicers.catalog import CatalogServicer
from .servicers.credentials import CredentialServicer
from .servicers.jobs import JobServicer
from .servicers.publishing import PublishServicer
from .servicers.snapshots import SnapshotServicer
from .servicers.unary import Servicer

SERVICES: Final = tuple(METASTORE_SERVICES)

# Options that do not depend on settings.
_OPTIONS: Final = (
    *EDGE_OPTIONS,
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
        max_connection_age_s: When a client is asked to open a new connection; 0: never.
        max_in_flight: Commits read ahead on one stream.
        heartbeat_s: Between empty messages of a silent watch.
        health_interval_s: Between checks of a database that does not answer.
        grace_s: How long running calls may take when the server ends.
    """

    host: str
    port: int
    tls: TlsCredentials | None
    access: Access
    limits: CallLimits = field(default_factory=CallLimits)
    request_limits: Limits = field(default_factory=Limits)
    large_request_bytes: int = 32 << 20
    max_connections: int = 4000
    max_connection_age_s: float = 0.0
    max_in_flight: int = 256
    heartbeat_s: float = 15.0
    health_interval_s: float = 1.0
    grace_s: float = 20.0


class MetastoreServer:
    """The server over some use cases. Made, started and drained on one event loop."""

    def __init__(
        self, use_cases: UseCases, probe: Probe, settings: ServerSettings, metrics: RpcMetrics, ids: Ids
    ) -> None:
        self._jobs = use_cases.jobs
        self._settings = settings
        self._draining = asyncio.Event()
        self._requests = Requests(request_bounds(settings.request_limits), settings.large_request_bytes)
        self._refusals = RefusalLines(log)
        self._interceptor = CallInterceptor(
            settings.access,
            settings.limits,
            Authorizer(use_cases.grant_checks),
            self._requests,
            metrics,
            ids,
            self._refusals,
            self._draining,
        )
        options = (
            *_OPTIONS,
            # At this limit gRPC lets a client wait silently. Our limits are reached first, and answer.
            ("grpc.max_concurrent_streams", settings.limits.max_of_connection + _SPARE_STREAMS),
            ("grpc.max_allowed_incoming_connections", settings.max_connections),
            *max_age_options(settings.max_connection_age_s),
        )
        self._server = grpc.aio.server(interceptors=[self._interceptor], options=options)
        health = health_aio.HealthServicer()
        self.health = HealthMonitor(health, SERVICES, probe, metrics, interval_s=settings.health_interval_s)
        self._monitoring: asyncio.Task[None] | None = None
        by_hand = {
            "SnapshotService": SnapshotServicer(
                use_cases,
                self._requests,
                max_in_flight=settings.max_in_flight,
                heartbeat_s=settings.heartbeat_s,
                draining=self._draining,
                new_id=ids.new_id,
                refusals=self._refusals,
            ),
            "CatalogService": CatalogServicer(use_cases),
            "JobService": JobServicer(use_cases),
            "CredentialService": CredentialServicer(use_cases),
            "PublishService": PublishServicer(use_cases),
        }
        self._server.add_generic_rpc_handlers(
            [
                to_handler(service, by_hand.get(service.name) or Servicer(service, use_cases))
                for service in METASTORE_SERVICES.values()
            ]
            + [to_handler(health_pb2.DESCRIPTOR.services_by_name["Health"], health)]
        )
        reflection.enable_server_reflection((*SERVICES, "grpc.health.v1.Health", reflection.SERVICE_NAME), self._server)
        self.port = 0
        """The port it listens on, after `start`."""

    @property
    def is_draining(self) -> bool:
        """Whether it is ending; any thread may call this."""
        return self._draining.is_set()

    def use_access(self, access: Access) -> None:
        """Authenticates callers so from now on; streams end whose callers are recognized no more."""
        self._interceptor.admission.use(access)

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
        self._refusals.report()
        self._requests.close()
