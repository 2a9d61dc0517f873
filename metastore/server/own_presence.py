"""The metastore's own presence: each replica lists itself, as other services do through the API."""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError
from typing import Final

from lakelog.clock import Clock, Ids
from lakelog.errors import OutcomeUnknown
from lakelog.format.jobs.presence import METASTORE, ServiceReport, ServiceState
from lakelog.serving.presence import Activity, Presence

from ..jobs.services import Services
from .audit import log
from .grpc_server import MetastoreServer

_REPORT_WITHIN_S: Final = 3.0


def make_presence(
    services: Services, server: MetastoreServer, *, host: str, metrics: str, ids: Ids, clock: Clock
) -> Presence:
    """The presence of this replica, not yet started. Call it on the event loop of the use cases.

    Args:
        services: The use cases.
        server: The gRPC server.
        host: Where it listens.
        metrics: `host:port` of its metrics; empty: it has none.
        ids: Generates the id of this process.
        clock: For the time.
    """
    loop = asyncio.get_running_loop()

    def send(report: ServiceReport) -> None:
        try:
            # A future of another thread's loop: a timeout cancels the work there.
            asyncio.run_coroutine_threadsafe(_within(services, report), loop).result(2 * _REPORT_WITHIN_S)
        except (TimeoutError, CancelledError) as error:
            # Cancelled: the process ends.
            raise OutcomeUnknown(f"The database did not answer within {_REPORT_WITHIN_S:g} s.") from error

    def observe() -> Activity:
        work = (f"serves {host}:{server.port}",)
        if server.is_draining:
            return Activity(ServiceState.DRAINING, work)
        return Activity(ServiceState.RUNNING if server.health.serving else ServiceState.STARTING, work)

    return Presence(METASTORE, send, observe, metrics=metrics, ids=ids, clock=clock, log=log)


async def _within(services: Services, report: ServiceReport) -> None:
    async with asyncio.timeout(_REPORT_WITHIN_S):
        await services.report_presence(report)
