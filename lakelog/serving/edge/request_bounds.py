"""Bounds the size of a request: its bytes, and the entries of each repeated field, counted before any object is made.

An empty entry of a repeated message takes two bytes on the wire. As an object it takes some 200 bytes and several
microseconds. So a limit of bytes alone bounds neither memory nor time. This module walks over the wire format and
counts, without making any object. It stops at the first entry above a limit.

Invariants:

1. A request that passes has at most as many entries of each repeated field as its bounds allow, in all its parts
   together. If a singular message comes twice, protobuf merges its parts, so they count together.
2. Each message has at most `_SPARE_FIELDS` fields more than its type declares. So neither unknown fields nor
   repetitions of a singular field make the walk or the parse long.
3. The walk takes no more steps than the bounds allow, for any bytes.

A message without a repeated field below it is walked only if it is long enough for too many fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from lakelog.errors import InvalidArgument, ResourceExhausted

from .wire_fields import read_varint

TOO_LARGE: Final = "REQUEST_TOO_LARGE"
"""The reason of a refusal because of a request's size or entries."""

LARGE_BYTES: Final = 1024 * 1024
"""Above this a method's requests are large: they may take seconds to arrive."""

_MAX_DEPTH: Final = 100
"""How deep messages can be nested; protobuf itself refuses more."""

_REMEDY: Final = "Nothing was done: split the request, and ask for less at once."

_SPARE_FIELDS: Final = 32
"""Fields that a message can have beyond those of its type: a newer client can know more fields than this service."""

_VARINT: Final = 0
_FIXED64: Final = 1
_LENGTH: Final = 2
_FIXED32: Final = 5

_CONTINUED: Final = bytes(range(128, 256))
"""The bytes after which a varint goes on: one with the high bit set is not its last."""

_FIXED_WIDTHS: Final = {
    FieldDescriptor.TYPE_DOUBLE: 8,
    FieldDescriptor.TYPE_FIXED64: 8,
    FieldDescriptor.TYPE_SFIXED64: 8,
    FieldDescriptor.TYPE_FLOAT: 4,
    FieldDescriptor.TYPE_FIXED32: 4,
    FieldDescriptor.TYPE_SFIXED32: 4,
}
_UNPACKABLE: Final = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_MESSAGE)


@dataclass(frozen=True, slots=True)
class _Counted:
    """A field whose entries are counted.

    Args:
        slot: Its place among the counts.
        most: How many entries are let through.
        limit: The limit that a refusal names.
        inside: How to walk each entry; None: not at all.
        packed_width: If an entry is a row of packed numbers, the bytes of each, 0 for varints; None: it is one entry.
    """

    slot: int
    most: int
    limit: int
    inside: _Walk | None = None
    packed_width: int | None = None


class _Walk:
    """How to walk messages of one type.

    Args:
        name: The type.
        others: How many fields are allowed that are not repeated.
        has_counted: Whether there is a repeated field, at any depth.
    """

    __slots__ = ("counted", "harmless_bytes", "name", "others", "within")

    def __init__(self, name: str, others: int, *, has_counted: bool) -> None:
        self.name = name
        self.others = others
        # By their tags.
        self.counted: dict[int, _Counted] = {}
        self.within: dict[int, _Walk] = {}
        # Up to this size a message needs no walk; a field takes two bytes at least.
        self.harmless_bytes = 0 if has_counted else 2 * others


class RequestBounds:
    """The bounds of one method's requests.

    Args:
        method: The method's short name, for the message of a refusal.
        request: The type of its requests.
        max_bytes: The most bytes of one request.
        max_entries: The most entries of each repeated field in one request, by `Message.field`.
        let_through: How many entries pass if so many are the limit, for services whose own checks say more.

    Raises:
        KeyError: A repeated field that a request can hold is not in `max_entries`.
    """

    def __init__(
        self,
        method: str,
        request: Descriptor,
        max_bytes: int,
        max_entries: Mapping[str, int],
        let_through: Callable[[int], int] = int,
    ) -> None:
        self._method = method
        self.max_bytes: Final = max_bytes
        repeated = [field for each in reachable_messages(request) for field in each.fields if field.is_repeated]
        self._names = [entry_name(field) for field in repeated]
        self._limits = [max_entries[name] for name in self._names]
        self._let_through = let_through
        self._slots = {field.full_name: slot for slot, field in enumerate(repeated)}
        self._walks: dict[str, _Walk] = {}
        self._walk = self._plan(request)
        # A message of this size cannot hold too many entries: a packed number takes a byte, any other entry two.
        self._harmless_bytes = min(
            [most * (1 if _is_packable(field) else 2) for field, most in zip(repeated, self._limits, strict=True)],
            default=max_bytes,
        )

    @property
    def is_large(self) -> bool:
        """Whether a request may have more than `LARGE_BYTES`."""
        return self.max_bytes > LARGE_BYTES

    def check_size(self, data: bytes) -> None:
        """Checks the number of bytes.

        Raises:
            ResourceExhausted: There are too many.
        """
        if len(data) > self.max_bytes:
            raise ResourceExhausted(
                f"{self._method}: the request has {len(data)} bytes, and {self.max_bytes} is the limit. {_REMEDY}",
                reason=TOO_LARGE,
                metadata={"method": self._method, "limit": str(self.max_bytes)},
            )

    def check_entries(self, data: bytes) -> None:
        """Checks the number of entries of each repeated field, without making objects.

        Raises:
            InvalidArgument: There are too many, or the bytes are no message of this type.
        """
        if len(data) <= self._harmless_bytes:
            return
        try:
            self._take(data, 0, len(data), self._walk, [0] * len(self._names), 1)
        except (IndexError, DecodeError):
            raise _malformed(data) from None

    def _take(self, data: bytes, at: int, end: int, walk: _Walk, counts: list[int], depth: int) -> None:
        """Counts the fields of the message in `data[at:end]`. A read after the end of the data raises IndexError."""
        if depth > _MAX_DEPTH:
            raise _malformed(data)
        counted, within, others_left = walk.counted, walk.within, walk.others
        while at < end:
            tag = data[at]
            at += 1
            if tag > 127:
                tag, at = read_varint(data, at - 1)
            wire_type = tag & 7
            if wire_type == _LENGTH:
                length = data[at]
                at += 1
                if length > 127:
                    length, at = read_varint(data, at - 1)
                after = at + length
            elif wire_type == _VARINT:
                after = at
                while data[after] > 127:
                    after += 1
                after += 1
            elif wire_type == _FIXED64:
                after = at + 8
            elif wire_type == _FIXED32:
                after = at + 4
            else:
                # Groups are no part of proto3.
                raise _malformed(data)
            if after > end:
                raise _malformed(data)
            entry = counted.get(tag)
            if entry is None:
                others_left -= 1
                if others_left < 0:
                    raise self._refusal(walk.name, walk.others, "fields beside the repeated ones")
                inner = within.get(tag)
                if inner is not None and after - at > inner.harmless_bytes:
                    self._take(data, at, after, inner, counts, depth + 1)
            else:
                count = counts[entry.slot] + (
                    1 if entry.packed_width is None else _count_packed(data, at, after, entry.packed_width)
                )
                if count > entry.most:
                    raise self._refusal(self._names[entry.slot], entry.limit, "entries")
                counts[entry.slot] = count
                if entry.inside is not None and after - at > entry.inside.harmless_bytes:
                    self._take(data, at, after, entry.inside, counts, depth + 1)
            at = after

    def _plan(self, message: Descriptor) -> _Walk:
        """How to walk a type. Types can contain themselves."""
        if message.full_name in self._walks:
            return self._walks[message.full_name]
        has_counted = any(field.is_repeated for each in reachable_messages(message) for field in each.fields)
        walk = _Walk(message.name, len(message.fields) + _SPARE_FIELDS, has_counted=has_counted)
        self._walks[message.full_name] = walk
        for field in message.fields:
            inside = None if field.message_type is None else self._plan(field.message_type)
            if field.is_repeated:
                slot = self._slots[field.full_name]
                limit = self._limits[slot]
                most = self._let_through(limit)
                walk.counted[field.number << 3 | _wire_type(field)] = _Counted(slot, most, limit, inside)
                if _is_packable(field):
                    width = _FIXED_WIDTHS.get(field.type, 0)
                    walk.counted[field.number << 3 | _LENGTH] = _Counted(slot, most, limit, packed_width=width)
            elif inside is not None:
                walk.within[field.number << 3 | _LENGTH] = inside
        return walk

    def _refusal(self, field: str, limit: int, unit: str) -> InvalidArgument:
        return InvalidArgument(
            f"{self._method}: {field} has more than {limit} {unit}, which is the limit. {_REMEDY}",
            reason=TOO_LARGE,
            metadata={"method": self._method, "field": field, "limit": str(limit)},
        )


def entry_name(field: FieldDescriptor) -> str:
    """The name of a repeated field in tables of bounds: `Message.field`. Pure."""
    within: Any = field.containing_type
    return f"{within.full_name.removeprefix(f'{within.file.package}.')}.{field.name}"


def reachable_messages(message: Descriptor) -> Iterable[Descriptor]:
    """A type and all types that a message of it can hold, each once. Pure."""
    found = {message.full_name: message}
    waiting = [message]
    while waiting:
        for field in waiting.pop().fields:
            inner: Any = field.message_type
            if inner is not None and inner.full_name not in found:
                found[inner.full_name] = inner
                waiting.append(inner)
    return found.values()


def _count_packed(data: bytes, at: int, end: int, width: int) -> int:
    if width:
        return (end - at + width - 1) // width
    return len(data[at:end].translate(None, _CONTINUED))


def _is_packable(field: FieldDescriptor) -> bool:
    return field.type not in _UNPACKABLE


def _wire_type(field: FieldDescriptor) -> int:
    width = _FIXED_WIDTHS.get(field.type)
    if width is not None:
        return _FIXED64 if width == 8 else _FIXED32
    return _VARINT if _is_packable(field) else _LENGTH


def _malformed(data: bytes) -> InvalidArgument:
    return InvalidArgument(f"The request's {len(data)} bytes are no message of this call.")
