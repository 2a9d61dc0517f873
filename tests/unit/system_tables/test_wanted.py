"""What a condition on a system table says about the request."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.format.filter.condition import parse_filter
from lakelog.format.keys.encoding import encode_value
from lakelog.format.tables.predicate import AllOf, Comparison, Operator
from lakelog.system_tables.wanted import Wanted

SCHEMA = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("partition", pa.struct([("dt", pa.string()), ("n", pa.int32())]))]
)


def wanted(condition: str | None) -> Wanted:
    parsed = None if condition is None else parse_filter(condition, SCHEMA)
    return Wanted(SCHEMA, None, frozenset(SCHEMA.names), parsed)


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [
        (None, (None, None)),
        ("id = 5", (5, 5)),
        ("id BETWEEN 2 AND 7 AND name = 'a'", (2, 7)),
        ("id >= 2", (2, None)),
        ("id IN (4, 2)", (2, 4)),
        ("id > -3", (-3, None)),
        ("name = 'a'", (None, None)),
        ("id = 1 OR name = 'a'", (None, None)),
    ],
)
def test_bounds(condition: str | None, bounds: tuple[int | None, int | None]) -> None:
    assert wanted(condition).bounds_of("id") == bounds


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        (None, None),
        ("name = 'a'", ["a"]),
        ("name IN ('a', 'b') AND name IN ('b', 'c')", ["b"]),
        ("name = 'a' OR name = 'b'", ["a", "b"]),
        ("name = 'a' OR id = 1", None),
        ("name > 'a'", None),
        ("name = 'a' AND name = 'b'", []),
    ],
)
def test_values(condition: str | None, values: list[object] | None) -> None:
    assert wanted(condition).values_of("name") == values


def test_conditions_on_fields_of_a_struct() -> None:
    ids = {"dt": 4, "n": 9}
    day = Comparison(4, Operator.IN, (encode_value(pa.scalar("a")),))
    assert wanted("partition.dt = 'a' AND id = 1").predicate_on("partition", ids) == day
    both = wanted("partition.dt = 'a' AND partition.n < 3").predicate_on("partition", ids)
    assert both == AllOf((day, Comparison(9, Operator.LESS, (encode_value(pa.scalar(3, pa.int32())),))))
    assert wanted("partition.dt = 'a' OR id = 1").predicate_on("partition", ids) is None
    assert wanted("partition.dt IS NULL").predicate_on("partition", ids) == Comparison(4, Operator.IS_NULL)
    assert wanted("name = 'a'").predicate_on("partition", ids) is None
    assert wanted(None).predicate_on("partition", ids) is None
