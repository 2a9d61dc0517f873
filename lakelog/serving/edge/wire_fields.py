"""Finds the fields of a message in its bytes, without parsing it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from google.protobuf.message import DecodeError


class Field(NamedTuple):
    """A field's place.

    Args:
        tag: Its number and wire type, as on the wire.
        start: Where its tag begins.
        inside: Where its value begins; of a length-delimited one, after the length.
        end: Where it ends.
    """

    tag: int
    start: int
    inside: int
    end: int


def split_fields(data: bytes, start: int, end: int) -> Iterator[Field]:
    """The fields of the message in `data[start:end]`, in their order. Linear in their number.

    Raises:
        DecodeError: The bytes are no message. Groups are refused, because proto3 has none.
    """
    at = start
    try:
        while at < end:
            began = at
            tag, at = read_varint(data, at)
            kind = tag & 7
            inside = at
            if kind == 2:
                length, inside = read_varint(data, at)
                at = inside + length
            elif kind == 0:
                _, at = read_varint(data, at)
            elif kind == 1:
                at += 8
            elif kind == 5:
                at += 4
            else:
                raise DecodeError(f"the field at byte {began} has the wire type {kind}")
            if at > end:
                raise DecodeError(f"the field at byte {began} goes beyond its message")
            yield Field(tag, began, inside, at)
    except IndexError:
        raise DecodeError("the last field is cut off") from None


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins at a place, and the place after it.

    Raises:
        DecodeError: It has more bytes than any number.
        IndexError: The data ends within it.
    """
    byte = data[at]
    at += 1
    if byte < 128:
        return byte, at
    value, shift = byte & 127, 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise DecodeError(f"the number at byte {at} is too long")
