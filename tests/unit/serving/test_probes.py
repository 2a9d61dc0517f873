"""What probes of Kubernetes are answered: gRPC health on a port of its own, and the pages over HTTP."""

from __future__ import annotations

import asyncio
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Coroutine
from contextlib import suppress

import grpc
import pytest
from grpc_health.v1 import health_pb2
from prometheus_client import CollectorRegistry

from lakelog.embedded.ports import free_port
from lakelog.errors import InvalidArgument
from lakelog.serving.http_endpoint import HttpEndpoint
from lakelog.serving.probe_port import open_probe_port

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def check(port: int | None, service: str, method: str = "Check") -> int:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary(
            f"/grpc.health.v1.Health/{method}",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        answer = await call(health_pb2.HealthCheckRequest(service=service), timeout=10)
        return int(answer.status)


def run(work: Coroutine[None, None, None]) -> None:
    asyncio.run(work)


def test_liveness_depends_on_nothing_and_readiness_on_the_service() -> None:
    async def work() -> None:
        ready: list[bool] = []
        async with open_probe_port("127.0.0.1", 0, lambda: bool(ready)) as port:
            assert await check(port, "liveness") == SERVING
            assert await check(port, "readiness") == await check(port, "") == NOT_SERVING
            ready.append(True)
            assert await check(port, "readiness") == await check(port, "") == SERVING

    run(work())


def test_nothing_else_is_answered_there() -> None:
    async def work() -> None:
        async with open_probe_port("127.0.0.1", 0, lambda: True) as port:
            with pytest.raises(grpc.aio.AioRpcError) as unknown:
                await check(port, "lakelog.rpc.v1.CatalogService")
            assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
            with pytest.raises(grpc.aio.AioRpcError) as other:
                await check(port, "liveness", method="Watch")
            assert other.value.code() is grpc.StatusCode.UNIMPLEMENTED

    run(work())


def test_it_ends_with_its_block_and_is_not_opened_without_a_port() -> None:
    async def work() -> None:
        async with open_probe_port("127.0.0.1", None, lambda: True) as port:
            assert port is None
        async with open_probe_port("127.0.0.1", 0, lambda: True) as port:
            pass
        with pytest.raises(grpc.aio.AioRpcError):
            await check(port, "liveness")

    run(work())


def test_a_port_that_is_taken_is_named_with_its_argument() -> None:
    async def work() -> None:
        port = free_port()
        async with open_probe_port("127.0.0.1", port, lambda: True):
            with pytest.raises(InvalidArgument, match=f"127.0.0.1:{port}.* with --health-port"):
                async with open_probe_port("127.0.0.1", port, lambda: True):
                    pass

    run(work())


def read(url: str) -> int:
    with suppress(urllib.error.HTTPError), urllib.request.urlopen(url, timeout=10) as answer:
        return int(answer.status)
    return 503


def test_over_http_a_service_that_cannot_work_lives_and_is_not_ready() -> None:
    serving: list[bool] = []
    endpoint = HttpEndpoint("127.0.0.1", 0, CollectorRegistry(), lambda: bool(serving))
    endpoint.start()
    try:
        base = f"http://127.0.0.1:{endpoint.port}"
        assert (read(f"{base}/livez"), read(f"{base}/healthz")) == (200, 503)
        serving.append(True)
        assert (read(f"{base}/livez"), read(f"{base}/healthz")) == (200, 200)
    finally:
        endpoint.stop()


def test_an_endpoint_that_no_one_uses_can_be_stopped_and_its_port_is_free_then() -> None:
    endpoint = HttpEndpoint("127.0.0.1", 0, CollectorRegistry(), lambda: True)
    endpoint.start()
    base = f"http://127.0.0.1:{endpoint.port}"
    assert read(f"{base}/livez") == 200
    with socket.create_connection(("127.0.0.1", endpoint.port)):
        # Also while a connection is open that sends nothing.
        for _ in range(2):
            stopping = threading.Thread(target=endpoint.stop, daemon=True)
            stopping.start()
            stopping.join(20)
            assert not stopping.is_alive()
    with pytest.raises(urllib.error.URLError, match="refused"):
        read(f"{base}/livez")
    again = HttpEndpoint("127.0.0.1", endpoint.port, CollectorRegistry(), lambda: True)
    again.stop()
