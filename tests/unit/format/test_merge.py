"""The merge kernels against a slow model: a dict and the rule of semantics 1.3, row by row."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import DataCorrupted, InvalidArgument
from lakelog.format.keys.ordering import comparable_keys
from lakelog.format.merge.runs import MergeRun, find_deleted_rows, merge_batch

RETRACTS = (1, 3)


@dataclass
class Row:
    key: tuple[Any, ...]
    sequence: tuple[Any, ...]
    kind: int
    time: int
    place: tuple[int, int]


def rank(value: Any, descending: bool) -> tuple[float, Any]:
    if value is None:
        return (0, 0)
    if isinstance(value, float) and math.isnan(value):
        return (0.5 if descending else 2, 0)
    return (1, -value if descending else value)


def model(
    runs: list[list[Row]],
    descending: bool = False,
    retention: int = 10,
    keep_deletes: bool = False,
    keep_first: bool = False,
) -> list[list[int]]:
    """Fold the rows one by one, as the rule says it, and return what is not left."""
    state: dict[tuple[Any, ...], Row] = {}
    for run in runs:
        for row in run:
            old = state.get(row.key)
            if old is not None:
                new_rank = [rank(value, descending) for value in row.sequence]
                old_rank = [rank(value, descending) for value in old.sequence]
                expired = old.kind in RETRACTS and row.time - old.time > retention
                if keep_first or (new_rank < old_rank and not expired):
                    continue
            state[row.key] = row
    left = {row.place for row in state.values() if keep_deletes or row.kind not in RETRACTS}
    return [[row.place[1] for row in run if row.place not in left] for run in runs]


def to_runs(runs: list[list[Row]], key_types: list[pa.DataType], sequence_types: list[pa.DataType]) -> list[MergeRun]:
    made = []
    for run in runs:
        columns: dict[str, pa.Array] = {f"k{i}": pa.array([r.key[i] for r in run], t) for i, t in enumerate(key_types)}
        columns |= {f"s{i}": pa.array([r.sequence[i] for r in run], t) for i, t in enumerate(sequence_types)}
        columns["_row_kind"] = pa.array([r.kind for r in run], pa.int8())
        keys = [row.key for row in run]
        made.append(MergeRun(pa.table(columns), run[0].time if run else 0, sorted_unique=keys == sorted(set(keys))))
    return made


def found(
    runs: list[list[Row]], key_types: list[pa.DataType], sequence_types: list[pa.DataType], **options: Any
) -> Any:
    indices = find_deleted_rows(
        to_runs(runs, key_types, sequence_types),
        [f"k{i}" for i in range(len(key_types))],
        [f"s{i}" for i in range(len(sequence_types))],
        **options,
    )
    assert all(part.dtype == np.int64 for part in indices)
    return [part.tolist() for part in indices]


BASE_DATE = dt.date(2020, 1, 1)
KEYS: dict[str, tuple[list[pa.DataType], st.SearchStrategy[tuple[Any, ...]]]] = {
    "int64": ([pa.int64()], st.tuples(st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1]))),
    "int8": ([pa.int8()], st.tuples(st.integers(-3, 3))),
    "bool": ([pa.bool_()], st.tuples(st.booleans())),
    "date": ([pa.date32()], st.tuples(st.integers(-2, 2).map(lambda d: BASE_DATE + dt.timedelta(d)))),
    "timestamp": (
        [pa.timestamp("us")],
        st.tuples(st.integers(-2, 2).map(lambda d: dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=d))),  # noqa: DTZ001
    ),
    "short decimal": (
        [pa.decimal128(5, 2)],
        st.tuples(st.sampled_from([decimal.Decimal(n) / 100 for n in (-5, 0, 7)])),
    ),
    "long decimal": (
        [pa.decimal128(38, 0)],
        st.tuples(st.sampled_from([decimal.Decimal(n) for n in (-(10**37), -1, 0, 1, 2**64, 2**64 + 1, 10**37)])),
    ),
    "string": (
        [pa.string()],
        st.tuples(st.sampled_from(["", "\0", "a", "a\0", "a\0\0", "ab", "ż", "\U0001f600", "b" * 9])),
    ),
    "fixed string": ([pa.string()], st.tuples(st.sampled_from(["aaaa", "aaab", "baaa", "aa\0\0", "aaa\0"]))),
    "binary": ([pa.binary()], st.tuples(st.sampled_from([b"", b"\0", b"\xff", b"\xff\xff", b"\x00\xff"]))),
    "long string": (
        [pa.string()],
        st.tuples(st.sampled_from(["p" * 80, "p" * 80 + "a", "p" * 80 + "a\0", "q" + "p" * 80, "x", "p" * 300])),
    ),
    "constant prefix": ([pa.string()], st.tuples(st.sampled_from(["p" * 80 + c for c in ("", "a", "b", "ab", "a\0")]))),
    "int, int": ([pa.int32(), pa.int64()], st.tuples(st.integers(-1, 1), st.sampled_from([-(2**62), 0, 2**62]))),
    "string, int": (
        [pa.string(), pa.int16()],
        st.tuples(st.sampled_from(["", "a", "a\0", "aaaaaaaaa"]), st.integers(-1, 1)),
    ),
    "string, string": (
        [pa.string(), pa.string()],
        st.tuples(st.sampled_from(["", "a", "ab", "x" * 90]), st.sampled_from(["", "b", "\0", "bc"])),
    ),
    "constant, bool": ([pa.int64(), pa.bool_()], st.tuples(st.just(5), st.booleans())),
}
SEQUENCES: dict[str, tuple[list[pa.DataType], st.SearchStrategy[tuple[Any, ...]]]] = {
    "none": ([], st.just(())),
    "int": ([pa.int64()], st.tuples(st.integers(0, 3))),
    "nullable int": ([pa.int32()], st.tuples(st.one_of(st.none(), st.integers(-2, 2)))),
    "double": ([pa.float64()], st.tuples(st.sampled_from([None, -1.5, -0.0, 0.0, 2.0, math.inf, math.nan]))),
    "two": ([pa.int8(), pa.int64()], st.tuples(st.one_of(st.none(), st.integers(0, 1)), st.integers(0, 2))),
    "nulls": ([pa.int64()], st.just((None,))),
}


@st.composite
def histories(
    draw: st.DrawFn, keys: st.SearchStrategy[tuple[Any, ...]], sequences: st.SearchStrategy[tuple[Any, ...]]
) -> Any:
    runs: list[list[Row]] = []
    time = 0
    for number in range(draw(st.integers(1, 5))):
        time += draw(st.sampled_from([0, 1, 10, 11, 25]))
        rows = draw(st.lists(st.tuples(keys, sequences, st.integers(0, 3)), max_size=6))
        if draw(st.booleans()):
            rows = [{row[0]: row for row in rows}[key] for key in sorted({row[0] for row in rows})]
        runs.append([Row(row[0], row[1], row[2], time, (number, place)) for place, row in enumerate(rows)])
    return runs


@pytest.mark.parametrize(
    ("key", "sequence"),
    [(key, sequence) for key in KEYS for sequence in ("none", "int")] + [("int8", sequence) for sequence in SEQUENCES],
)
@given(data=st.data())
def test_histories_fold_as_the_model(key: str, sequence: str, data: st.DataObject) -> None:
    key_types, keys = KEYS[key]
    sequence_types, sequences = SEQUENCES[sequence]
    runs = data.draw(histories(keys, sequences))
    descending, keep = data.draw(st.booleans()), data.draw(st.booleans())
    expected = model(runs, descending, 10, keep)
    assert (
        found(
            runs, key_types, sequence_types, sequence_descending=descending, delete_retention_ms=10, keep_deletes=keep
        )
        == expected
    )


@pytest.mark.parametrize("key", KEYS)
@given(data=st.data())
def test_the_first_row_of_a_key_stays_where_it_shall(key: str, data: st.DataObject) -> None:
    key_types, keys = KEYS[key]
    runs = data.draw(histories(keys, st.just(())))
    for row in (row for run in runs for row in run):
        row.kind = 0
    expected = model(runs, keep_first=True)
    assert found(runs, key_types, [], keep_first=True) == expected


@pytest.mark.parametrize("key", KEYS)
@given(data=st.data())
def test_a_merged_batch_is_sorted_and_holds_the_winners(key: str, data: st.DataObject) -> None:
    key_types, keys = KEYS[key]
    run = [
        Row(k, (s,), kind, 0, (0, place))
        for place, (k, s, kind) in enumerate(data.draw(st.lists(st.tuples(keys, st.integers(0, 2), st.integers(0, 3)))))
    ]
    table = to_runs([run], key_types, [pa.int64()])[0].table.append_column("place", pa.array([r.place[1] for r in run]))
    names = [f"k{i}" for i in range(len(key_types))]
    deleted = set(model([run], keep_deletes=True)[0])
    winners = sorted((row.key, row.place[1]) for row in run if row.place[1] not in deleted)
    assert merge_batch(table, names, ["s0"])["place"].to_pylist() == [place for _, place in winners]
    last = {row.key: row.place[1] for row in run}
    assert merge_batch(table, names)["place"].to_pylist() == [last[k] for k in sorted(last)]
    first = {row.key: row.place[1] for row in reversed(run)}
    assert merge_batch(table, names, keep_first=True)["place"].to_pylist() == [first[k] for k in sorted(first)]
    in_order = sorted(range(len(run)), key=lambda place: run[place].key)
    assert sort_order(table, names).tolist() == in_order


def sort_order(table: pa.Table, names: list[str]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.argsort(comparable_keys([table.column(name) for name in names]), kind="stable")


def test_sliced_and_chunked_columns() -> None:
    keys = pa.chunked_array([["x", "b", "a"], [], ["c", "bb"]]).slice(1)
    numbers = pa.chunked_array([pa.array([9, 1, 0]), pa.array([2, 11])]).slice(1)
    table = pa.table({"k": keys, "n": numbers})
    assert sort_order(table, ["k"]).tolist() == [1, 0, 3, 2]
    assert sort_order(table, ["n"]).tolist() == [1, 0, 2, 3]
    assert sort_order(table.combine_chunks().slice(2), ["k"]).tolist() == [1, 0]
    assert sort_order(table.combine_chunks().slice(1), ["n"]).tolist() == [0, 1, 2]
    decimals = pa.array([None, decimal.Decimal(3), decimal.Decimal(-1)], pa.decimal128(30, 0)).slice(1)
    assert sort_order(pa.table({"d": decimals, "e": decimals.cast(pa.decimal128(5, 0))}), ["d", "e"]).tolist() == [1, 0]


def test_a_sorted_unique_batch_is_handed_back_as_it_is() -> None:
    table = pa.table({"k": [1, 2, 5]})
    assert merge_batch(table, ["k"]) is table


def test_record_batches_are_runs_too() -> None:
    older, newer = pa.record_batch({"k": [1, 2]}), pa.record_batch({"k": [2, 3]})
    assert [p.tolist() for p in find_deleted_rows([MergeRun(older), MergeRun(newer)], ["k"])] == [[1], []]
    assert merge_batch(pa.record_batch({"k": [2, 1]}), ["k"]).to_pydict() == {"k": [1, 2]}


def test_no_rows_and_no_runs() -> None:
    empty = pa.table({"k": pa.array([], pa.string())})
    assert find_deleted_rows([], ["k"]) == []
    assert [p.tolist() for p in find_deleted_rows([MergeRun(empty), MergeRun(empty)], ["k"])] == [[], []]
    assert merge_batch(empty, ["k"]).num_rows == 0


def test_a_compacted_run_keeps_the_commit_times_of_its_deletes() -> None:
    """A delete at time 0, compacted at time 100 with another key's: the row of lower sequence at 20 outlives it."""
    old = pa.table({"k": [1, 2], "s": [5, 5], "_row_kind": pa.array([3, 3], pa.int8()), "_commit_timestamp": [0, None]})
    late = pa.table({"k": [1, 2], "s": [4, 4]})
    runs = [MergeRun(old, 100), MergeRun(late, 105)]
    assert [p.tolist() for p in find_deleted_rows(runs, ["k"], ["s"], delete_retention_ms=10)] == [[0, 1], [1]]


def test_errors_name_the_column() -> None:
    run = MergeRun(pa.table({"k": [1]}))
    with pytest.raises(InvalidArgument, match="Run 1 of a merge has no column 'k'"):
        find_deleted_rows([run, MergeRun(pa.table({"x": [1]}))], ["k"])
    with pytest.raises(InvalidArgument, match=r"'k' has different types.*int32, int64"):
        find_deleted_rows([run, MergeRun(pa.table({"k": pa.array([1], pa.int32())}))], ["k"])
    with pytest.raises(InvalidArgument, match="1 NULLs"):
        sort_order(pa.table({"k": [1, None]}), ["k"])
    with pytest.raises(DataCorrupted, match="_row_kind"):
        find_deleted_rows([MergeRun(pa.table({"k": [1], "_row_kind": pa.array([9], pa.int8())}))], ["k"])


def test_many_rows_of_one_key_in_one_batch() -> None:
    """The exact fold takes a step a run, not a row: a hot key costs no more than others."""
    hot = pa.table(
        {
            "k": np.zeros(100_000, np.int64),
            "s": np.arange(100_000)[::-1],
            "_row_kind": pa.array([3] * 100_000, pa.int8()),
        }
    )
    late = pa.table({"k": [0], "s": [-1], "_row_kind": pa.array([0], pa.int8())})
    runs = [MergeRun(hot, 0, sorted_unique=False), MergeRun(late, 50)]
    deleted = find_deleted_rows(runs, ["k"], ["s"], delete_retention_ms=10)
    assert len(deleted[0]) == 100_000
    assert deleted[1].tolist() == []
    assert find_deleted_rows(runs, ["k"], ["s"], delete_retention_ms=60)[1].tolist() == [0]
