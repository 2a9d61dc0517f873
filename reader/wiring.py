"""Which concrete classes `serve` runs on; here the service can be read as a whole."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

import lakelog
from lakelog.client.target import Target
from lakelog.clock import RandomIds
from lakelog.errors import InvalidArgument
from lakelog.serving.http_endpoint import HttpEndpoint
from lakelog.serving.logs import Log

from .config import ServeConfig
from .subscriptions.metrics import SubscriptionMetrics
from .subscriptions.server import ReaderServer, ServerSettings

_MORE_THREADS: Final = 8


async def serve(config: ServeConfig, log: Log) -> None:
    """Serves subscriptions until SIGTERM or SIGINT, then drains; a second signal ends the process at once.

    Raises:
        InvalidArgument: A port is taken, or there is no metastore to connect to.
    """
    # A subscription that is being opened, or whose position is kept, waits for the metastore in one of them.
    asyncio.get_running_loop().set_default_executor(
        ThreadPoolExecutor(config.max_subscriptions + _MORE_THREADS, thread_name_prefix="asking")
    )
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector):
        collector(registry=registry)
    # Whatever the environment says: it is the one who reads.
    with lakelog.connect(config.target, reader="") as catalog:
        settings = ServerSettings(
            host=config.listen.host,
            port=config.listen.port,
            tls=config.tls,
            access=config.access,
            max_subscriptions=config.max_subscriptions,
            holder=f"reader {socket.gethostname()} {os.getpid()}",
            grace_s=config.grace_s,
        )
        server = ReaderServer(catalog, settings, SubscriptionMetrics(registry), log, RandomIds())
        http = _http_endpoint(config, registry, server)
        signalled = _catch_signals()
        try:
            await server.start()
            if http is not None:
                http.start()
            _say_ready(config, server, http, log)
            await signalled.wait()
            await server.drain()
        finally:
            if http is not None:
                http.stop()
    log.info("stopped")


def _catch_signals() -> asyncio.Event:
    signalled = asyncio.Event()

    def on_signal(number: int) -> None:
        if signalled.is_set():
            # Asked twice: at once.
            os._exit(128 + number)
        signalled.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, on_signal, int(number))
    return signalled


def _http_endpoint(config: ServeConfig, registry: CollectorRegistry, server: ReaderServer) -> HttpEndpoint | None:
    if config.metrics_port is None:
        return None
    host, port = config.listen.host, config.metrics_port
    try:
        return HttpEndpoint(host, port, registry, lambda: server.serving)
    except OSError as error:
        raise InvalidArgument(
            f"Cannot listen on {host}:{port} for metrics: {error.strerror}. Stop what listens there, or choose another "
            "with --metrics-port.",
            reason="ARGUMENT",
        ) from error


def _say_ready(config: ServeConfig, server: ReaderServer, http: HttpEndpoint | None, log: Log) -> None:
    if config.insecure_dev:
        who = "everyone on this machine may read everything" if config.access.open else "tokens are asked for"
        log.warning("INSECURE: plaintext for development, on loopback only", access=who)
    host = config.listen.host
    metrics = "" if http is None else f", metrics on http://{host}:{http.port}/metrics"
    security = "plaintext, development only" if config.tls is None else "TLS"
    sys.stdout.write(f"reader ready on {Target(host, server.port)} ({security}){metrics}\n")
    sys.stdout.flush()
