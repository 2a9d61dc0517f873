"""Which concrete classes `serve` uses; this is its construction in one place."""

from __future__ import annotations

import asyncio
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from prometheus_client import CollectorRegistry

import lakelog
from lakelog.client.connection.target import Target
from lakelog.clock import RandomIds, SystemClock
from lakelog.format.jobs.presence import READER, ServiceState
from lakelog.format.retention.consumer import SERVED_BY
from lakelog.serving.http_endpoint import HttpEndpoint, open_beside
from lakelog.serving.listening import say_ready
from lakelog.serving.logging_setup import Logger
from lakelog.serving.presence import Activity, make_presence
from lakelog.serving.probe_port import open_probe_port
from lakelog.serving.rotation.live_access import LiveAccess
from lakelog.serving.rotation.metrics import RotationMetrics
from lakelog.serving.rotation.opening import open_tls
from lakelog.serving.rotation.rotation import Rotation
from lakelog.serving.stopping import catch_signals
from lakelog.serving.telemetry.process_metrics import add_process_metrics

from .config import ServeConfig
from .subscriptions.metrics import SubscriptionMetrics
from .subscriptions.server import ReaderServer, ServerSettings

_MORE_THREADS: Final = 8


async def serve(config: ServeConfig, log: Logger) -> None:
    """Serves subscriptions until SIGTERM or SIGINT, then drains; a second signal ends the process at once.

    Raises:
        InvalidArgument: A port is taken, no metastore is given, or a file cannot be used.
        Unavailable: The keys of signed tokens cannot be read, and there is no other way in.
    """
    # Opening a subscription, or storing its position, waits for the metastore in one of these threads.
    asyncio.get_running_loop().set_default_executor(
        ThreadPoolExecutor(config.max_subscriptions + _MORE_THREADS, thread_name_prefix="asking")
    )
    registry = CollectorRegistry()
    add_process_metrics(registry, READER)
    # Whatever the environment says: this service does the reading.
    with lakelog.connect(config.target, reader="") as catalog:
        clock = SystemClock()
        ways_in = await asyncio.to_thread(LiveAccess, config.access, clock, log)
        tls = open_tls(config.tls, clock)
        settings = ServerSettings(
            host=config.listen.host,
            port=config.listen.port,
            tls=tls,
            access=ways_in.access,
            max_subscriptions=config.max_subscriptions,
            caller_share=config.caller_share,
            holder=f"{SERVED_BY}{socket.gethostname()} {os.getpid()}",
            grace_s=config.grace_s,
        )
        server = ReaderServer(catalog, settings, SubscriptionMetrics(registry), log, RandomIds())
        ways_in.on_change = server.use_access
        rotation = Rotation(ways_in.watched, tls, RotationMetrics(registry), log)
        http = open_beside(config.listen.host, config.metrics_port, registry, lambda: server.serving)
        presence = make_presence(
            READER,
            catalog.metastore,
            lambda: observe(config, server),
            log,
            host=config.listen.host,
            port=None if http is None else http.port,
        )
        signalled = catch_signals()
        try:
            async with open_probe_port(config.listen.host, config.health_port, lambda: server.serving):
                await server.start()
                if http is not None:
                    http.start()
                presence.start()
                rotation.start()
                _say_ready(config, server, http, log)
                await signalled.wait()
                await server.drain()
        finally:
            await rotation.close()
            await asyncio.to_thread(presence.close)
            if http is not None:
                http.stop()
    log.info("stopped")


def observe(config: ServeConfig, server: ReaderServer) -> Activity:
    """The current activity of the server, for its presence."""
    state = ServiceState.RUNNING if server.serving else ServiceState.STARTING
    count = server.subscription_count
    work = [f"serves {config.listen.host}:{server.port}", *([f"subscriptions: {count}"] if count else ())]
    return Activity(ServiceState.DRAINING if server.is_draining else state, work)


def _say_ready(config: ServeConfig, server: ReaderServer, http: HttpEndpoint | None, log: Logger) -> None:
    if config.insecure_dev:
        who = "everyone on this machine may read everything" if config.access.open else "tokens are asked for"
        log.warning("INSECURE: plaintext for development, on loopback only", access=who)
    # It serves once the metastore answers; until then its health says that it does not.
    but = "" if server.serving else "the metastore does not answer"
    say_ready("reader", Target(config.listen.host, server.port), config.tls, http, but)
