"""Values of partition columns as people write them, and in the form of `--partition`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakelog.format.keys.encoding import decode_partition
from lakelog.format.types.schema import TableSchema
from lakelog.format.types.time_text import to_time_texts


def to_partition_text(schema: pa.Schema, name: str, value: Any) -> str | None:
    """A partition's value in the form of `--partition`; None: NULL. Pure."""
    if value is None:
        return None
    data_type = schema.field(name).type
    if pa.types.is_temporal(data_type):
        return str(to_time_texts(pa.array([value], data_type))[0])
    return str(value).lower() if isinstance(value, bool) else str(value)


def name_bucket(schema: TableSchema, partition: bytes, bucket: int) -> str:
    """A bucket for people, for instance `dt=2024-05-01 bucket 3`. Pure."""
    return f"{name_partition(schema, partition)} bucket {bucket}".lstrip()


def name_partition(schema: TableSchema, partition: bytes) -> str:
    """A partition for people, for instance `dt=2024-05-01,region=NULL`; empty without partition columns. Pure."""
    names = schema.partition_by
    values = decode_partition(partition, [schema.arrow.field(name).type for name in names])
    texts = [to_partition_text(schema.arrow, name, value.as_py()) for name, value in zip(names, values, strict=True)]
    return ",".join(f"{name}={'NULL' if text is None else text}" for name, text in zip(names, texts, strict=True))
