"""Sorted runs of a table over which deletion vectors are built."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa

from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.options.values import TableOptions
from lakelog.storage.merging.merge_policy import to_merge_policy
from lakelog.storage.objects.memory import MemoryStore
from lakelog.storage.parquet.live_file import LiveFile
from tests.unit.storage.data_files import write_data_file

SCHEMA = TableSchema(
    0,
    assign_field_ids(
        pa.schema(
            [
                pa.field("part", pa.string(), nullable=False),
                pa.field("id", pa.int64(), nullable=False),
                pa.field("sub", pa.string(), nullable=False),
                pa.field("seq", pa.int32()),
                pa.field("v", pa.string()),
            ]
        )
    ),
    primary_key=("part", "id", "sub"),
    partition_by=("part",),
)

POLICY = to_merge_policy(SCHEMA, TableOptions({}))

INSERT, DELETE = 0, 3


def key_bytes(number: int) -> bytes:
    return number.to_bytes(8, "big")


def write_run(store: MemoryStore, order: int, ids: list[int], kinds: list[int] | None = None) -> LiveFile:
    ids = sorted(ids)
    columns = {
        "part": ["p"] * len(ids),
        "id": ids,
        "sub": ["s"] * len(ids),
        "seq": [order] * len(ids),
        "v": [f"{order}"] * len(ids),
    }
    table = pa.table(columns, schema=SCHEMA.arrow)
    if kinds is not None:
        table = table.append_column("_row_kind", pa.array(kinds, pa.int8()))
    file = write_data_file(store, f"data/{order}/f", SCHEMA, table, row_group_rows=7, order=order)
    return dataclasses.replace(file, min_key=key_bytes(ids[0]), max_key=key_bytes(ids[-1]))


def to_lists(found: tuple[np.ndarray | None, ...]) -> list[list[int] | None]:
    return [None if indices is None else indices.tolist() for indices in found]
