"""Lookups against a slow model: the records of each key, folded as semantics 1.3 says."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import DataCorrupted
from lakelog.format.keys.encoding import encode_key, lower_bound, upper_bound
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.storage.lookup.copy_cache import CacheLimits, CopyCache
from lakelog.storage.lookup.key_lookup import KeyLookup
from lakelog.storage.merging.merge_policy import MergePolicy
from lakelog.storage.objects.memory import MemoryStore
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.writer import plan_file_schema

from .data_files import read_bytes, replace_bytes, write_data_file

LIMITS = CacheLimits(None, 1 << 30, 3_600_000)
KEY_TYPES: dict[str, list[tuple[pa.DataType, st.SearchStrategy[Any]]]] = {
    "long": [(pa.int64(), st.integers(-20, 20))],
    "text": [(pa.string(), st.text("ab\x00", max_size=3))],
    "two": [(pa.int32(), st.integers(-2, 2)), (pa.string(), st.text("ab", max_size=2))],
}

Row = tuple[tuple[Any, ...], int | None, str, int]


def make_schema(types: list[pa.DataType]) -> TableSchema:
    key = [pa.field(f"k{i}", data_type, False) for i, data_type in enumerate(types)]
    fields = assign_field_ids(pa.schema([*key, pa.field("s", pa.int64()), pa.field("v", pa.string())]))
    return TableSchema(0, fields, tuple(field.name for field in key), ())


def rank_of(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(part.encode() if isinstance(part, str) else part for part in key)


def write_file(store: MemoryStore, schema: TableSchema, rows: list[Row], order: int) -> LiveFile:
    """Rows of one commit, one row a key, as a sorted file; only with kinds where there is a delete."""
    rows = sorted({row[0]: row for row in rows}.values(), key=lambda row: rank_of(row[0]))
    columns = [[row[0][i] for row in rows] for i in range(len(schema.primary_key))]
    columns += [[row[1] for row in rows], [row[2] for row in rows]]
    fields = plan_file_schema(schema, with_row_kind=False)
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, fields, strict=True)], schema=fields)
    if any(row[3] for row in rows):
        table = table.append_column("_row_kind", pa.array([row[3] for row in rows], pa.int8()))
    file = write_data_file(store, f"data/{order}/f", schema, table, row_group_rows=4, order=order)
    if not rows:
        return file
    ends = [
        encode_key([pa.scalar(v, f.type) for v, f in zip(row[0], fields, strict=False)]) for row in (rows[0], rows[-1])
    ]
    return dataclasses.replace(file, min_key=lower_bound(ends[0]), max_key=upper_bound(ends[1]))


def fold(commits: list[list[Row]], policy: MergePolicy, until: int) -> dict[tuple[Any, ...], tuple[Row, int]]:
    state: dict[tuple[Any, ...], tuple[Row, int]] = {}
    for number, rows in enumerate(commits[:until]):
        for row in {row[0]: row for row in rows}.values():
            old = state.get(row[0])
            if policy.sequence and old is not None:
                new_rank, old_rank = [(r[1] is not None, r[1] or 0) for r in (row, old[0])]
                expired = old[0][3] and 1000 * (number + 1) - old[1] > policy.delete_retention_ms
                if new_rank < old_rank and not expired:
                    continue
            state[row[0]] = (row, 1000 * (number + 1))
    return state


@pytest.mark.parametrize("kind", KEY_TYPES)
@given(data=st.data())
def test_each_key_is_decided_as_a_read_decides_it(
    kind: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    schema = make_schema([data_type for data_type, _ in KEY_TYPES[kind]])
    keys = st.tuples(*(values for _, values in KEY_TYPES[kind]))
    row = st.tuples(keys, st.none() | st.integers(0, 3), st.sampled_from(["", "x"]), st.sampled_from([0, 0, 0, 3]))
    commits = data.draw(st.lists(st.lists(row, max_size=12), max_size=5))
    sequence = data.draw(st.sampled_from([(), ("s",)]))
    policy = MergePolicy(schema.trimmed_key, sequence, False, data.draw(st.sampled_from([0, 2000, 10**6])))
    store = MemoryStore()
    files = [write_file(store, schema, rows, number + 1) for number, rows in enumerate(commits)]
    wanted = sorted(set(data.draw(st.lists(keys, max_size=10))), key=rank_of)
    table = pa.table(
        [pa.array([key[i] for key in wanted], schema.arrow.field(i).type) for i in range(len(schema.primary_key))],
        names=list(schema.primary_key),
    )
    cache = CopyCache(tmp_path_factory.mktemp("copies"), LIMITS)
    fields = list(plan_file_schema(schema, with_row_kind=False))
    # Direct at first, later from copies.
    for _ in range(4):
        records = KeyLookup(store, schema, policy, cache, fields).find(files, table)
        found = records.run
        expected = fold(commits, policy, len(commits))
        assert found.table.to_pylist() == [
            dict(zip(schema.primary_key, key, strict=True))
            | {"s": row[1], "v": row[2], "_row_kind": row[3], "_commit_timestamp": time}
            for key, (row, time) in ((key, expected[key]) for key in wanted if key in expected)
        ]
        places = zip(records.files.tolist(), records.indices.tolist(), strict=True)
        for key, (number, position) in zip([key for key in wanted if key in expected], places, strict=True):
            in_file = sorted({row[0]: row for row in commits[number]}.values(), key=lambda each: rank_of(each[0]))
            assert (in_file[position], 1000 * (number + 1)) == expected[key]


def number_keys(*numbers: int) -> pa.Table:
    return pa.table({"k0": pa.array(numbers, pa.int64())})


def test_files_whose_key_range_has_none_of_the_keys_are_not_opened(tmp_path: Path) -> None:
    schema = make_schema([pa.int64()])
    store = MemoryStore()
    near, far = (
        write_file(store, schema, [((n,), 0, "", 0) for n in ids], i) for i, ids in ((1, (1, 5)), (2, (9, 12)))
    )
    store.delete_many([far.path])
    policy = MergePolicy(("k0",), (), False, 0)
    lookup = KeyLookup(store, schema, policy, CopyCache(tmp_path, LIMITS), list(schema.arrow))
    assert lookup.find([near, far], number_keys(0, 1, 3, 8, 13)).run.table.column("k0").to_pylist() == [1]
    with pytest.raises(DataCorrupted, match="is missing"):
        lookup.find([near, far], number_keys(10))


def test_a_file_is_copied_when_reading_it_directly_has_cost_as_much(tmp_path: Path) -> None:
    schema = make_schema([pa.int64()])
    store = MemoryStore()
    file = write_file(store, schema, [((n,), n, f"value {n * n}", 0) for n in range(400)], 1)
    cache = CopyCache(tmp_path, LIMITS)
    lookup = KeyLookup(store, schema, MergePolicy(("k0",), (), False, 0), cache, list(schema.arrow))
    lookups = 0
    while cache.statistics.copies_made == 0:
        lookups += 1
        assert lookup.find([file], number_keys(lookups)).run.table.column("v").to_pylist() == [f"value {lookups**2}"]
        assert lookups < 2000
    assert lookups > 10
    assert 0 < cache.statistics.direct_bytes <= file.size_bytes
    # From now on the data file itself is not needed.
    store.delete_many([file.path])
    assert lookup.find([file], number_keys(399)).run.table.num_rows == 1
    assert cache.statistics.hits == 1


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    schema = make_schema([pa.int64()])
    store = MemoryStore()
    file = write_file(store, schema, [((n,), n, "x" * n, 0) for n in range(100)], 1)
    content = bytearray(read_bytes(store, file.path))
    content[40:60] = bytes(20)
    damaged = replace_bytes(store, file.path, bytes(content))
    lookup = KeyLookup(
        damaged, schema, MergePolicy(("k0",), (), False, 0), CopyCache(tmp_path, LIMITS), list(schema.arrow)
    )
    with pytest.raises(DataCorrupted, match=file.path):
        lookup.find([file], number_keys(*range(100)))


def test_rows_of_a_copy_that_was_made_again_are_as_files_store_them(tmp_path: Path) -> None:
    fields = [pa.field("k", pa.int64(), False), pa.field("a", pa.int64(), False), pa.field("b", pa.int64(), False)]
    schema = TableSchema(0, assign_field_ids(pa.schema(fields)), ("k",))
    stored = plan_file_schema(schema, with_row_kind=False)
    store = MemoryStore()
    file = write_data_file(store, "data/1/f", schema, pa.table([[1], [2], [3]], schema=stored))
    cache = CopyCache(tmp_path, LIMITS)
    for names in (["k", "a"], ["k", "b"]):
        cache.obtain(store, file, schema, [stored.field(name) for name in names], ["k"])
    found = KeyLookup(store, schema, MergePolicy(("k",), (), False, 0), cache, list(stored)).find(
        [file], pa.table({"k": [1]})
    )
    assert [field.nullable for field in pa.table(found.run.table).schema][:3] == [False, True, True]
