"""Partitions as text."""

from __future__ import annotations

import pyarrow as pa

from lakelog.format.types.schema import TableSchema
from lakelog.system_tables.metadata.encoded import decode_partitions


def to_partition_text(encoded: pa.Array | pa.ChunkedArray, schema: TableSchema) -> list[str]:
    """`dt=2024-05-01, region=eu` for each; empty in a table without partitions. Pure."""
    found = decode_partitions(encoded, schema).to_pylist()
    return [
        ""
        if each is None
        else ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in each.items())
        for each in found
    ]
