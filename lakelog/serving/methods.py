"""The generated modules of our services, in one list for all that must look at every method."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from lakelog.rpc.unary import OF_METASTORE
from lakelog.rpc.v1 import reader_pb2

__all__ = ["OF_METASTORE", "OF_READER", "list_methods", "list_services"]

OF_READER: Final[tuple[Any, ...]] = (reader_pb2,)


def list_services(modules: tuple[Any, ...]) -> Iterator[ServiceDescriptor]:
    """The services of generated modules. Pure."""
    for module in modules:
        yield from module.DESCRIPTOR.services_by_name.values()


def list_methods(modules: tuple[Any, ...]) -> Iterator[MethodDescriptor]:
    """The methods of all services of generated modules. Pure."""
    for service in list_services(modules):
        yield from service.methods
