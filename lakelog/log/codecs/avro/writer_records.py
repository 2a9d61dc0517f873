"""Columns out of Avro records that others have written, by their writer's schema (`writer_schema.py`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from lakelog.log.codecs.avro.connect_types import from_big_endian
from lakelog.log.codecs.avro.cursors import AvroCursors, Records
from lakelog.log.codecs.avro.long_records import read_long_records
from lakelog.log.codecs.avro.writer_schema import AvroNode, WriterSchema
from lakelog.log.codecs.byte_columns import Mask
from lakelog.log.codecs.casts import cast_where_possible
from lakelog.log.codecs.json.strings import to_strings

_FEW_AT_ONCE: Final = 2_000
"""Steps for few records: 0.5 s, which arrays of 2,000 elements may take."""


def read_writer_records(texts: pa.Array, schema: WriterSchema) -> tuple[pa.Table, Mask]:
    """Reads records. Pure.

    Args:
        texts: Binary without NULL, a datum each without anything around it.
        schema: What they were written by.

    Returns:
        The columns of `schema.arrow`, and which records are wrong: truncated, too long, or not of this schema; what
        stands in their rows says nothing.
    """
    reader = _Reader(texts, _FEW_AT_ONCE)
    everything = np.arange(len(texts))
    columns = [reader.read(node, everything) for node in schema.nodes]
    reader.refuse(everything, reader.cursors != reader.ends)
    table, wrong = pa.Table.from_arrays(columns, schema=schema.arrow), reader.wrong
    left_over = np.flatnonzero(reader.left_over)
    if not len(left_over):
        return table, wrong
    found, wrong_there = read_long_records(texts.take(pa.array(left_over)), schema)
    wrong[left_over] = wrong_there
    places = np.arange(len(texts))
    places[left_over] = len(texts) + np.arange(len(left_over))
    return pa.concat_tables([table, found]).take(pa.array(places)), wrong


class _Reader(AvroCursors):
    def read(self, node: AvroNode, records: Records) -> pa.Array:
        """A value of each of the records, NULL where its union says so."""
        if node.branches is None:
            return self._read_bare(node, records)
        count, null = node.branches
        taken = self.read_varints(records)
        self.refuse(records, (taken < 0) | (taken >= count))
        if null is None:
            return self._read_bare(node, records)
        present = taken == 1 - null
        found = self._read_bare(node, records[present])
        if present.all():
            return found
        places = np.cumsum(present) - 1
        return found.take(pa.array(places, mask=~present)) if len(found) else pa.nulls(len(records), node.data_type)

    def _to_reader(self, node: AvroNode) -> tuple[pa.DataType, Callable[[Records], pa.Array]]:
        return node.data_type, partial(self.read, node)

    def _read_bare(self, node: AvroNode, records: Records) -> pa.Array:
        data_type = node.data_type
        if pt.is_struct(data_type):
            children = [self.read(child, records) for child in node.children]
            return pa.StructArray.from_arrays(children, fields=data_type.fields)
        if pt.is_list(data_type):
            offsets, (items,) = self.read_blocks([self._to_reader(node.children[0])], records)
            return pa.ListArray.from_arrays(offsets, items, type=data_type)
        if pt.is_map(data_type):
            return self._read_map(node, records)
        if node.symbols:
            return self._read_enum(node.symbols, records)
        if pt.is_boolean(data_type):
            bytes_ = self.read_bytes(records, 1)[:, 0]
            self.refuse(records, bytes_ > 1)
            return pa.array(bytes_ == 1)
        if pt.is_floating(data_type):
            width = data_type.bit_width // 8
            return pa.array(self.read_bytes(records, width).view(f"<f{width}")[:, 0], data_type)
        if pt.is_integer(data_type) or pt.is_temporal(data_type):
            numbers = pa.array(self.read_numbers(records, data_type.bit_width))
            return numbers.view(data_type) if pt.is_temporal(data_type) else numbers
        return self._read_texts(node, records)

    def _read_texts(self, node: AvroNode, records: Records) -> pa.Array:
        spans = self.read_spans(records, node.fixed_bytes)
        if pt.is_binary(node.data_type):
            return spans
        if pt.is_string(node.data_type):
            found, wrong = to_strings(spans)
        else:
            whole, wrong = from_big_endian(spans)
            digits = pa.decimal128(38, node.data_type.scale)
            unscaled = pa.Array.from_buffers(digits, len(whole), whole.buffers(), offset=whole.offset)
            found, failed = cast_where_possible(unscaled, node.data_type)
            wrong = wrong | failed
        self.refuse(records, wrong)
        return found

    def _read_enum(self, symbols: tuple[str, ...], records: Records) -> pa.Array:
        places = self.read_varints(records)
        unfit = (places < 0) | (places >= len(symbols))
        self.refuse(records, unfit)
        return pa.array(symbols).take(pa.array(np.where(unfit, 0, places)))

    def _read_map(self, node: AvroNode, records: Records) -> pa.Array:
        keys_reader = AvroNode(pa.string())
        offsets, (keys, items) = self.read_blocks(
            [self._to_reader(keys_reader), self._to_reader(node.children[0])], records
        )
        # Those that are no text are of wrong records, whose rows nobody sees.
        return pa.MapArray.from_arrays(offsets, keys.fill_null(""), items, type=node.data_type)
