"""Few rows of much data: what is opened, what is decoded, and when it is too much."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import DataCorrupted
from lakelog.format.filter.condition import parse_filter
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.options.values import TableOptions
from lakelog.reads.reading import to_scan_columns
from lakelog.storage.merging.deletion_vectors import key_bytes
from lakelog.storage.merging.merge_policy import MergePolicy, to_merge_policy
from lakelog.storage.objects.memory import MemoryStore
from lakelog.storage.parquet import data_files as data_files_module
from lakelog.storage.parquet.data_files import DataFiles
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.reader import DataFileReader
from lakelog.storage.parquet.row_groups import pick_row_groups
from lakelog.storage.scan.file_scan import FileScan, _portion
from lakelog.storage.scan.small_read import read_if_small

from .data_files import write_data_file

SCHEMA = TableSchema(
    0,
    assign_field_ids(
        pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64()), pa.field("t", pa.string())])
    ),
    primary_key=("id",),
)
POLICY = to_merge_policy(SCHEMA, TableOptions({}))
PLENTY = 1 << 30


def make_bucket() -> tuple[MemoryStore, list[LiveFile]]:
    """5000 keys of version 0, every third one superseded by version 1; five and two row groups."""
    store = MemoryStore()
    files = []
    for version, ids in enumerate((np.arange(5000), np.arange(0, 5000, 3))):
        table = pa.table({"id": ids, "v": np.full(len(ids), version), "t": ["x" * 20] * len(ids)}, SCHEMA.arrow)
        files.append(write_data_file(store, f"d/{version}", SCHEMA, table, order=version))
    return store, files


def make_scan(condition: str | None, policy: MergePolicy | None = POLICY) -> FileScan:
    store, files = make_bucket()
    parsed = None if condition is None else parse_filter(condition, SCHEMA.arrow)
    return FileScan(store, files, SCHEMA, to_scan_columns(("id", "v"), SCHEMA, parsed), policy)


def read(
    scan: FileScan, max_files: int = 10, max_read_bytes: int = PLENTY, max_result_bytes: int = PLENTY
) -> pa.Table | None:
    return read_if_small(scan, max_files=max_files, max_read_bytes=max_read_bytes, max_result_bytes=max_result_bytes)


def test_a_range_comes_merged() -> None:
    found = read(make_scan("id between 2998 and 3003"))
    assert found is not None
    assert found.to_pydict() == {"id": [2998, 2999, 3001, 3002, 3000, 3003], "v": [0, 0, 0, 0, 1, 1]}
    nothing = read(make_scan("id = 7000"))
    assert nothing is not None
    assert nothing.num_rows == 0
    assert nothing.schema.names == ["id", "v"]


def test_what_is_too_much_is_not_read() -> None:
    assert read(make_scan("id < 10"), max_files=1) is None
    assert read(make_scan("id < 10"), max_read_bytes=1000) is None
    assert read(make_scan("id < 4000"), max_result_bytes=1000) is None
    # One row group of 1000 rows of each file, 8 bytes a row and little else; all of them are more than three times it.
    assert read(make_scan("id < 10"), max_read_bytes=24_000) is not None
    assert read(make_scan("id < 5000"), max_read_bytes=24_000) is None


def test_only_a_condition_on_the_key_makes_a_read_of_merged_rows_small() -> None:
    """Rows that need not be returned may hide others, so that all keys would have to be merged."""
    assert read(make_scan(None)) is None
    assert read(make_scan("v = 7")) is None
    assert read(make_scan("v = 7", policy=None)) is not None


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of files whose footers are fetched, one a time."""
    paths: list[str] = []

    def open_reader(store: MemoryStore, file: LiveFile, known: Any = None, counts: Any = None) -> DataFileReader:
        if known is None:
            paths.append(file.path)
        return DataFileReader(store, file, known, counts)

    monkeypatch.setattr(data_files_module, "DataFileReader", open_reader)
    return paths


def test_a_footer_is_fetched_once_a_read(fetched: list[str]) -> None:
    scan = make_scan("id between 2998 and 3003")
    assert sum(batch.num_rows for batch in scan.read_batches()) == 6
    assert sorted(fetched) == ["d/0", "d/1"]
    fetched.clear()
    assert read(scan) is not None
    assert sorted(fetched) == ["d/0", "d/1"]


def test_footers_that_are_remembered_stay_in_their_bounds(fetched: list[str]) -> None:
    store, files = make_bucket()
    with DataFileReader(store, files[0]) as reader:
        size_bytes = reader.metadata.serialized_size
    for room_bytes, expected in ((0, [0, 0, 1, 1, 0]), (size_bytes, [0, 1, 0]), (10 * size_bytes, [0, 1])):
        data_files = DataFiles(store, room_bytes)
        for place in (0, 0, 1, 1, 0):
            data_files.open(files[place]).close()
        assert fetched == [f"d/{place}" for place in expected]
        fetched.clear()


@pytest.mark.parametrize(("start", "end"), [(0, 1), (0, 1000), (17, 18), (400, 1000), (999, 1000), (5, 5)])
def test_a_slice_of_a_row_group(start: int, end: int) -> None:
    store, files = make_bucket()
    with DataFileReader(store, files[0]) as reader:
        mapping = reader.map_columns([SCHEMA.arrow.field("id"), SCHEMA.arrow.field("t")])
        rows = pa.Table.from_batches(list(reader.read_slice(2, start, end, mapping)), mapping.schema)
        absent = reader.map_columns([pa.field("new", pa.int64(), metadata={"PARQUET:field_id": "99"})])
        nulls = pa.Table.from_batches(list(reader.read_slice(2, start, end, absent)), absent.schema)
    assert rows.column("id").to_pylist() == list(range(2000 + start, 2000 + end))
    assert nulls.column("new").to_pylist() == [None] * (end - start)


def test_a_slice_that_is_not_there_is_damage() -> None:
    store, files = make_bucket()
    with DataFileReader(store, files[0]) as reader:
        mapping = reader.map_columns([SCHEMA.arrow.field("id")])
        with pytest.raises(DataCorrupted, match="row group 4 holds 1000 rows where the footer says 1001"):
            list(reader.read_slice(4, 0, 1001, mapping))


def test_no_row_after_the_last_wanted_one_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[tuple[int, list[str]]] = []
    original = DataFileReader._decode

    def count(self: DataFileReader, group: int, rows: int, mapping: Any, *more: int) -> Any:
        for batch in original(self, group, rows, mapping, *more):
            decoded.append((batch.num_rows, batch.schema.names))
            yield batch

    monkeypatch.setattr(DataFileReader, "_decode", count)
    assert sum(batch.num_rows for batch in make_scan("id between 1 and 2").read_batches()) == 2
    assert (3, ["v"]) in decoded
    assert (1000, ["v"]) not in decoded


def test_a_portion_is_bounded_by_rows_and_by_bytes() -> None:
    def portions(groups: list[tuple[int, int]], picked: list[int]) -> list[list[int]]:
        made = [SimpleNamespace(num_rows=rows, total_byte_size=size_bytes) for rows, size_bytes in groups]
        return _portion(picked, cast(Any, SimpleNamespace(metadata=SimpleNamespace(row_group=made.__getitem__))))

    assert portions([(32_768, 1 << 20)] * 6, list(range(6))) == [[0, 1, 2, 3], [4, 5]]
    assert portions([(32_768, 20 << 20)] * 3, [0, 1, 2]) == [[0], [1], [2]]
    assert portions([(32_768, 1 << 20)] * 9, [1, 8]) == [[1, 8]]
    assert portions([(1 << 20, 1 << 30)], [0]) == [[0]]
    assert portions([(1, 1)], []) == []


def test_bytes_of_keys() -> None:
    _, files = make_bucket()
    assert key_bytes(files, SCHEMA, POLICY) == 8 * (5000 + 1667)
    by_time = MergePolicy(("id",), ("t",), False, 0)
    assert key_bytes(files, SCHEMA, by_time, 10) == 10 * (8 + 40)


def test_row_groups_without_values_have_no_bounds_but_others_do() -> None:
    store = MemoryStore()
    values = [None] * 1000 + list(range(1000)) + [None] * 999 + [5000]
    table = pa.table({"id": np.arange(3000), "v": values, "t": ["x"] * 3000}, SCHEMA.arrow)
    file = write_data_file(store, "d/n", SCHEMA, table)
    for condition, groups in (("v = 5", [1]), ("v > 4999", [2]), ("v is null", [0, 2]), ("v < 0", [])):
        predicate = parse_filter(condition, SCHEMA.arrow).to_predicate(SCHEMA.field_ids)
        with DataFileReader(store, file) as reader:
            assert pick_row_groups(reader, SCHEMA.arrow, predicate) == groups
