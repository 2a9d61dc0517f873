"""Pruning in columns excludes exactly the files that plain Python excludes, one comparison and one file at a time.

Values are difficult for comparisons of one width: prefixes of each other, zeros at the end, long ones that differ late.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.format.tables import prune, value_set
from lakelog.format.tables.combine import combine
from lakelog.format.tables.predicate import AllOf, AnyOf, Comparison, Operator, Predicate
from lakelog.format.tables.prune import ColumnBounds, PreparedPredicate
from lakelog.format.tables.weaken import weaken
from tests.support.rotation import QUARTERS

LONG = b"\x01" + b"x" * 70
VALUES = [
    b"",
    b"\x00",
    b"\x00\x00",
    b"\x01",
    b"\x01\x00",
    b"\x01\x00\x00",
    b"\x01\x00\x01",
    b"\x01a\x00\x00",
    b"\x01a\x00\xff\x00\x00",
    b"\x01ab",
    b"\x01\xff",
    b"\xff\xff",
    LONG[:64],
    LONG[:64] + b"\x00",
    LONG[:65],
    LONG,
    LONG + b"\x00",
    LONG + b"a",
    LONG + b"b",
]
COLUMNS = (1, 2)

SEEDS = range(QUARTERS)
"""Of the tests with the most examples. Hypothesis draws others each time, so the number only lets them take turns."""


@dataclass(frozen=True)
class FileBounds:
    """What is known of a column in a file of three rows; NULLs None: nothing."""

    least: bytes | None
    greatest: bytes | None
    nulls: int | None


def ordered(first: bytes | None, second: bytes | None, nulls: int | None) -> FileBounds:
    if first is not None and second is not None and first > second:
        first, second = second, first
    return FileBounds(first, second, nulls)


bounds = st.builds(
    ordered, st.sampled_from([None, *VALUES]), st.sampled_from([None, *VALUES]), st.sampled_from([None, 0, 0, 1, 3])
)
files = st.lists(st.tuples(bounds, bounds), min_size=0, max_size=8)
values = st.sampled_from(VALUES)
single = st.sampled_from(
    [
        Operator.LESS,
        Operator.LESS_OR_EQUAL,
        Operator.GREATER,
        Operator.GREATER_OR_EQUAL,
        Operator.NOT_EQUAL,
        Operator.IN,
    ]
)
comparisons = st.one_of(
    st.builds(
        lambda field, operator, value: Comparison(field, operator, (value,)), st.sampled_from(COLUMNS), single, values
    ),
    st.builds(
        lambda field, several: Comparison(field, Operator.IN, tuple(several)),
        st.sampled_from(COLUMNS),
        st.lists(values, min_size=1, max_size=12),
    ),
    st.builds(Comparison, st.sampled_from((*COLUMNS, 3)), st.sampled_from([Operator.IS_NULL, Operator.IS_NOT_NULL])),
)
predicates: st.SearchStrategy[Predicate] = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds(AllOf, st.lists(inner, min_size=1, max_size=6).map(tuple)),
        st.builds(AnyOf, st.lists(inner, min_size=1, max_size=6).map(tuple)),
    ),
    max_leaves=20,
)


def may_hold(comparison: Comparison, value: bytes, found: FileBounds) -> bool:
    low = found.least is None or found.least < value
    low_or_equal = found.least is None or found.least <= value
    high = found.greatest is None or found.greatest > value
    high_or_equal = found.greatest is None or found.greatest >= value
    return {
        Operator.IN: low_or_equal and high_or_equal,
        Operator.LESS: low,
        Operator.LESS_OR_EQUAL: low_or_equal,
        Operator.GREATER: high,
        Operator.GREATER_OR_EQUAL: high_or_equal,
        Operator.NOT_EQUAL: not found.least == found.greatest == value,
    }[comparison.operator]


def may_match(predicate: Predicate, file: tuple[FileBounds, ...]) -> bool:
    if isinstance(predicate, AllOf):
        return all(may_match(operand, file) for operand in predicate.operands)
    if isinstance(predicate, AnyOf):
        return any(may_match(operand, file) for operand in predicate.operands)
    if predicate.field_id > len(file):
        return True
    found = file[predicate.field_id - 1]
    if predicate.operator is Operator.IS_NULL:
        return found.nulls is None or found.nulls > 0
    if found.nulls == 3:
        return False
    if predicate.operator is Operator.IS_NOT_NULL:
        return True
    return any(may_hold(predicate, value, found) for value in predicate.values)


def to_columns(table: list[tuple[FileBounds, FileBounds]]) -> dict[int, ColumnBounds]:
    return {
        field: ColumnBounds(
            pa.array([file[field - 1].least for file in table], pa.binary()),
            pa.array([file[field - 1].greatest for file in table], pa.binary()),
            pa.array([file[field - 1].nulls for file in table], pa.int64()),
        )
        for field in COLUMNS
    }


def judge(predicate: Predicate, table: list[tuple[FileBounds, FileBounds]]) -> list[bool]:
    rows = pa.array([3] * len(table), pa.int64())
    return PreparedPredicate(predicate).may_match(to_columns(table), rows).tolist()


@pytest.mark.parametrize("seed", SEEDS)
@settings(max_examples=375, deadline=None)
@given(files, predicates)
def test_the_same_files_remain(seed: int, table: list[tuple[FileBounds, FileBounds]], predicate: Predicate) -> None:
    assert judge(predicate, table) == [may_match(predicate, file) for file in table]


@settings(max_examples=300, deadline=None)
@given(files, predicates, st.integers(0, 4))
def test_the_same_files_remain_in_a_part_of_an_array(
    table: list[tuple[FileBounds, FileBounds]], predicate: Predicate, start: int
) -> None:
    columns = {
        field: ColumnBounds(each.min_value.slice(start), each.max_value.slice(start), each.null_count.slice(start))
        for field, each in to_columns(table).items()
    }
    part = table[start:]
    mask = PreparedPredicate(predicate).may_match(columns, pa.array([3] * len(part), pa.int64()))
    assert mask.tolist() == [may_match(predicate, file) for file in part]


@settings(max_examples=300, deadline=None)
@given(predicates)
def test_nothing_is_left_to_combine(predicate: Predicate) -> None:
    once = combine(predicate)
    assert combine(once) == once


def row_holds(predicate: Predicate, row: tuple[bytes | None, ...]) -> bool:
    return may_match(predicate, tuple(FileBounds(value, value, 3 if value is None else 0) for value in row))


def find_single(predicate: Predicate) -> bool:
    if isinstance(predicate, Comparison):
        return predicate.operator is not Operator.NOT_EQUAL or len(predicate.values) == 1
    return all(find_single(operand) for operand in predicate.operands)


@pytest.mark.parametrize("seed", SEEDS)
@settings(max_examples=250, deadline=None)
@given(
    predicates,
    st.integers(1, 6),
    st.lists(st.tuples(*[st.sampled_from([None, *VALUES])] * 3), min_size=1, max_size=6),
)
def test_a_weaker_predicate_is_small_and_true_wherever_the_other_is(
    seed: int, predicate: Predicate, most: int, rows: list[tuple[bytes | None, ...]]
) -> None:
    weaker = weaken(predicate, most)
    if weaker is None:
        return
    assert PreparedPredicate(weaker).comparison_count <= most
    assert find_single(weaker), "only combined predicates exclude several values at once"
    for row in rows:
        assert row_holds(weaker, row) or not row_holds(predicate, row)


def test_a_list_of_pairs_is_weakened_to_a_list_for_each_column() -> None:
    def equal(field: int, number: int) -> Comparison:
        return Comparison(field, Operator.IN, (bytes([number]),))

    pairs = AnyOf(tuple(AllOf((equal(1, number), equal(2, number % 3))) for number in range(100)))
    assert weaken(pairs, 200) is pairs
    assert weaken(pairs, 10) == AllOf(
        (
            Comparison(1, Operator.IN, tuple(bytes([number]) for number in range(100))),
            Comparison(2, Operator.IN, (b"\0", b"\1", b"\2")),
        )
    )
    ranges = AnyOf(
        tuple(
            AllOf((Comparison(1, Operator.GREATER, (bytes([n]),)), Comparison(1, Operator.LESS, (bytes([n + 5]),))))
            for n in range(0, 200, 10)
        )
    )
    assert weaken(ranges, 10) == AllOf(
        (
            Comparison(1, Operator.GREATER_OR_EQUAL, (bytes([0]),)),
            Comparison(1, Operator.LESS_OR_EQUAL, (bytes([195]),)),
        )
    )


def test_long_values_are_compared_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: without the second look a file is kept whose bounds no value lies between."""
    wanted = [LONG + bytes([65 + 2 * place]) for place in range(10)]
    table = [(FileBounds(LONG + b"B", LONG + b"B", 0), FileBounds(None, None, None))]
    predicate = Comparison(1, Operator.IN, tuple(wanted))
    assert judge(predicate, table) == [False]
    monkeypatch.setattr(value_set.ValueSet, "_look_closely", lambda *_: None)
    assert judge(predicate, table) == [True]


def test_many_values_are_searched_and_not_tried_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 values on 5,000 files need two searches, whose number does not depend on the number of values."""
    searches: list[tuple[int, int]] = []
    search = np.searchsorted

    def counted(sorted_values: object, wanted: object, *, side: str) -> object:
        searches.append((len(sorted_values), len(wanted)))  # type: ignore[arg-type]
        return search(sorted_values, wanted, side=side)  # type: ignore[call-overload]

    monkeypatch.setattr(np, "searchsorted", counted)
    wanted = tuple(number.to_bytes(9, "big") for number in range(0, 40_000, 2))
    bounds_of_files = pa.array([number.to_bytes(9, "big") for number in range(5000)], pa.binary())
    columns = {1: ColumnBounds(bounds_of_files, bounds_of_files, pa.array([0] * 5000, pa.int64()))}
    mask = PreparedPredicate(Comparison(1, Operator.IN, wanted)).may_match(columns, pa.array([1] * 5000, pa.int64()))
    assert mask.tolist() == [number % 2 == 0 for number in range(5000)]
    assert searches == [(20_000, 5000), (20_000, 5000)]


def test_an_or_of_equalities_is_judged_as_one_set() -> None:
    def equal(field: int, number: int) -> Comparison:
        return Comparison(field, Operator.IN, (number.to_bytes(9, "big"),))

    either = AnyOf(tuple(equal(1 + number % 2, number) for number in range(2000)))
    assert prune.PreparedPredicate(either).comparison_count == 2
    nested: Predicate = equal(1, 0)
    for number in range(1, 30):
        nested = AnyOf((nested, AnyOf((equal(1, number), equal(1, number)))))
    assert combine(nested) == Comparison(1, Operator.IN, tuple(number.to_bytes(9, "big") for number in range(30)))
