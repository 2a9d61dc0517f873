"""Health: whether this process can serve now, reported to load balancers by gRPC and by HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from grpc_health.v1 import health_pb2
from grpc_health.v1.health import aio as health_aio

from .audit import log
from .rpc_metrics import RpcMetrics


class Probe(Protocol):
    """Checks the database."""

    async def ping(self) -> None:
        """Checks once whether it answers; raises when it does not."""

    async def pause(self, seconds: float) -> None:
        """Waits so long, or until the database has ended the connection of the last check."""


class HealthMonitor:
    """Checks the database and reports to the health service.

    A database that ends is noticed at once, by the end of its connection. One that vanishes silently is noticed after
    `idle_s`: calls that are sent meanwhile fail by themselves.

    Args:
        servicer: The gRPC health service.
        services: Full names of the services that it reports for, beside the server as a whole.
        probe: Checks the database.
        metrics: Gets the state.
        interval_s: Between checks while the database does not answer.
        idle_s: Between checks while it does.
        timeout_s: A check that takes longer counts as failed.
    """

    def __init__(
        self,
        servicer: health_aio.HealthServicer,
        services: Sequence[str],
        probe: Probe,
        metrics: RpcMetrics,
        *,
        interval_s: float = 1.0,
        idle_s: float = 10.0,
        timeout_s: float = 2.0,
    ) -> None:
        self._servicer = servicer
        self._services = ("", *services)
        self._probe = probe
        self._metrics = metrics
        self._interval_s = interval_s
        self._idle_s = idle_s
        self._timeout_s = timeout_s
        self.serving = False
        """Whether calls can be served; also read by other threads."""
        self._reported: bool | None = None

    async def run(self) -> None:
        """Checks forever; cancel to end."""
        while True:
            await self.step()
            await self._probe.pause(self._idle_s if self.serving else self._interval_s)

    async def step(self) -> None:
        """Checks once and reports."""
        reason = ""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._probe.ping()
        except TimeoutError:
            reason = f"no answer within {self._timeout_s:g} s"
        except Exception as error:
            # Every error of the driver means the same here; the log has its text.
            reason = str(error)
        await self._report(not reason, reason)

    async def drain(self) -> None:
        """Reports NOT_SERVING from now on."""
        await self._servicer.enter_graceful_shutdown()
        self.serving = False
        self._metrics.set_serving(False)

    async def _report(self, serving: bool, reason: str) -> None:
        if serving != self.serving:
            if serving:
                log.info("serving")
            else:
                log.error("not serving: the database does not answer", reason=reason)
        self.serving = serving
        if serving == self._reported:
            return
        self._reported = serving
        self._metrics.set_serving(serving)
        state = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in self._services:
            await self._servicer.set(service, state)
