"""All methods of all services, by their descriptors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from lakelog.serving.methods import OF_METASTORE, OF_READER, list_methods

INTEGERS: Final = (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64)
"""The kinds of all numbers of our messages."""


def _find_methods(modules: tuple[Any, ...]) -> dict[str, MethodDescriptor]:
    return {f"/{method.containing_service.full_name}/{method.name}": method for method in list_methods(modules)}


METASTORE_METHODS: Final[Mapping[str, MethodDescriptor]] = _find_methods(OF_METASTORE)
READER_METHODS: Final[Mapping[str, MethodDescriptor]] = _find_methods(OF_READER)


def make_message(of: Descriptor) -> Message:
    """An empty message."""
    message: Message = GetMessageClass(of)()
    return message


def is_map(field: FieldDescriptor) -> bool:
    """Whether a field is a map, which is a repeated message on the wire."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def list_fields(of: Descriptor) -> dict[str, FieldDescriptor]:
    """The fields of a message and of all its sub-messages, by `Message.field`; of a map also `.key` and `.value`."""
    return {
        f"{message.name}.{field.name}{f'.{part.name}' if part is not field else ''}": part
        for message in _walk(of, {})
        for field in message.fields
        for part in _parts(field)
    }


def _parts(field: FieldDescriptor) -> Iterator[FieldDescriptor]:
    if is_map(field):
        assert field.message_type is not None, "a map has an entry"
        yield from field.message_type.fields
    else:
        yield field


def _walk(of: Descriptor, seen: dict[str, Descriptor]) -> list[Descriptor]:
    if of.full_name in seen:
        return []
    seen[of.full_name] = of
    for field in of.fields:
        for part in _parts(field):
            if part.message_type is not None:
                _walk(part.message_type, seen)
    return list(seen.values())
