"""The gRPC server of subscriptions: where it listens, its bounds, how it ends, and its health."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import grpc
from grpc_health.v1 import health_pb2
from grpc_health.v1.health import aio as health_aio
from grpc_reflection.v1alpha import reflection

from lakelog.clock import Ids
from lakelog.errors import LakelogError
from lakelog.rpc.services import to_handler
from lakelog.rpc.v1 import reader_pb2
from lakelog.sdk.catalog import Catalog
from lakelog.serving.access import Access
from lakelog.serving.edge.bounded_streams import BoundedStreams
from lakelog.serving.edge.grpc_options import EDGE_OPTIONS
from lakelog.serving.edge.probes import BoundedProbes
from lakelog.serving.listening import TlsCredentials, listen
from lakelog.serving.logging_setup import Logger

from .metrics import SubscriptionMetrics
from .requests import SUBSCRIBE_BOUNDS
from .servicer import ReaderServicer

SERVICE: Final = reader_pb2.DESCRIPTOR.services_by_name["ReaderService"].full_name

_POLL_EVERY_S: Final = 2.0
"""Between two polls of the metastore, which give health and lag."""

_IDLE_POLL_EVERY_S: Final = 10.0
"""Between two polls of a metastore that answers, while there is no subscription: one that is opened meanwhile, and the
metastore is away, fails by itself."""

_MORE_STREAMS: Final = 64
"""Beside the subscriptions: probes, and callers that are refused because there is no room. There is no such limit of
all connections together: a caller without a token would reach it with health checks alone."""

_MAX_CONNECTIONS: Final = 1000


@dataclass(frozen=True)
class ServerSettings:
    """How the server behaves.

    Args:
        host: Where to listen.
        port: 0 for a free one.
        tls: None for plaintext.
        access: How callers are authenticated.
        max_subscriptions: Subscriptions at once.
        caller_share: The part of the subscriptions, from 0 to 1, that one caller can have.
        holder: This server's name, in lists of consumers.
        grace_s: How long messages on their way may take when the server ends.
    """

    host: str
    port: int
    tls: TlsCredentials | None
    access: Access
    max_subscriptions: int
    caller_share: float
    holder: str
    grace_s: float


class ReaderServer:
    """Serves subscriptions until it is drained. Runs on one event loop."""

    def __init__(
        self, catalog: Catalog, settings: ServerSettings, metrics: SubscriptionMetrics, log: Logger, ids: Ids
    ) -> None:
        self._catalog = catalog
        self._settings = settings
        self._metrics = metrics
        self._log = log
        self._draining = asyncio.Event()
        self._probes = BoundedProbes(SERVICE)
        self._server = grpc.aio.server(
            interceptors=[BoundedStreams({f"/{SERVICE}/Subscribe": SUBSCRIBE_BOUNDS}), self._probes],
            options=(
                *EDGE_OPTIONS,
                ("grpc.max_receive_message_length", SUBSCRIBE_BOUNDS.max_bytes),
                ("grpc.max_send_message_length", 64 << 20),
                ("grpc.max_metadata_size", 16 * 1024),
                ("grpc.max_allowed_incoming_connections", _MAX_CONNECTIONS),
                # For one connection; the servicer counts the subscriptions of all connections together.
                ("grpc.max_concurrent_streams", settings.max_subscriptions + _MORE_STREAMS),
                # Two servers could share one port without notice.
                ("grpc.so_reuseport", 0),
                # A connection whose peer sends nothing is closed.
                ("grpc.server_handshake_timeout_ms", 10_000),
                ("grpc.max_connection_idle_ms", 600_000),
                # Clients that vanished without closing are noticed after 20 + 10 seconds; then their resources are
                # freed.
                ("grpc.keepalive_time_ms", 20_000),
                ("grpc.keepalive_timeout_ms", 10_000),
                ("grpc.http2.ping_timeout_ms", 10_000),
                ("grpc.http2.max_pings_without_data", 0),
                ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
                ("grpc.keepalive_permit_without_calls", 0),
            ),
        )
        self._servicer = ReaderServicer(
            catalog,
            settings.access,
            max_subscriptions=settings.max_subscriptions,
            caller_share=settings.caller_share,
            holder=settings.holder,
            metrics=metrics,
            log=log,
            ids=ids,
            draining=self._draining,
        )
        self._health = health_aio.HealthServicer()
        services = {
            reader_pb2.DESCRIPTOR.services_by_name["ReaderService"]: self._servicer,
            health_pb2.DESCRIPTOR.services_by_name["Health"]: self._health,
        }
        self._server.add_generic_rpc_handlers([to_handler(*each) for each in services.items()])
        reflection.enable_server_reflection((SERVICE, "grpc.health.v1.Health", reflection.SERVICE_NAME), self._server)
        self._polling: asyncio.Task[None] | None = None
        self.port = 0
        """The port it listens on, after `start`."""
        self.serving = False
        """Whether the metastore answers and the server is not ending; also read by other threads."""
        self._reported: bool | None = None

    @property
    def is_draining(self) -> bool:
        """Whether it is ending; any thread may call this."""
        return self._draining.is_set()

    @property
    def subscription_count(self) -> int:
        """How many subscriptions are open; any thread may call this."""
        return len(self._servicer.pumps)

    def use_access(self, access: Access) -> None:
        """Authenticates callers so from now on; subscriptions end whose callers are recognized no more."""
        self._servicer.use(access)

    async def start(self) -> None:
        """Listens and serves.

        Raises:
            InvalidArgument: The port is taken or the address is not this machine's, or a TLS file cannot be used.
        """
        settings = self._settings
        self.port = listen(self._server, settings.host, settings.port, settings.tls)
        await self.step()
        await self._server.start()
        self._polling = asyncio.create_task(self._poll(), name="health and lag")

    async def drain(self) -> None:
        """Ends: sends all clients elsewhere, and lets messages on their way arrive."""
        self._log.info("draining", subscriptions=len(self._servicer.pumps))
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)
        self.serving = False
        await self._health.enter_graceful_shutdown()
        self._draining.set()
        await self._server.stop(self._settings.grace_s)
        self._servicer.refusals.report()

    async def step(self) -> None:
        """Checks once whether the metastore answers, and how far the subscriptions lag."""
        reached: dict[str, int] = {}
        untaken = 0
        for pump in self._servicer.pumps:
            untaken += pump.untaken_bytes
            for table_uuid, snapshot_id in pump.reached.items():
                reached[table_uuid] = min(snapshot_id, reached.get(table_uuid, snapshot_id))
        self._metrics.untaken_bytes.set(untaken)
        try:
            self._metrics.lag_snapshots.set(await asyncio.to_thread(self._measure, reached))
            serving, reason = True, ""
        except LakelogError as error:
            serving, reason = False, error.message
        await self._report(serving, reason)

    async def _poll(self) -> None:
        passed_s = 0.0
        while True:
            await asyncio.sleep(_POLL_EVERY_S)
            passed_s += _POLL_EVERY_S
            is_idle = self.serving and not self._servicer.pumps
            if not is_idle or passed_s >= _IDLE_POLL_EVERY_S:
                passed_s = 0.0
                await self.step()

    def _measure(self, reached: dict[str, int]) -> int:
        """Polls the metastore, also when there is nothing to measure."""
        lag = 0
        for table_uuid, snapshot_id in reached.items():
            try:
                latest = self._catalog.metastore.list_snapshots(table_uuid, limit=1).latest_snapshot_id
            except LakelogError as error:
                if error.reason == "TABLE_NOT_FOUND":
                    continue
                raise
            lag = max(lag, latest - snapshot_id)
        if not reached:
            # Any answer will do, and this one costs the same however many tables there are.
            self._catalog.metastore.list_pipelines()
        return lag

    async def _report(self, serving: bool, reason: str) -> None:
        # The first result is logged, too: otherwise a replica that starts without a metastore would be silent about it.
        if serving != self._reported:
            if serving:
                self._log.info("serving")
            else:
                self._log.error("not serving: the metastore does not answer", reason=reason)
        self.serving = self._reported = serving
        state = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in ("", SERVICE):
            await self._health.set(service, state)
