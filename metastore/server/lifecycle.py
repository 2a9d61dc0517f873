"""From start to end of the process: the order of starting and ending its parts, and the effect of signals."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from lakelog.serving.http_endpoint import HttpEndpoint
from lakelog.serving.presence import Presence

from ..background import Background
from .audit import log
from .grpc_server import MetastoreServer

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_AT_ONCE: Final = 130


async def run_until_signal(
    server: MetastoreServer,
    background: Background,
    http: HttpEndpoint | None,
    presence: Presence,
    say_ready: Callable[[], None],
) -> None:
    """Serves until SIGTERM or SIGINT, then drains; a second signal ends the process at once with exit code 130.

    Args:
        server: The gRPC server.
        background: The tasks beside it, started before and ended after it.
        http: Metrics and health over HTTP; None: none.
        presence: Reports that it runs, from its start until it has drained.
        say_ready: Called once everything is up.

    Raises:
        InvalidArgument: The port is taken.
    """
    async with _signalled() as signalled:
        background.start()
        try:
            await server.start()
            if http is not None:
                http.start()
            presence.start()
            say_ready()
            await signalled.wait()
            await server.drain()
        finally:
            await asyncio.to_thread(presence.close)
            await background.stop()
            if http is not None:
                http.stop()
    log.info("stopped")


@asynccontextmanager
async def _signalled() -> AsyncIterator[asyncio.Event]:
    loop = asyncio.get_running_loop()
    signalled = asyncio.Event()

    def on_signal() -> None:
        if signalled.is_set():
            # No clean-up of any kind: the sender of a second signal has waited long enough.
            os._exit(_AT_ONCE)
        signalled.set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        yield signalled
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
