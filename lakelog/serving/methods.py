"""The generated modules of our services, in one list for all that must look at every method."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from lakelog.rpc.v1 import (
    catalog_pb2,
    consumers_pb2,
    dropped_pb2,
    due_work_pb2,
    jobs_pb2,
    logs_pb2,
    presence_pb2,
    publishing_pb2,
    reader_pb2,
    retention_pb2,
    snapshots_pb2,
    table_files_pb2,
    tags_pb2,
)

# Generated modules have no common type.
OF_METASTORE: Final[tuple[Any, ...]] = (
    catalog_pb2,
    consumers_pb2,
    dropped_pb2,
    due_work_pb2,
    jobs_pb2,
    logs_pb2,
    presence_pb2,
    publishing_pb2,
    retention_pb2,
    snapshots_pb2,
    table_files_pb2,
    tags_pb2,
)
OF_READER: Final[tuple[Any, ...]] = (reader_pb2,)


def list_services(modules: tuple[Any, ...]) -> Iterator[ServiceDescriptor]:
    """The services of generated modules. Pure."""
    for module in modules:
        yield from module.DESCRIPTOR.services_by_name.values()


def list_methods(modules: tuple[Any, ...]) -> Iterator[MethodDescriptor]:
    """The methods of all services of generated modules. Pure."""
    for service in list_services(modules):
        yield from service.methods
