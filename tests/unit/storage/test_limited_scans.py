"""Reads of a few rows: the first ones of the whole read, and little is decoded besides them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.storage.merging.merge_policy import MergePolicy
from lakelog.storage.objects.memory import MemoryStore
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.read_counts import ReadCounts
from lakelog.storage.parquet.reader import DataFileReader
from lakelog.storage.scan import file_scan
from lakelog.storage.scan.file_scan import FileScan, ScanColumns

from .data_files import write_data_file

SCHEMA = TableSchema(
    0, assign_field_ids(pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])), ("id",)
)
POLICY = MergePolicy(("id",), (), False, 0)
FILES = 10
GROUPS = 4


def make(order: int, ids: np.ndarray[Any, Any], store: MemoryStore) -> LiveFile:
    table = pa.table({"id": ids, "v": [f"{order} {number}" for number in ids]}, schema=SCHEMA.arrow)
    return write_data_file(store, f"data/{order}/f", SCHEMA, table, row_group_rows=1000, order=order)


@pytest.fixture(scope="module")
def files() -> tuple[MemoryStore, list[LiveFile]]:
    """Files of four row groups of 1000 rows; each replaces half of the rows of the one before."""
    store = MemoryStore()
    starts = range(0, FILES * 2000, 2000)
    return store, [make(order, np.arange(start, start + 4000), store) for order, start in enumerate(starts, 1)]


def scan(files: tuple[MemoryStore, Sequence[LiveFile]], policy: MergePolicy | None) -> FileScan:
    columns = ScanColumns(tuple(SCHEMA.arrow), ("v", "id"))
    return FileScan(files[0], files[1], SCHEMA, columns, policy, threads=2)


def read(rows: FileScan, limit: int | None) -> list[dict[str, Any]]:
    found = pa.Table.from_batches(list(rows.read_batches(limit=limit)), rows.returned_schema).to_pylist()
    return found if limit is None else found[:limit]


@pytest.mark.parametrize("count", [1, 2, FILES])
@pytest.mark.parametrize("policy", [None, POLICY], ids=["appended", "keyed"])
@pytest.mark.parametrize("limit", [0, 1, 2, 999, 1000, 1001, 2500, 9000, 10**6])
def test_the_first_rows_are_those_of_the_whole_read(
    files: tuple[MemoryStore, list[LiveFile]], count: int, policy: MergePolicy | None, limit: int
) -> None:
    rows = scan((files[0], files[1][:count]), policy)
    assert read(rows, limit) == read(rows, None)[:limit]


@pytest.mark.parametrize("policy", [None, POLICY], ids=["appended", "keyed"])
def test_without_a_condition_only_wanted_rows_are_decoded(
    files: tuple[MemoryStore, list[LiveFile]], policy: MergePolicy | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[int] = []
    original = DataFileReader._decode

    def count(self: DataFileReader, group: int, rows: int, mapping: Any, *more: int) -> Any:
        for batch in original(self, group, rows, mapping, *more):
            if "v" in batch.schema.names:
                decoded.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(DataFileReader, "_decode", count)
    counts = ReadCounts()
    rows = scan(files, policy).counted_by(counts)
    assert len(read(rows, 5)) == 5
    assert sum(decoded) == 5
    assert counts.metrics.row_groups_read == 1
    assert counts.metrics.files_opened <= 3
    # Control: without a limit, a caller that takes five rows has far more decoded for it.
    next(rows.read_batches())
    assert sum(decoded) > 1000


def test_with_a_condition_row_groups_are_read_until_there_are_enough(
    files: tuple[MemoryStore, list[LiveFile]],
) -> None:
    counts = ReadCounts()
    columns = ScanColumns(tuple(SCHEMA.arrow), ("id",), filter=pc.field("id") >= 500, filter_columns=("id",))
    rows = FileScan(files[0], files[1], SCHEMA, columns, None, threads=2)
    everything = read(rows, None)
    taken = []
    batches = rows.counted_by(counts).read_batches(limit=700)
    for batch in batches:
        taken += batch.to_pylist()
        if len(taken) >= 700:
            break
    batches.close()  # type: ignore[attr-defined]
    assert taken[:700] == everything[:700]
    assert counts.metrics.row_groups_read < FILES * GROUPS / 2


def test_a_portion_that_is_too_large_is_read_when_it_is_wanted(
    files: tuple[MemoryStore, list[LiveFile]], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = read(scan(files, POLICY), None)
    monkeypatch.setattr(file_scan, "DECODED_BYTES", 10_000)
    counts = ReadCounts()
    rows = scan(files, POLICY)
    batches = rows.counted_by(counts).read_batches()
    next(batches)
    # One for each portion that is ahead, and not all four of each.
    assert counts.metrics.row_groups_read <= 2 * (rows.threads + 2)
    batches.close()  # type: ignore[attr-defined]
    assert read(rows, None) == whole


def test_columns_of_a_condition_that_are_too_large_are_read_again(
    files: tuple[MemoryStore, list[LiveFile]], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = ScanColumns(tuple(SCHEMA.arrow), ("v", "id"), filter=pc.field("id") >= 500, filter_columns=("id",))
    rows = FileScan(files[0], files[1], SCHEMA, columns, POLICY, threads=2)
    whole = read(rows, None)
    monkeypatch.setattr(file_scan, "DECODED_BYTES", 1000)
    assert read(rows, None) == whole
    assert read(rows, 700) == whole[:700]
