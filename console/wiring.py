"""Which concrete classes the console uses; this is its construction in one place."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import uvicorn
from prometheus_client import CollectorRegistry
from starlette.routing import Route

import lakelog
from lakelog.client.connection.target import parse_target
from lakelog.clock import SystemClock
from lakelog.errors import InvalidArgument
from lakelog.format.jobs.presence import CONSOLE, ServiceState
from lakelog.serving.http_endpoint import open_beside
from lakelog.serving.logging_setup import Logger
from lakelog.serving.presence import Activity, make_presence
from lakelog.serving.stopping import catch_signals
from lakelog.serving.telemetry.process_metrics import add_process_metrics

from .config import Config
from .http.app import PageRoute, Site, make_app
from .http.callers import Callers, connect_as
from .http.connections import RequestsInTime
from .http.live import LivePages
from .http.rendering import Rendering
from .http.security import Security
from .http.sign_in import sign_in_routes
from .metrics import Metrics
from .pages.page import PageSettings
from .routes import PAGES


class _Server(uvicorn.Server):
    """Leaves signals to us: streams of open pages end first, and the console leaves the list of services."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Catches none: uvicorn would raise them again at its end, where a second signal ends the process at once."""
        yield


def make_site(config: Config, registry: CollectorRegistry, log: Logger) -> Site:
    """What answers requests."""
    clock = SystemClock()
    own_token = config.connect.token if config.shares_own_token else None
    return Site(
        callers=Callers(partial(connect_as, config.connect), own_token, clock),
        settings=PageSettings(config.connect.target, config.actions, config.max_query_rows, config.query_seconds),
        rendering=Rendering(is_read_only=not config.actions),
        clock=clock,
        metrics=Metrics(registry),
        log=log,
        is_https=config.is_https,
    )


def make_console(site: Site, config: Config, pages: Sequence[PageRoute] = PAGES) -> tuple[Security, LivePages]:
    """The application, and its live pages."""
    live = LivePages(site, pages, config.max_live_pages)
    more = [Route("/live", live.answer), *sign_in_routes(site)]
    return make_app(site, pages, more, config.hosts), live


async def serve(config: Config, log: Logger) -> None:
    """Serves pages until SIGTERM or SIGINT, then drains; a second signal ends the process at once.

    Raises:
        InvalidArgument: A port is taken, no metastore is given, or a file cannot be used.
    """
    registry = CollectorRegistry()
    add_process_metrics(registry, CONSOLE)
    site = make_site(config, registry, log)
    app, live = make_console(site, config)
    server = _make_server(app, config)
    listening = listen(config)
    port = listening.getsockname()[1]
    signalled = catch_signals()
    http = open_beside(config.listen.host, config.metrics_port, registry, lambda: not signalled.is_set())
    own = connect_as(config.connect, config.connect.token)
    # Without a token only a metastore for development takes reports.
    may_report = config.connect.token is not None or parse_target(config.connect.target).is_loopback

    def observe() -> Activity:
        state = ServiceState.DRAINING if signalled.is_set() else ServiceState.RUNNING
        return Activity(state, [_address(config, port), f"live pages: {live.count}"])

    presence = make_presence(
        CONSOLE, own.metastore, observe, log, host=config.listen.host, port=None if http is None else http.port
    )
    try:
        if http is not None:
            http.start()
        if may_report:
            presence.start()
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        _say_ready(config, port, log)
        await signalled.wait()
        live.end()
        server.should_exit = True
        await serving
    finally:
        await asyncio.to_thread(presence.close)
        await asyncio.to_thread(site.callers.close)
        own.close()
        if http is not None:
            http.stop()
    log.info("stopped")


def _make_server(app: Security, config: Config) -> _Server:
    settings = uvicorn.Config(
        app,
        http=RequestsInTime,
        log_config=None,
        # Warnings are about requests of clients that speak no HTTP, and have no limit.
        log_level="error",
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=max(1, round(config.grace_s)),
        ssl_certfile=config.tls.certificate if config.tls else None,
        ssl_keyfile=config.tls.key if config.tls else None,
    )
    try:
        settings.load()
    except ssl.SSLError as error:
        raise InvalidArgument(
            f"--tls-cert and --tls-key cannot be used: {error.reason}. Give the certificate with its chain and its own "
            "private key, both PEM and without a passphrase.",
            metadata={"field": "tls-cert"},
        ) from error
    return _Server(settings)


def _address(config: Config, port: int) -> str:
    host = f"[{config.listen.host}]" if ":" in config.listen.host else config.listen.host
    return f"{'https' if config.tls else 'http'}://{host}:{port}/"


def _say_ready(config: Config, port: int, log: Logger) -> None:
    if config.insecure_dev:
        log.warning("INSECURE: plaintext for development, on loopback only")
    sys.stdout.write(f"console ready on {_address(config, port)} (lakelog {lakelog.__version__})\n")
    sys.stdout.flush()


def listen(config: Config) -> socket.socket:
    """The socket for browsers.

    Raises:
        InvalidArgument: The port is taken.
    """
    host, port = config.listen.host, config.listen.port
    try:
        listening = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=256
        )
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise InvalidArgument(
            f"Cannot listen on {host}:{port}: {reason}. Stop what listens there, or choose another address with "
            "--listen.",
            metadata={"field": "listen"},
        ) from error
    # Connections inherit it. asyncio sets it only where sockets name their protocol, which these do not; without it the
    # body of a page waits for the browser's acknowledgement of its headers, 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
