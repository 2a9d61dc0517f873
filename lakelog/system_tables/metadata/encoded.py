"""Encoded partitions and keys of many files for people and programs. Pure; no loop over files."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.format.keys.decoding import EncodedKeys
from lakelog.format.types.schema import TableSchema
from lakelog.format.types.time_text import to_time_texts


def partition_type(schema: TableSchema) -> pa.DataType:
    """A struct of the partition columns; in a table without partitions a text, which is always NULL. Pure."""
    fields = [pa.field(name, schema.arrow.field(name).type) for name in schema.partition_by]
    return pa.struct(fields) if fields else pa.string()


def decode_partitions(encoded: pa.Array | pa.ChunkedArray, schema: TableSchema) -> pa.Array:
    """The partitions of files, of `partition_type`."""
    whole = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    fields = list(partition_type(schema)) if schema.partition_by else []
    if not fields:
        return pa.nulls(len(whole), pa.string())
    # There are many files and few partitions, so each partition is decoded once.
    numbered = whole.dictionary_encode()
    distinct = EncodedKeys(numbered.dictionary)
    columns = [distinct.take_column(field.type).take(numbered.indices) for field in fields]
    return pa.StructArray.from_arrays(columns, fields=fields)


def to_key_texts(encoded: pa.Array | pa.ChunkedArray, schema: TableSchema) -> pa.Array:
    """Keys of files as text: values of the columns with commas, or hexadecimal digits of a bound that was cut."""
    whole = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    types = [schema.arrow.field(name).type for name in schema.trimmed_key]
    if not types or not len(whole):
        return pa.nulls(len(whole), pa.string())
    keys = EncodedKeys(whole)
    texts = [_to_texts(keys.take_column(each)) for each in types]
    joined = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, ", ")
    is_whole = keys.is_complete()
    cut = np.flatnonzero(~is_whole & whole.is_valid().to_numpy(zero_copy_only=False))
    if not len(cut):
        return joined
    places = np.full(len(whole), -1, np.int64)
    places[cut] = np.arange(len(cut))
    shown = pa.array([f"0x{value.hex()}..." for value in whole.take(pa.array(cut)).to_pylist()], pa.string())
    return pc.if_else(pa.array(is_whole), joined, shown.take(pa.array(places, mask=places < 0)))


def _to_texts(values: pa.Array) -> pa.Array:
    if pt.is_temporal(values.type):
        return to_time_texts(values).cast(pa.string())
    if pt.is_binary(values.type):
        distinct = values.dictionary_encode()
        return pa.array([str(each) for each in distinct.dictionary.to_pylist()], pa.string()).take(distinct.indices)
    return values.cast(pa.string())
