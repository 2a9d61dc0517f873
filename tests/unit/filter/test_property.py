"""Random conditions over random rows: Arrow says what plain Python says, and pruning loses no row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.format.filter import parse_filter
from lakelog.format.keys import encode_rows, encode_values
from lakelog.format.predicate import AllOf, AnyOf, Comparison, Operator, Predicate

from .conditions import SCHEMA, Condition, Row, conditions, rows

FIELD_IDS = {name: number for number, name in enumerate(SCHEMA.names, 1)}
TABLES = st.lists(rows(), min_size=1, max_size=8)


@settings(max_examples=250, deadline=None)
@given(conditions(), TABLES)
def test_arrow_agrees_with_plain_python(condition: Condition, given_rows: list[Row]) -> None:
    table = pa.Table.from_pylist(given_rows, SCHEMA)
    expression = parse_filter(condition.sql, SCHEMA).to_arrow()
    computed = ds.dataset(table).to_table(columns={"truth": expression})["truth"].to_pylist()
    assert computed == [condition.says(row) for row in given_rows]


@settings(max_examples=250, deadline=None)
@given(conditions(), st.lists(TABLES, min_size=1, max_size=4))
def test_pruning_loses_no_row(condition: Condition, files: list[list[Row]]) -> None:
    predicate = parse_filter(condition.sql, SCHEMA).to_predicate(FIELD_IDS)
    if predicate is None:
        return
    for file_rows in files:
        if any(condition.says(row) for row in file_rows):
            assert may_match(predicate, bounds_of(file_rows), len(file_rows))


@settings(max_examples=150, deadline=None)
@given(conditions(), TABLES, st.permutations(["k", "s", "d"]))
def test_key_bounds_hold_every_matching_key(condition: Condition, given_rows: list[Row], key: list[str]) -> None:
    first, last = parse_filter(condition.sql, SCHEMA).key_bounds(key)
    table = pa.Table.from_pylist(given_rows, SCHEMA)
    encoded = encode_rows([table[name].combine_chunks() for name in key]).to_pylist()
    for row, row_key in zip(given_rows, encoded, strict=True):
        if condition.says(row):
            assert first is None or first <= row_key
            assert last is None or row_key <= last


def bounds_of(file_rows: list[Row]) -> dict[int, tuple[int, bytes | None, bytes | None]]:
    """NULLs, least and greatest encoded value of each column."""
    table = pa.Table.from_pylist(file_rows, SCHEMA)
    bounds: dict[int, Any] = {}
    for name, field_id in FIELD_IDS.items():
        column = table[name].combine_chunks()
        encoded = encode_values(column.drop_null()).to_pylist()
        bounds[field_id] = (column.null_count, min(encoded, default=None), max(encoded, default=None))
    return bounds


def may_match(predicate: Predicate, bounds: dict[int, tuple[int, bytes | None, bytes | None]], count: int) -> bool:
    """Whether a file may hold a match, by the words of `lakelog.format.predicate`."""
    if isinstance(predicate, AllOf):
        return all(may_match(operand, bounds, count) for operand in predicate.operands)
    if isinstance(predicate, AnyOf):
        return any(may_match(operand, bounds, count) for operand in predicate.operands)
    assert isinstance(predicate, Comparison)
    nulls, least, greatest = bounds[predicate.field_id]
    if predicate.operator is Operator.IS_NULL:
        return nulls > 0
    if least is None or greatest is None:
        return False
    if predicate.operator is Operator.IS_NOT_NULL:
        return True
    values = predicate.values
    return {
        Operator.IN: any(least <= value <= greatest for value in values),
        Operator.NOT_EQUAL: not least == greatest == values[0],
        Operator.LESS: least < values[0],
        Operator.LESS_OR_EQUAL: least <= values[0],
        Operator.GREATER: greatest > values[0],
        Operator.GREATER_OR_EQUAL: greatest >= values[0],
    }[predicate.operator]
