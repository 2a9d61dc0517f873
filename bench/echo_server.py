"""An empty gRPC service: what the network and gRPC cost by themselves. `python -m bench.echo_server PORT`."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import grpc

METHOD = "/bench.Echo/Call"


async def _answer(request: bytes, _: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
    return request[:64]


async def serve(port: int) -> None:
    """Serves on a loopback port until the process is ended."""
    server = grpc.aio.server()
    handler: Any = grpc.unary_unary_rpc_method_handler(_answer)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Echo", {"Call": handler}),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    print("ready", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
