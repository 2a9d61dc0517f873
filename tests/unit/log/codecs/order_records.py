"""Records of a table of orders, and what is in them."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa

from lakelog.format.merge.equality import equal_rows
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.log.codecs.codec import EncodedChunk, LogCodec

TIMES: dict[str, Any] = {"snapshot_id": 7, "ts_ms": 1700000000123, "bucket": 2, "is_last": True}


def make_schema(*fields: pa.Field, key: tuple[str, ...] = ("id",)) -> TableSchema:
    return TableSchema(0, assign_field_ids(pa.schema(fields)), key)


ORDERS = make_schema(
    pa.field("dt", pa.date32(), False), pa.field("id", pa.int64(), False), pa.field("v", pa.string()), key=("id", "dt")
)

DAY = date(2026, 1, 31)


def encode(
    codec: LogCodec, rows: list[tuple[Any, ...]], kinds: list[int], first: int = 0, **others: Any
) -> EncodedChunk:
    names = codec.schema.arrow.names
    table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], codec.schema.arrow)
    return codec.encode(table, np.array(kinds, dtype=np.int8), first, partition=2, **{**TIMES, **others})


def same_rows(found: pa.Table, expected: pa.Table) -> bool:
    return bool(equal_rows(found.combine_chunks(), expected.combine_chunks(), expected.column_names).all())
