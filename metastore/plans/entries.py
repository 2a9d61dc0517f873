"""File entries as Arrow tables: the form in which plans and packed chunks hold facts about files."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from lakelog.format.tables.files import FILE_SCHEMA, STATISTICS_FIELD

ENTRY_SCHEMA: Final = FILE_SCHEMA.append(STATISTICS_FIELD)
"""Entries with their encoded statistics."""

_SORT_KEYS: Final = [
    ("partition", "ascending"),
    ("bucket", "ascending"),
    ("order_snapshot", "ascending"),
    ("order_ordinal", "ascending"),
    # All files that a compaction writes into one bucket have one place; they stay in the order of the commit.
    ("file_id", "ascending"),
]

_MIN_COMPRESSED: Final = 64
"""Entries from which compression pays: below it a message is small anyway."""


def sort_entries(entries: pa.Table) -> pa.Table:
    """Sorts entries into the order of a plan: partition, bucket, place in the order."""
    if entries.num_rows < 2:
        return entries
    return entries.sort_by(_SORT_KEYS)


def write_entries(entries: pa.Table) -> bytes:
    """Entries as an Arrow IPC stream of one batch; buffers of larger ones are compressed."""
    codec = "zstd" if entries.num_rows >= _MIN_COMPRESSED else None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, entries.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(entries.combine_chunks())
    return sink.getvalue().to_pybytes()


def read_entries(data: bytes) -> pa.Table:
    """Reads what `write_entries` wrote."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()
