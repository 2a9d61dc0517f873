"""Data files for tests: written with the product's own writer into a store in memory."""

from __future__ import annotations

import pyarrow as pa

from lakelog.format.types.schema import TableSchema
from lakelog.storage.objects.memory import MemoryStore
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.writer import DataFileWriter, plan_encoding, plan_file_schema


def write_data_file(
    store: ObjectStore, path: str, schema: TableSchema, table: pa.Table, *, row_group_rows: int = 1000, order: int = 1
) -> LiveFile:
    """Writes `table`, whose columns are the schema's and perhaps `_row_kind`; returns what a plan would say."""
    file_schema = plan_file_schema(schema, "_row_kind" in table.schema.names)
    table = pa.Table.from_arrays(table.columns, schema=file_schema)
    writer = DataFileWriter(store, path, file_schema, plan_encoding(table, "zstd"))
    for start in range(0, table.num_rows, row_group_rows):
        writer.write(table.slice(start, row_group_rows))
    size_bytes = writer.finish()
    kinds = table.column("_row_kind").to_pylist() if "_row_kind" in table.schema.names else []
    return LiveFile(
        file_id=order,
        path=path,
        partition=b"",
        bucket=0,
        level=0,
        row_count=table.num_rows,
        delete_count=sum(kind in (1, 3) for kind in kinds),
        size_bytes=size_bytes,
        min_key=None,
        max_key=None,
        schema_id=schema.schema_id,
        added_snapshot=order,
        order_snapshot=order,
        order_ordinal=0,
        order_time_ms=1000 * order,
    )


def replace_bytes(store: MemoryStore, path: str, data: bytes) -> MemoryStore:
    """A store that holds other bytes under the same path."""
    other = MemoryStore("damaged")
    writer = other.create(path)
    writer.sink.write(data)
    writer.commit()
    return other


def read_bytes(store: ObjectStore, path: str) -> bytes:
    """All of an object."""
    with store.open_input(path) as source:
        data: bytes = source.read()
        return data
