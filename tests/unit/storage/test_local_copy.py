"""Copies are looked up in against a dict of the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import DataCorrupted
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.storage.lookup import local_copy, sought_keys
from lakelog.storage.lookup.local_copy import LocalCopy, read_file, write_copy
from lakelog.storage.lookup.sought_keys import SoughtKeys
from lakelog.storage.objects.memory import MemoryStore
from lakelog.storage.parquet.reader import DataFileReader

from .data_files import read_bytes, replace_bytes, write_data_file

KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [*range(-50, 1000, 3)]),
    "long": (pa.int64(), [-(2**63), -5, 0, 7, 2**62, 2**63 - 1]),
    "text": (pa.string(), sorted(f"{n:x}" * (n % 5) for n in range(1, 400))[80:]),
}


def make_copy(folder: Path, table: pa.Table, key: tuple[str, ...], names: list[str] | None = None) -> LocalCopy:
    fields = [pa.field(field.name, field.type, field.name not in key) for field in table.schema]
    schema = TableSchema(0, assign_field_ids(pa.schema(fields)), primary_key=key, partition_by=())
    store = MemoryStore()
    file = write_data_file(store, "data/1/f", schema, table.cast(schema.arrow), row_group_rows=64)
    copied = [schema.arrow.field(name) for name in names or table.schema.names]
    with DataFileReader(store, file) as reader:
        write_copy(read_file(reader), copied, key, folder / "copy")
    return LocalCopy(folder / "copy")


def find(copy: LocalCopy, keys: pa.Table) -> np.ndarray:
    return copy.find(SoughtKeys(keys), np.arange(keys.num_rows))


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakelog.storage.parquet.reader.BATCH_ROWS", 17)


@pytest.mark.parametrize("kind", ["int", "long", "text"])
def test_each_key_is_found_where_it_stands(kind: str, tmp_path: Path) -> None:
    data_type, values = KEYS[kind]
    values = sorted(set(values), key=lambda value: value.encode() if isinstance(value, str) else value)
    table = pa.table({"k": pa.array(values, data_type), "v": [f"v{value}" for value in values]})
    copy = make_copy(tmp_path, table, ("k",))
    wanted = [*values[::-2], values[0], values[-1]]
    absent = ["~", "", "zz"] if kind == "text" else [-49, 1, 2000]
    mixed = [each for pair in zip(wanted, absent * len(wanted), strict=False) for each in pair]
    found = find(copy, pa.table({"k": pa.array(mixed, data_type)}))
    assert found.tolist() == [values.index(each) if each in values else -1 for each in mixed]
    hit = found[found >= 0]
    assert copy.take(hit, [pa.field("v", pa.null())]).column("v").to_pylist() == [f"v{values[place]}" for place in hit]


def test_keys_of_several_columns(tmp_path: Path) -> None:
    rows = [(a, b) for a in range(30) for b in ("", "x", "y\x00")]
    table = pa.table({"a": [a for a, _ in rows], "b": [b for _, b in rows], "v": list(range(len(rows)))})
    copy = make_copy(tmp_path, table, ("a", "b"))
    keys = pa.table({"a": [29, 0, 30, 5], "b": ["y\x00", "", "x", "z"]})
    assert find(copy, keys).tolist() == [89, 0, -1, -1]
    assert copy.row_count == 90
    assert copy.column_names == {"a", "b", "v"}


@pytest.mark.parametrize("different", [1, 7])
def test_keys_of_one_code_are_distinguished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, different: int) -> None:
    """Codes that collide, many of them across batches, cost time and never an answer."""

    def poor_codes(columns: list[pa.Array]) -> np.ndarray:
        return np.array([len(value) % different for value in columns[0].to_pylist()], np.int64)

    monkeypatch.setattr(local_copy, "find_key_codes", poor_codes)
    monkeypatch.setattr(sought_keys, "find_key_codes", poor_codes)
    values = sorted("k" * (n % 9) + f"{n}" for n in range(100))
    copy = make_copy(tmp_path, pa.table({"k": values, "v": list(range(100))}), ("k",))
    wanted = [*values[::-3], "none", "k"]
    assert find(copy, pa.table({"k": wanted})).tolist() == [*[values.index(v) for v in values[::-3]], -1, -1]


def test_a_copy_may_hold_some_columns_only(tmp_path: Path) -> None:
    table = pa.table({"k": [1, 2], "v": ["a", "b"], "w": [1.5, None]})
    copy = make_copy(tmp_path, table, ("k",), ["w", "k"])
    assert copy.column_names == {"k", "w"}
    assert copy.take(np.array([1, 0, 1]), [pa.field("w", pa.null()), pa.field("k", pa.null())]).to_pydict() == {
        "w": [None, 1.5, None],
        "k": [2, 1, 2],
    }


def test_no_rows_and_no_keys(tmp_path: Path) -> None:
    for name, data_type in (("int", pa.int64()), ("text", pa.string())):
        folder = tmp_path / name
        folder.mkdir()
        empty = make_copy(folder, pa.table({"k": pa.array([], data_type)}), ("k",))
        key = pa.array([1], pa.int64()).cast(data_type)
        assert find(empty, pa.table({"k": key})).tolist() == [-1]
        assert find(empty, pa.table({"k": key.slice(0, 0)})).tolist() == []
        assert empty.take(np.array([], np.int64), [pa.field("k", data_type)]).num_rows == 0


def test_a_copy_works_without_its_file_and_its_rows_without_it(tmp_path: Path) -> None:
    copy = make_copy(tmp_path, pa.table({"k": list(range(100)), "v": [str(n) for n in range(100)]}), ("k",))
    (tmp_path / "copy").unlink()
    rows = copy.take(np.arange(99, -1, -1), [pa.field("v", pa.null())])
    del copy
    assert rows.column("v").to_pylist() == [str(n) for n in range(99, -1, -1)]


def test_a_copy_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    store = MemoryStore()
    schema = TableSchema(0, assign_field_ids(pa.schema([pa.field("k", pa.int64(), False)])), ("k",), ())
    table = pa.table({"k": list(range(1000))}, schema=schema.arrow)
    file = write_data_file(store, "data/1/f", schema, table, row_group_rows=100)
    content = bytearray(read_bytes(store, file.path))
    content[len(content) // 2] ^= 0xFF
    with DataFileReader(replace_bytes(store, file.path, bytes(content)), file) as reader, pytest.raises(DataCorrupted):
        write_copy(read_file(reader), list(schema.arrow), ("k",), tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


def test_half_a_copy_is_noticed(tmp_path: Path) -> None:
    make_copy(tmp_path, pa.table({"k": list(range(1000))}), ("k",))
    path = tmp_path / "copy"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(pa.ArrowInvalid):
        LocalCopy(path)


def test_no_byte_of_a_copy_can_change_unnoticed(tmp_path: Path) -> None:
    make_copy(tmp_path, pa.table({"k": list(range(100)), "v": [f"v{n}" for n in range(100)]}), ("k",))
    path = tmp_path / "copy"
    whole = path.read_bytes()
    for at in (*range(0, len(whole), 7), len(whole) - 1):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        with pytest.raises(pa.ArrowInvalid):
            LocalCopy(path)
    path.write_bytes(whole)
    assert LocalCopy(path).row_count == 100


@pytest.mark.parametrize("kind", ["int", "text"])
def test_what_the_filter_leaves_out_is_not_searched(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = sorted((f"{n}" for n in range(0, 3000, 3)), key=str) if kind == "text" else list(range(0, 3000, 3))
    others = [f"{n}" for n in range(1, 3000, 3)] if kind == "text" else list(range(1, 3000, 3))
    copy = make_copy(tmp_path, pa.table({"k": values}), ("k",))
    searched: list[int] = []
    search = LocalCopy._search

    def count(self: LocalCopy, name: str, codes: np.ndarray) -> np.ndarray:
        searched.append(len(codes))
        return search(self, name, codes)

    monkeypatch.setattr(LocalCopy, "_search", count)
    keys = SoughtKeys(pa.table({"k": [*others, *values[:5]]}))
    found = copy.find(keys, np.arange(len(keys)))
    assert found.tolist() == [-1] * len(others) + list(range(5))
    assert 5 <= sum(searched) < 30, "about one of 200 comes through"
    assert copy.find(keys, np.array([3, len(others) + 1])).tolist() == [-1, 1]


def test_control_without_a_filter_all_are_searched_and_found_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_copy, "_MAX_FILTERED_ROWS", 99)
    large = make_copy(tmp_path, pa.table({"k": list(range(0, 200, 2))}), ("k",))
    searched: list[int] = []
    search = LocalCopy._search

    def count(self: LocalCopy, name: str, codes: np.ndarray) -> np.ndarray:
        searched.append(len(codes))
        return search(self, name, codes)

    monkeypatch.setattr(LocalCopy, "_search", count)
    found = find(large, pa.table({"k": list(range(200))}))
    assert found.tolist() == [n // 2 if n % 2 == 0 else -1 for n in range(200)]
    assert searched == [200]
