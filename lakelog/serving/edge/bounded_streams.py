"""Bounds the messages of streams in a server without an interceptor of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from lakelog.errors import InvalidArgument, LakelogError

from .request_bounds import RequestBounds

M = TypeVar("M", bound=Message)


class BoundedStreams(grpc.aio.ServerInterceptor):
    """Counts the entries of a message before parsing it; one with too many becomes an error, which `checked` raises.

    gRPC reads messages at a place where errors are lost.

    Args:
        bounds: The bounds of methods that take streams, by their full names.
    """

    def __init__(self, bounds: Mapping[str, RequestBounds]) -> None:
        self._bounds = bounds

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Adds the check before the parsing."""
        handler = await continuation(handler_call_details)
        bounds = self._bounds.get(handler_call_details.method)
        if handler is None or bounds is None:
            return handler
        parse = handler.request_deserializer

        def read(data: bytes) -> Message | LakelogError:
            try:
                bounds.check_size(data)
                bounds.check_entries(data)
                return parse(data)
            except LakelogError as error:
                return error.with_traceback(None)
            except DecodeError as error:
                return InvalidArgument(f"The message's {len(data)} bytes are no message of this call: {error}.")

        return grpc.stream_stream_rpc_method_handler(
            handler.stream_stream, request_deserializer=read, response_serializer=handler.response_serializer
        )


def checked(arrived: M | LakelogError) -> M:
    """Returns the message that arrived.

    Raises:
        LakelogError: It was refused.
    """
    if isinstance(arrived, LakelogError):
        raise arrived
    return arrived
