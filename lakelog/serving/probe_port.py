"""A port with gRPC health alone, in plaintext: probes of Kubernetes speak no TLS, and a service's own port only TLS.

It answers for two names. "liveness" is SERVING as long as the process answers at all: a database or metastore that is
away must restart nothing. "" and "readiness" say whether the service can serve now. No one learns more there than that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2

from lakelog.serving.listening import listen

LIVENESS: Final = "liveness"
READINESS: Final = "readiness"

_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),
    # A probe is one small call over a connection of its own, and there are a few a second.
    ("grpc.max_receive_message_length", 4 * 1024),
    ("grpc.max_metadata_size", 4 * 1024),
    ("grpc.max_concurrent_streams", 16),
    ("grpc.max_allowed_incoming_connections", 100),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 60_000),
)


class _Health:
    """Answers `grpc.health.v1.Health/Check`."""

    def __init__(self, is_ready: Callable[[], bool]) -> None:
        self._is_ready = is_ready

    async def check(self, request: health_pb2.HealthCheckRequest, context: Any) -> health_pb2.HealthCheckResponse:
        """The state of one of the two names; another one is not found."""
        if request.service == LIVENESS:
            is_well = True
        elif request.service in ("", READINESS):
            is_well = self._is_ready()
        else:
            await context.abort(
                grpc.StatusCode.NOT_FOUND, f"Here are {LIVENESS!r} and {READINESS!r}, and '' for the latter."
            )
        states = health_pb2.HealthCheckResponse
        return states(status=states.SERVING if is_well else states.NOT_SERVING)


@asynccontextmanager
async def open_probe_port(host: str, port: int | None, is_ready: Callable[[], bool]) -> AsyncIterator[int | None]:
    """Answers probes within the block, also while the service drains. Gives the port.

    Args:
        host: Where to listen.
        port: The port, 0 for a free one; None: none is opened.
        is_ready: Whether the service can serve now; called on the event loop.

    Raises:
        InvalidArgument: The port is taken.
    """
    if port is None:
        yield None
        return
    server = grpc.aio.server(options=_OPTIONS)
    method = grpc.unary_unary_rpc_method_handler(
        _Health(is_ready).check,
        health_pb2.HealthCheckRequest.FromString,
        health_pb2.HealthCheckResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": method}),))
    found = listen(server, host, port, None, "--health-port")
    await server.start()
    try:
        yield found
    finally:
        await server.stop(None)
