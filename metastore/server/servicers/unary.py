"""Methods of services that only translate, call a use case and translate: by the names of the proto file."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message

from lakelog.client.metastore.metastore import Metastore
from lakelog.rpc.unary import UnaryMethod

from ...use_cases import UseCases, find_use_case
from ..callers import calling, principal, readable

Handler = Callable[[Message, grpc.aio.ServicerContext[Any, Any]], Awaitable[Message]]


_OF_CALL: Final[Mapping[str, Callable[[], Any]]] = {"by": principal, "readable": readable, "caller": calling}
"""Arguments of use cases that no client sends: whose work it is, what the caller may read, and how it is known."""


class Servicer:
    """The methods of a service: those of a subclass, and for each other one the use case of its name.

    Args:
        service: The service.
        use_cases: The use cases to call. They get what they take of the call: see `_OF_CALL`.

    Raises:
        TypeError: A method can only be translated by hand, and the subclass does not have it.
    """

    def __init__(self, service: ServiceDescriptor, use_cases: UseCases) -> None:
        for method in service.methods:
            if not hasattr(self, method.name):
                setattr(self, method.name, _serve(method.name, use_cases))


def _serve(rpc: str, use_cases: UseCases) -> Handler:
    name = "".join(f"_{each.lower()}" if each.isupper() else each for each in rpc)[1:]
    # Use cases have the protocol's parameters, and perhaps `by`.
    parameters = inspect.signature(getattr(Metastore, name)).parameters
    method = UnaryMethod(rpc, [each for each in parameters if each != "self"])

    async def serve(request: Message, _context: grpc.aio.ServicerContext[Any, Any]) -> Message:
        arguments = method.from_request(request)
        use_case = find_use_case(use_cases, name)
        taken = _parameters(getattr(use_case, "__func__", use_case))
        arguments |= {name: find() for name, find in _OF_CALL.items() if name in taken}
        return method.to_response(await use_case(**arguments))

    return serve


@functools.cache
def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)
