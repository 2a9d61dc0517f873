"""The partition and bucket of each row, for whole tables at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidArgument
from lakelog.format.commit.guards import MAX_GUARDED_PLACES, Places
from lakelog.format.commit.request import BucketRef
from lakelog.format.keys.bucket import assign_buckets
from lakelog.format.keys.encoding import MAX_PARTITION_BYTES, decode_values, encode_key, encode_rows
from lakelog.format.keys.ordering import comparable_keys, single_array
from lakelog.format.tables.predicate import AllOf, Comparison, Operator, Predicate
from lakelog.format.types.cast import show_value
from lakelog.format.types.schema import TableSchema
from lakelog.options.declared.tables import BUCKET_KEY
from lakelog.options.values import TableOptions

_MAX_KEYS: Final = 100_000
"""The most keys that are hashed to find their buckets, in some milliseconds; more keys lie in all buckets anyway."""

RowIndices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Routing:
    """The routing of a table's rows. Picklable.

    Args:
        schema: The table's columns.
        bucket_count: -1: the table has no buckets, all rows are in bucket 0.
        bucket_key: The columns that are hashed; empty without buckets.
    """

    schema: TableSchema
    bucket_count: int
    bucket_key: tuple[str, ...]


@dataclass(frozen=True)
class RoutedRows:
    """The rows of one partition's bucket.

    Args:
        partition: Encoded partition values.
        bucket: The bucket.
        indices: Its rows' indices, rising; None: all rows.
    """

    partition: bytes
    bucket: int
    indices: RowIndices | None


def to_routing(schema: TableSchema, options: TableOptions) -> Routing:
    """The routing of a table. Pure."""
    bucket_count = options.bucket_count(bool(schema.primary_key))
    bucket_key = (options.get(BUCKET_KEY) or schema.trimmed_key) if bucket_count > 0 else ()
    return Routing(schema, bucket_count, bucket_key)


def route_rows(table: pa.Table, routing: Routing) -> list[RoutedRows]:
    """Splits rows by partition and bucket. Pure; sorts numbers, never loops over rows.

    Args:
        table: A table with the table's columns, in their types.
        routing: The table's routing.

    Returns:
        Partitions in the order in which they first appear, their buckets rising; none for no rows.
    """
    if table.num_rows == 0:
        return []
    partitions, codes = _number_partitions(table, routing.schema.partition_by)
    buckets = max(1, routing.bucket_count)
    if buckets > 1:
        columns = [table.column(name) for name in routing.bucket_key]
        codes = codes * buckets + assign_buckets(columns, buckets)
    elif len(partitions) == 1:
        return [RoutedRows(partitions[0], 0, None)]
    # Few groups fit into 16 bits, where numpy sorts by radix in a few nanoseconds a row.
    small = codes.astype(np.uint16) if len(partitions) * buckets <= 1 << 16 else codes
    order = np.argsort(small, kind="stable")
    sorted_codes = codes[order]
    starts = np.flatnonzero(np.concatenate([[True], sorted_codes[1:] != sorted_codes[:-1]]))
    found = sorted_codes[starts]
    if len(found) == 1:
        return [RoutedRows(partitions[int(found[0]) // buckets], int(found[0]) % buckets, None)]
    return [
        RoutedRows(partitions[int(code) // buckets], int(code) % buckets, indices)
        for code, indices in zip(found, np.split(order, starts[1:]), strict=True)
    ]


def order_by_key(table: pa.Table, routed: RoutedRows, key: Sequence[str]) -> RowIndices:
    """The positions of a bucket's rows by key; rows of one key stay in order. Pure; no NULLs in the key."""
    indices: RowIndices = np.arange(table.num_rows) if routed.indices is None else routed.indices
    keys = table.select(list(key))
    if routed.indices is not None:
        keys = keys.take(pa.array(indices))
    ordered: RowIndices = indices[np.argsort(comparable_keys(keys.columns), kind="stable")]
    return ordered


def find_buckets(predicate: Predicate | None, routing: Routing) -> tuple[int, ...]:
    """Returns the buckets in which rows that fulfil a predicate can lie, rising; none: in any. Pure.

    Only conditions that give each column of the bucket key some values, at most `_MAX_KEYS` together, narrow them.
    """
    if routing.bucket_count <= 1:
        return ()
    keys = _find_values(predicate, routing.schema, routing.bucket_key, _MAX_KEYS)
    return () if keys is None else tuple(np.unique(assign_buckets(keys, routing.bucket_count)).tolist())


def find_places(predicate: Predicate | None, routing: Routing) -> Places | None:
    """Returns where rows that fulfil a predicate can lie, also rows that do not exist yet; None: anywhere. Pure.

    Only conditions that give each partition column some values, and may give so to the bucket key, narrow it.
    """
    schema = routing.schema
    columns = _find_values(predicate, schema, schema.partition_by, MAX_GUARDED_PLACES)
    if columns is None:
        return None
    partitions = encode_rows(columns).to_pylist() if columns else [b""]
    # No row has a longer one.
    partitions = [each for each in partitions if len(each) <= MAX_PARTITION_BYTES]
    buckets = find_buckets(predicate, routing)
    if len(partitions) * max(1, len(buckets)) > MAX_GUARDED_PLACES:
        return None
    if buckets:
        return Places(buckets=frozenset(BucketRef(each, bucket) for each in partitions for bucket in buckets))
    return Places(partitions=frozenset(partitions)) if columns else None


def _find_values(
    predicate: Predicate | None, schema: TableSchema, names: Sequence[str], most: int
) -> list[pa.Array] | None:
    """All combinations of values that a predicate allows in some columns, column by column; None: any, or too many."""
    if not names:
        return []
    conditions = predicate.operands if isinstance(predicate, AllOf) else (predicate,)
    allowed = {
        each.field_id: each.values
        for each in reversed(conditions)
        if isinstance(each, Comparison) and each.operator is Operator.IN
    }
    if any(schema.field_ids[name] not in allowed for name in names):
        return None
    columns = [decode_values(allowed[schema.field_ids[name]], schema.arrow.field(name).type) for name in names]
    if math.prod(len(values) for values in columns) > most:
        return None
    places = np.indices([len(values) for values in columns]).reshape(len(columns), -1)
    return [values.take(pa.array(chosen)) for values, chosen in zip(columns, places, strict=True)]


def _number_partitions(table: pa.Table, partition_by: tuple[str, ...]) -> tuple[list[bytes], RowIndices]:
    """Returns the encoded partitions in order of appearance, and for each row the number of its partition."""
    codes = np.zeros(table.num_rows, np.int64)
    if not partition_by:
        return [b""], codes
    for name in partition_by:
        encoded = single_array(table.column(name)).dictionary_encode(null_encoding="encode")
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
        # Renumbered after each column, so that the product of the columns' counts never overflows.
        _, codes = np.unique(codes, return_inverse=True)
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    by_appearance = np.argsort(first)
    rank = np.empty_like(by_appearance)
    rank[by_appearance] = np.arange(len(first))
    firsts = table.select(list(partition_by)).take(pa.array(first[by_appearance])).combine_chunks()
    partitions = encode_rows([single_array(column) for column in firsts.columns])
    sizes = pc.binary_length(partitions).to_numpy()
    if sizes.max(initial=0) > MAX_PARTITION_BYTES:
        row = int(np.argmax(sizes))
        raise partition_too_large({name: firsts.column(name)[row] for name in partition_by})
    return partitions.to_pylist(), rank[codes]


def partition_too_large(values: Mapping[str, pa.Scalar]) -> InvalidArgument:
    """The error for a partition whose encoding has more than `MAX_PARTITION_BYTES`; names the longest value. Pure."""
    sizes = {name: len(encode_key([value])) for name, value in values.items()}
    name = max(sizes, key=lambda each: sizes[each])
    return InvalidArgument(
        f"Partition column '{name}' has the value {show_value(values[name])} of {sizes[name]} bytes; the values of a "
        f"row's partition columns may have {MAX_PARTITION_BYTES} bytes together. Partition by a shorter value, for "
        "instance a prefix.",
        reason="VALUE_MISMATCH",
        metadata={"column": name},
    )
