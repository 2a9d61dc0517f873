"""Columns out of Avro's binary encoding, the inverse of `write.py`: all records at once, column by column.

How that is done stands in `cursors.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from lakelog.log.codecs.avro.cursors import AvroCursors, Records
from lakelog.log.codecs.avro.schema import is_avro_map
from lakelog.log.codecs.byte_columns import Mask, fill_with_any
from lakelog.log.codecs.json.strings import to_strings
from lakelog.log.codecs.json.values import read_numbers


def read_avro(texts: pa.Array, fields: Sequence[pa.Field]) -> tuple[list[pa.Array], Mask]:
    """Reads records. Pure.

    Args:
        texts: Binary without NULL.
        fields: As of `to_avro`.

    Returns:
        A column for each field, and which records are wrong: truncated, too long, or not of these fields.
    """
    reader = _Reader(texts)
    everything = np.arange(len(texts))
    columns = [reader.read_field(field, everything) for field in fields]
    reader.refuse(everything, reader.cursors != reader.ends)
    return columns, reader.wrong


class _Reader(AvroCursors):
    """Reads records of a table's columns."""

    def read_field(self, field: pa.Field, records: Records) -> pa.Array:
        """A value of each of the records, NULL where its union says so."""
        if not field.nullable:
            return self._read(field.type, records)
        branches = self.read_varints(records)
        self.refuse(records, (branches != 0) & (branches != 1))
        present = branches == 1
        found = self._read(field.type, records[present])
        if present.all():
            return found
        places = np.cumsum(present) - 1
        return found.take(pa.array(places, mask=~present)) if len(found) else pa.nulls(len(records), field.type)

    def _read(self, data_type: pa.DataType, records: Records) -> pa.Array:
        if pt.is_struct(data_type):
            children = [self.read_field(field, records) for field in data_type.fields]
            return pa.StructArray.from_arrays(children, fields=data_type.fields)
        if pt.is_map(data_type):
            return self._read_map(data_type, records)
        if pt.is_list(data_type):
            offsets, (elements,) = self.read_blocks([self._to_reader(data_type.value_field)], records)
            return pa.ListArray.from_arrays(offsets, elements, type=data_type)
        if pt.is_boolean(data_type):
            numbers = self.read_bytes(records, 1)[:, 0]
            self.refuse(records, numbers > 1)
            return pa.array(numbers == 1)
        if pt.is_floating(data_type):
            width = data_type.bit_width // 8
            return pa.array(self.read_bytes(records, width).view(f"<f{width}")[:, 0], data_type)
        if pt.is_integer(data_type) or pt.is_temporal(data_type):
            return self._read_numbers(data_type, records)
        return self._read_texts(data_type, records)

    def _to_reader(self, field: pa.Field) -> tuple[pa.DataType, Callable[[Records], pa.Array]]:
        return field.type, partial(self.read_field, field)

    def _read_numbers(self, data_type: pa.DataType, records: Records) -> pa.Array:
        found = pa.array(self.read_numbers(records, data_type.bit_width))
        return found.view(data_type) if pt.is_temporal(data_type) else found

    def _read_texts(self, data_type: pa.DataType, records: Records) -> pa.Array:
        texts = self.read_spans(records)
        if pt.is_binary(data_type):
            return texts
        strings, wrong = to_strings(texts)
        if pt.is_decimal(data_type):
            strings, failed = read_numbers(strings, data_type)
            wrong |= failed
        self.refuse(records, wrong)
        return strings

    def _read_map(self, data_type: pa.DataType, records: Records) -> pa.Array:
        key_field, item_field = data_type.key_field, data_type.item_field
        if is_avro_map(data_type):
            key_field = pa.field("key", pa.string(), nullable=False)
        offsets, (keys, items) = self.read_blocks([self._to_reader(key_field), self._to_reader(item_field)], records)
        # Those that are missing are of wrong records, whose rows nobody sees.
        return pa.MapArray.from_arrays(offsets, fill_with_any(keys), items, type=data_type)
