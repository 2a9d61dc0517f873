"""Random conditions over difficult rows: Arrow says what plain Python says, and pruning loses no row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lakelog.format.filter.condition import parse_filter
from lakelog.format.keys.encoding import encode_rows, encode_values
from lakelog.format.tables import prune
from lakelog.format.tables.predicate import AllOf, AnyOf, Comparison, Operator, Predicate

from .conditions import (
    NUMBERS,
    POOLS,
    SCHEMA,
    Condition,
    Row,
    compare,
    conditions,
    conditions_on,
    many_rows,
    prunable_conditions,
    together,
)

FIELD_IDS = {name: number for number, name in enumerate(SCHEMA.names, 1)}


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
    """Whether a file may hold a match, by the words of `lakelog.format.tables.predicate`."""
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


ROWS = many_rows(7, 100)
TABLE = pa.Table.from_pylist(ROWS, SCHEMA)
FILES = [many_rows(seed, 1 + seed % 4) for seed in range(60)]
BOUNDS = [bounds_of(file_rows) for file_rows in FILES]
ROW_COUNTS = pa.array([len(file_rows) for file_rows in FILES], pa.int64())
COLUMN_BOUNDS = {
    field_id: prune.ColumnBounds(
        pa.array([bounds[field_id][1] for bounds in BOUNDS], pa.binary()),
        pa.array([bounds[field_id][2] for bounds in BOUNDS], pa.binary()),
        pa.array([bounds[field_id][0] for bounds in BOUNDS], pa.int64()),
    )
    for field_id in FIELD_IDS.values()
}
KEY_ROWS = [
    {**dict.fromkeys(SCHEMA.names), "k": k, "s": s, "d": d}
    for k in (-4, 0, 1, 2, 3)
    for s in ("", "a", "ab", "b", "𝄞")
    for d in POOLS["d"][3:9]
]


@pytest.mark.parametrize("operator", ["=", "<>", "<", "<=", ">", ">=", "<=>"])
@pytest.mark.parametrize("column", ["k", "n", "f", "x", "p"])
def test_every_number_compares_as_after_sparks_cast(column: str, operator: str) -> None:
    values = POOLS[column]
    table = pa.table({column: pa.array(values, SCHEMA.field(column).type)})
    for text, constant in NUMBERS:
        sql = f"{column} {operator} {text}"
        computed = (
            ds.dataset(table).to_table(columns={"t": parse_filter(sql, table.schema).to_arrow()})["t"].to_pylist()
        )
        assert computed == [compare(operator, *together(value, constant)) for value in values], sql


@settings(max_examples=200, deadline=None)
@given(conditions())
def test_arrow_agrees_with_plain_python(condition: Condition) -> None:
    expression = parse_filter(condition.sql, SCHEMA).to_arrow()
    computed = ds.dataset(TABLE).to_table(columns={"truth": expression})["truth"].to_pylist()
    expected = [condition.says(row) for row in ROWS]
    assert [(row, truth) for row, truth in zip(ROWS, computed, strict=True)] == list(zip(ROWS, expected, strict=True))
    assert TABLE.filter(expression).num_rows == expected.count(True)


@settings(max_examples=200, deadline=None)
@given(prunable_conditions())
def test_pruning_loses_no_row(condition: Condition) -> None:
    predicate = parse_filter(condition.sql, SCHEMA).to_predicate(FIELD_IDS)
    # A comparison with NULL is no condition on anything.
    assume(predicate is not None)
    assert predicate is not None
    kept = prune.may_match(predicate, COLUMN_BOUNDS, ROW_COUNTS)
    for file_rows, bounds, may in zip(FILES, BOUNDS, kept, strict=True):
        if any(condition.says(row) for row in file_rows):
            assert may, file_rows
            assert may_match(predicate, bounds, len(file_rows)), file_rows


@settings(max_examples=200, deadline=None)
@given(conditions_on(("k", "s", "d")), st.permutations(["k", "s", "d"]))
def test_key_bounds_hold_every_matching_key(condition: Condition, key: list[str]) -> None:
    first, last = parse_filter(condition.sql, SCHEMA).key_bounds(key)
    table = pa.Table.from_pylist(KEY_ROWS, SCHEMA)
    encoded = encode_rows([table[name].combine_chunks() for name in key]).to_pylist()
    for row, row_key in zip(KEY_ROWS, encoded, strict=True):
        if condition.says(row):
            assert first is None or first <= row_key
            assert last is None or row_key <= last
