"""Health: whether this process can serve now, reported to load balancers by gRPC and by HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from grpc_health.v1 import health_pb2
from grpc_health.v1.health import aio as health_aio

from .audit import log
from .rpc_metrics import RpcMetrics

Probe = Callable[[], Awaitable[object]]
"""Checks whether the database answers; raises when it does not."""


class HealthMonitor:
    """Checks the database every `interval_s` and reports to the health service.

    Args:
        servicer: The gRPC health service.
        services: Full names of the services that it reports for, beside the server as a whole.
        probe: Checks the database.
        metrics: Gets the state.
        interval_s: Between checks.
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
        timeout_s: float = 2.0,
    ) -> None:
        self._servicer = servicer
        self._services = ("", *services)
        self._probe = probe
        self._metrics = metrics
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self.serving = False
        """Whether calls can be served; also read by other threads."""

    async def run(self) -> None:
        """Checks forever; cancel to end."""
        while True:
            await self.step()
            await asyncio.sleep(self._interval_s)

    async def step(self) -> None:
        """Checks once and reports."""
        reason = ""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._probe()
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
        self._metrics.set_serving(serving)
        state = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in self._services:
            await self._servicer.set(service, state)
