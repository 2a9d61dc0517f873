"""Calls and serves the methods of services, from the descriptors of their protos."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass


class Stubs:
    """The methods of some services over a channel as attributes of their names, each made at its first use.

    A call takes a message, or an iterator of messages, and the keyword arguments of gRPC:
    `stubs.GetTable(request, timeout=5)`.

    Args:
        channel: Where the calls go.
        services: The services; none has a method of another one's name.
    """

    def __init__(self, channel: grpc.Channel, services: Iterable[ServiceDescriptor]) -> None:
        self._channel = channel
        self._methods = {method.name: method for service in services for method in service.methods}

    def __getattr__(self, name: str) -> Any:
        # Copies ask before anything is set.
        method = self.__dict__.get("_methods", {}).get(name)
        if method is None:
            raise AttributeError(f"No service here has a method {name}.")
        made = getattr(self._channel, _kind(method))(
            f"/{method.containing_service.full_name}/{method.name}",
            request_serializer=GetMessageClass(method.input_type).SerializeToString,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        setattr(self, name, made)
        return made


def to_handler(service: ServiceDescriptor, servicer: object) -> grpc.GenericRpcHandler:
    """The handler of a service, which looks its methods up by their names.

    SUBTLE: generated code also registers each method. gRPC's asyncio server then waits for calls of each method
        separately, and starts a new wait after every call: with our 30 methods that was a sixth of the metastore's work
        for a commit (bench W9).

    Args:
        service: The service.
        servicer: Has a method of the name of each of the service's methods.
    """
    handlers = {method.name: _handle(method, getattr(servicer, method.name)) for method in service.methods}
    return grpc.method_handlers_generic_handler(service.full_name, handlers)


def _handle(method: MethodDescriptor, behavior: Callable[..., Any]) -> grpc.RpcMethodHandler[Any, Any]:
    handler: grpc.RpcMethodHandler[Any, Any] = getattr(grpc, f"{_kind(method)}_rpc_method_handler")(
        behavior, GetMessageClass(method.input_type).FromString, GetMessageClass(method.output_type).SerializeToString
    )
    return handler


def _kind(method: MethodDescriptor) -> str:
    """As `unary_stream`: what is sent and what is answered."""
    names = {True: "stream", False: "unary"}
    return f"{names[method.client_streaming]}_{names[method.server_streaming]}"
