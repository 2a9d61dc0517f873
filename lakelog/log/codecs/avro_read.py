"""Columns out of Avro's binary encoding, the inverse of `avro_write.py`: all records at once, column by column.

Where a value begins is known only when the one before it was read. So each record has a *cursor*, and one step reads
the same thing of all records. The only loop is over the elements of the longest array. A record that cannot be read is
*wrong*: its cursor stays where it is, and whatever is read of it says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as pt

from lakelog.log.codecs.avro_schema import is_avro_map
from lakelog.log.codecs.byte_columns import Mask, take_spans, to_any_value, to_bounds, to_bytes
from lakelog.log.codecs.json_strings import to_strings
from lakelog.log.codecs.json_values import read_numbers

Records = npt.NDArray[np.int64]
"""Numbers of records, each at most once."""

_VARINT_BYTES: Final = 10
_MAX_PADDING: Final = 16
"""Bytes behind the data that may be looked at, though no value stands there."""


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


class _Reader:
    """Cursors into many records."""

    def __init__(self, texts: pa.Array) -> None:
        data, bounds = to_bytes(texts)
        self.data = np.concatenate([data, np.zeros(_MAX_PADDING, dtype=np.uint8)])
        self.cursors = bounds[:-1].copy()
        self.ends = bounds[1:]
        self.wrong = np.zeros(len(texts), dtype=np.bool_)

    def refuse(self, records: Records, mask: Mask) -> None:
        """Says that records cannot be read."""
        self.wrong[records[mask]] = True

    def read_field(self, field: pa.Field, records: Records) -> pa.Array:
        """A value of each of the records, NULL where its union says so."""
        if not field.nullable:
            return self._read(field.type, records)
        branches = self._read_varints(records)
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
            offsets, (elements,) = self._read_blocks([data_type.value_field], records)
            return pa.ListArray.from_arrays(offsets, elements, type=data_type)
        if pt.is_boolean(data_type):
            numbers = self._read_bytes(records, 1)[:, 0]
            self.refuse(records, numbers > 1)
            return pa.array(numbers == 1)
        if pt.is_floating(data_type):
            width = data_type.bit_width // 8
            return pa.array(self._read_bytes(records, width).view(f"<f{width}")[:, 0], data_type)
        if pt.is_integer(data_type) or pt.is_temporal(data_type):
            return self._read_numbers(data_type, records)
        return self._read_texts(data_type, records)

    def _read_numbers(self, data_type: pa.DataType, records: Records) -> pa.Array:
        numbers = self._read_varints(records)
        bits = data_type.bit_width
        if bits < 64:
            outside = (numbers >= 1 << (bits - 1)) | (numbers < -(1 << (bits - 1)))
            self.refuse(records, outside)
            numbers = np.where(outside, 0, numbers)
        narrow = numbers.astype(f"int{bits}")
        return pa.array(narrow).view(data_type) if pt.is_temporal(data_type) else pa.array(narrow)

    def _read_texts(self, data_type: pa.DataType, records: Records) -> pa.Array:
        lengths = self._read_varints(records)
        starts = self.cursors[records]
        unfit = (lengths < 0) | (lengths > self.ends[records] - starts)
        self.refuse(records, unfit)
        lengths = np.where(unfit, 0, lengths)
        self.cursors[records] += lengths
        texts = take_spans(self.data, starts, lengths)
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
        offsets, (keys, items) = self._read_blocks([key_field, item_field], records)
        if keys.null_count:
            # They are of wrong records, whose rows nobody sees.
            keys = keys.fill_null(to_any_value(keys.type))
        return pa.MapArray.from_arrays(offsets, keys, items, type=data_type)

    def _read_blocks(self, fields: Sequence[pa.Field], records: Records) -> tuple[pa.Array, list[pa.Array]]:
        """The elements of arrays, each of these fields: offsets, and a column for each field."""
        left = np.zeros(len(records), dtype=np.int64)
        lengths = np.zeros(len(records), dtype=np.int64)
        active = np.arange(len(records))
        owners: list[Records] = []
        found: list[list[pa.Array]] = [[] for _ in fields]
        while True:
            active = self._begin_blocks(records, left, active)
            if not len(active):
                break
            for column, field in zip(found, fields, strict=True):
                column.append(self.read_field(field, records[active]))
            owners.append(active)
            lengths[active] += 1
            left[active] -= 1
            active = active[~self.wrong[records[active]]]
        # Element by element becomes array by array.
        order = np.argsort(np.concatenate(owners), kind="stable") if owners else np.zeros(0, dtype=np.int64)
        columns = [
            pa.concat_arrays(column).take(pa.array(order)) if column else pa.array([], field.type)
            for column, field in zip(found, fields, strict=True)
        ]
        return pa.array(to_bounds(lengths), pa.int32()), columns

    def _begin_blocks(self, records: Records, left: npt.NDArray[np.int64], active: Records) -> Records:
        """Those that have another element; where a block has ended the next one's count is read."""
        ended = active[left[active] == 0]
        if len(ended):
            counts = self._read_varints(records[ended])
            with_size = counts < 0
            self._read_varints(records[ended[with_size]])
            counts = np.abs(counts)
            # An element takes a byte at least.
            unfit = (counts < 0) | (counts > self.ends[records[ended]] - self.cursors[records[ended]])
            self.refuse(records[ended], unfit)
            left[ended] = np.where(unfit, 0, counts)
        return active[(left[active] > 0) & ~self.wrong[records[active]]]

    def _read_bytes(self, records: Records, count: int) -> npt.NDArray[np.uint8]:
        starts = self.cursors[records]
        unfit = starts + count > self.ends[records]
        self.refuse(records, unfit)
        found = self.data[starts[:, None] + np.arange(count)]
        self.cursors[records] = np.where(unfit, starts, starts + count)
        return found

    def _read_varints(self, records: Records) -> npt.NDArray[np.int64]:
        starts = self.cursors[records]
        room = np.minimum(self.ends[records] - starts, _VARINT_BYTES)
        numbers = np.zeros(len(records), dtype=np.uint64)
        lengths = np.zeros(len(records), dtype=np.int64)
        going = np.arange(len(records))
        for place in range(_VARINT_BYTES):
            going = going[room[going] > place]
            if not len(going):
                break
            byte = self.data[starts[going] + place]
            numbers[going] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * place)
            ended = byte < 0x80
            lengths[going[ended]] = place + 1
            going = going[~ended]
        unfit = lengths == 0
        self.refuse(records, unfit)
        self.cursors[records] = starts + lengths
        decoded = (numbers >> np.uint64(1)).view(np.int64) ^ -(numbers & np.uint64(1)).view(np.int64)
        return np.where(unfit, 0, decoded)
