"""Bounds the calls that are open to everyone, in a server without an interceptor of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import grpc

from lakelog.errors import Unavailable

from .shares import ShareLimits, Shares

PROBES_OF_CONNECTION: Final = 16
"""Health checks over one connection at once. They need no token, so all together have no limit: else a caller without a
token could block those of all others."""

_UNLIMITED: Final = 2**63

OF_PROBES: Final = ShareLimits(
    "health checks", "the number of connections", _UNLIMITED, _UNLIMITED, PROBES_OF_CONNECTION, reserve=0
)


class BoundedProbes(grpc.aio.ServerInterceptor):
    """Refuses health checks and reflections beyond a number over one connection.

    Args:
        service: The full name of the service whose methods count their callers themselves.
    """

    def __init__(self, service: str) -> None:
        self._own = f"/{service}/"
        self._open = Shares(OF_PROBES)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Wraps the handler of a call of another service."""
        handler = await continuation(handler_call_details)
        if handler is None or handler_call_details.method.startswith(self._own):
            return handler
        coding = {
            "request_deserializer": handler.request_deserializer,
            "response_serializer": handler.response_serializer,
        }
        if handler.unary_unary is not None:
            return grpc.unary_unary_rpc_method_handler(self._answering(handler.unary_unary), **coding)
        if handler.unary_stream is not None:
            return grpc.unary_stream_rpc_method_handler(self._sending(handler.unary_stream), **coding)
        return grpc.stream_stream_rpc_method_handler(self._sending(handler.stream_stream), **coding)

    def _answering(self, behaviour: Any) -> Any:
        async def answer(request: Any, context: Any) -> Any:
            give_back = await self._take(context)
            try:
                return await behaviour(request, context)
            finally:
                give_back()

        return answer

    def _sending(self, behaviour: Any) -> Any:
        async def send(request: Any, context: Any) -> None:
            give_back = await self._take(context)
            try:
                responses = behaviour(request, context)
                if isinstance(responses, AsyncIterator):
                    async for response in responses:
                        await context.write(response)
                else:
                    await responses
            finally:
                give_back()

        return send

    async def _take(self, context: Any) -> Callable[[], None]:
        try:
            return self._open.take(None, context.peer())
        except Unavailable as error:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, error.message)
            raise
