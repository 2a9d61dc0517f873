"""Pruning never loses a row: random columns, their bounds, random predicates, judged row by row."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.format.keys.encoding import encode_values
from lakelog.format.tables.files import ColumnStatistics
from lakelog.format.tables.packed_statistics import decode_column, encode_statistics
from lakelog.format.tables.predicate import AllOf, AnyOf, Comparison, Operator, Predicate
from lakelog.format.tables.prune import may_match

Row = tuple[float | None, str | None]
TYPES = {1: pa.float64(), 2: pa.string()}

NUMBERS = [float("nan"), float("inf"), -0.0, 0.0, 1.0, 2.0, -5.5]
WORDS = ["", "a", "a\x00", "ab", "b", "ż"]
numbers = st.one_of(st.none(), st.sampled_from(NUMBERS))
words = st.one_of(st.none(), st.sampled_from(WORDS))
files = st.lists(st.lists(st.tuples(numbers, words), min_size=1, max_size=4), min_size=1, max_size=6)


def encoded(field_id: int, value: object) -> bytes:
    return encode_values(pa.array([value], TYPES[field_id]))[0].as_py()


def constants(field_id: int) -> st.SearchStrategy[bytes]:
    values: list[object] = [*NUMBERS] if field_id == 1 else [*WORDS]
    return st.sampled_from([encoded(field_id, value) for value in values])


def comparisons(field_id: int) -> st.SearchStrategy[Comparison]:
    one = st.sampled_from([o for o in Operator if o not in (Operator.IN, Operator.IS_NULL, Operator.IS_NOT_NULL)])
    return st.one_of(
        st.builds(lambda o, value: Comparison(field_id, o, (value,)), one, constants(field_id)),
        st.builds(
            lambda values: Comparison(field_id, Operator.IN, tuple(values)),
            st.lists(constants(field_id), min_size=1, max_size=3),
        ),
        st.sampled_from([Comparison(field_id, Operator.IS_NULL), Comparison(field_id, Operator.IS_NOT_NULL)]),
    )


predicates: st.SearchStrategy[Predicate] = st.recursive(
    st.one_of(comparisons(1), comparisons(2)),
    lambda inner: st.one_of(
        st.builds(AllOf, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(AnyOf, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=5,
)


def holds(predicate: Predicate, row: Row) -> bool:
    if isinstance(predicate, AllOf):
        return all(holds(operand, row) for operand in predicate.operands)
    if isinstance(predicate, AnyOf):
        return any(holds(operand, row) for operand in predicate.operands)
    value = row[predicate.field_id - 1]
    if predicate.operator is Operator.IS_NULL:
        return value is None
    if value is None:
        return False
    own = encoded(predicate.field_id, value)
    match predicate.operator:
        case Operator.IN:
            return own in predicate.values
        case Operator.LESS:
            return own < predicate.values[0]
        case Operator.LESS_OR_EQUAL:
            return own <= predicate.values[0]
        case Operator.GREATER:
            return own > predicate.values[0]
        case Operator.GREATER_OR_EQUAL:
            return own >= predicate.values[0]
        case Operator.NOT_EQUAL:
            return own != predicate.values[0]
    return True


def statistics(rows: list[Row], known: set[int], unbounded: bool) -> bytes | None:
    columns = []
    for field_id in sorted(known, reverse=True):
        values = [row[field_id - 1] for row in rows]
        present = sorted(encoded(field_id, value) for value in values if value is not None)
        low, high = (present[0], present[-1]) if present else (None, None)
        columns.append(ColumnStatistics(field_id, len(rows) - len(present), low, None if unbounded else high))
    return encode_statistics(columns)


@settings(max_examples=600, deadline=None)
@given(files, predicates, st.lists(st.tuples(st.sets(st.sampled_from([1, 2])), st.booleans()), min_size=6, max_size=6))
def test_no_file_with_a_match_is_left_out(
    tables: list[list[Row]], predicate: Predicate, kept: list[tuple[set[int], bool]]
) -> None:
    blobs = pa.array([statistics(rows, *kept[n]) for n, rows in enumerate(tables)], pa.binary())
    columns = {field_id: decode_column(blobs, field_id) for field_id in (1, 2)}
    row_count = pa.array([len(rows) for rows in tables], pa.int64())
    mask = may_match(predicate, columns, row_count)
    assert len(mask) == len(tables)
    for rows, may in zip(tables, mask, strict=True):
        if any(holds(predicate, row) for row in rows):
            assert may
    # Of what is known exactly, a file of one row is never kept for nothing.
    if isinstance(predicate, Comparison):
        for n, rows in enumerate(tables):
            if len(rows) == 1 and predicate.field_id in kept[n][0] and not kept[n][1]:
                assert mask[n] == holds(predicate, rows[0])
