"""Records of Avro with long arrays, read value by value: a loop, but one that takes a microsecond a value.

`writer_records.py` reads the same element of all records at once, so a few records with far more elements than all
others are read here. Both read the same.
"""

from __future__ import annotations

import struct
from decimal import Context
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from lakelog.log.codecs.avro.writer_schema import AvroNode, WriterSchema
from lakelog.log.codecs.byte_columns import Mask

_EXACT: Final = Context(prec=60)
_MOST_DECIMAL_BYTES: Final = 16


class _WrongError(Exception):
    """A record is not of its schema."""


def read_long_records(texts: pa.Array, schema: WriterSchema) -> tuple[pa.Table, Mask]:
    """As `read_writer_records`. Pure."""
    wrong = np.zeros(len(texts), dtype=np.bool_)
    parts: list[pa.Table] = []
    nothing = pa.Table.from_arrays([pa.nulls(1, type_) for type_ in schema.arrow.types], schema=schema.arrow)
    for place, text in enumerate(texts):
        cursor = _Cursor(text.as_py())
        try:
            values = [cursor.read(node) for node in schema.nodes]
            if cursor.at != len(cursor.data):
                raise _WrongError
            arrays = [pa.array([value], type_) for value, type_ in zip(values, schema.arrow.types, strict=True)]
            parts.append(pa.Table.from_arrays(arrays, schema=schema.arrow))
        except (_WrongError, UnicodeDecodeError, pa.ArrowInvalid, OverflowError):
            wrong[place] = True
            parts.append(nothing)
    return pa.concat_tables(parts), wrong


class _Cursor:
    """Reads one record."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def read(self, node: AvroNode) -> Any:
        """The next value, as what `pa.array` takes for the node's type."""
        if node.branches is not None:
            count, null = node.branches
            branch = self._read_number(64)
            if not 0 <= branch < count:
                raise _WrongError
            if branch == null:
                return None
        data_type = node.data_type
        if pt.is_struct(data_type):
            return {field.name: self.read(child) for field, child in zip(data_type.fields, node.children, strict=True)}
        if pt.is_list(data_type):
            return self._read_elements(node.children[0], is_map=False)
        if pt.is_map(data_type):
            return self._read_elements(node.children[0], is_map=True)
        if node.symbols:
            place = self._read_number(64)
            if not 0 <= place < len(node.symbols):
                raise _WrongError
            return node.symbols[place]
        if pt.is_boolean(data_type):
            byte = self._read_bytes(1)[0]
            if byte > 1:
                raise _WrongError
            return byte == 1
        if pt.is_floating(data_type):
            code = "<f" if pt.is_float32(data_type) else "<d"
            return struct.unpack(code, self._read_bytes(data_type.bit_width // 8))[0]
        if pt.is_integer(data_type) or pt.is_temporal(data_type):
            return self._read_number(data_type.bit_width)
        found = self._read_bytes(self._read_number(64) if node.fixed_bytes is None else node.fixed_bytes)
        if pt.is_string(data_type):
            return found.decode()
        return found if pt.is_binary(data_type) else self._to_decimal(found, data_type)

    def _read_elements(self, node: AvroNode, *, is_map: bool) -> list[Any]:
        found: list[Any] = []
        while count := self._read_number(64):
            if count < 0:
                self._read_number(64)
                count = -count
            # An element takes a byte at least.
            if count > len(self.data) - self.at:
                raise _WrongError
            for _ in range(count):
                key = self._read_bytes(self._read_number(64)).decode() if is_map else None
                value = self.read(node)
                found.append((key, value) if is_map else value)
        return found

    def _read_bytes(self, count: int) -> bytes:
        start, end = self.at, self.at + count
        if count < 0 or end > len(self.data):
            raise _WrongError
        self.at = end
        return self.data[start:end]

    def _read_number(self, bits: int) -> int:
        data, at, shift, number = self.data, self.at, 0, 0
        while True:
            if at >= len(data) or shift > 63:
                raise _WrongError
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        self.at = at
        # Bits beyond the 64th are lost, as they are for many records at once.
        number &= (1 << 64) - 1
        value = (number >> 1) ^ -(number & 1)
        if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise _WrongError
        return value

    def _to_decimal(self, found: bytes, data_type: pa.DataType) -> Any:
        if not 0 < len(found) <= _MOST_DECIMAL_BYTES:
            raise _WrongError
        whole = int.from_bytes(found, "big", signed=True)
        if abs(whole) >= 10**data_type.precision:
            raise _WrongError
        return _EXACT.scaleb(_EXACT.create_decimal(whole), -data_type.scale)
