"""What is told the metastore: predicates and key bounds of single filters."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.format.filter.condition import parse_filter
from lakelog.format.keys.encoding import encode_key
from lakelog.format.tables.predicate import AllOf, AnyOf, Comparison, Operator, Predicate

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("s", pa.string()),
        ("x", pa.float64()),
        ("b", pa.bool_()),
        ("inner", pa.struct([("a", pa.int64())])),
    ]
)
FIELD_IDS = {"id": 1, "s": 2, "x": 3, "b": 4, "inner": 5}


def number(value: int) -> bytes:
    return encode_key([pa.scalar(value, pa.int64())])


def text(value: str) -> bytes:
    return encode_key([pa.scalar(value, pa.string())])


def truth(value: bool) -> bytes:
    return encode_key([pa.scalar(value)])


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("id = 5", Comparison(1, Operator.IN, (number(5),))),
        ("5 < id", Comparison(1, Operator.GREATER, (number(5),))),
        ("id > 5L", Comparison(1, Operator.GREATER, (number(5),))),
        ("id <= 5.5", Comparison(1, Operator.LESS_OR_EQUAL, (number(5),))),
        ("id IN (2, 1, NULL)", Comparison(1, Operator.IN, (number(1), number(2)))),
        ("id = 2 OR id = 1", Comparison(1, Operator.IN, (number(1), number(2)))),
        ("NOT id = 5", Comparison(1, Operator.NOT_EQUAL, (number(5),))),
        ("id IS NULL", Comparison(1, Operator.IS_NULL)),
        ("inner IS NOT NULL", None),
        ("inner.a = 1", None),
        ("id + 1 = 2", None),
        ("b", Comparison(4, Operator.IN, (truth(True),))),
        ("NOT b", Comparison(4, Operator.NOT_EQUAL, (truth(True),))),
        ("id = 5 AND inner.a = 1", Comparison(1, Operator.IN, (number(5),))),
        ("id = 5 OR inner.a = 1", None),
        (
            "id > 5 AND (s = 'a' OR b)",
            AllOf(
                (
                    Comparison(1, Operator.GREATER, (number(5),)),
                    AnyOf((Comparison(2, Operator.IN, (text("a"),)), Comparison(4, Operator.IN, (truth(True),)))),
                )
            ),
        ),
        (
            "s LIKE 'ab%'",
            AllOf(
                (
                    Comparison(2, Operator.GREATER_OR_EQUAL, (text("ab"),)),
                    Comparison(2, Operator.LESS, (text("ac"),)),
                )
            ),
        ),
        (
            "startswith(s, 'a\\U0010FFFF')",
            AllOf(
                (
                    Comparison(2, Operator.GREATER_OR_EQUAL, (text("a\U0010ffff"),)),
                    Comparison(2, Operator.LESS, (text("b"),)),
                )
            ),
        ),
        ("s LIKE '%b'", Comparison(2, Operator.IS_NOT_NULL)),
        ("s NOT LIKE 'a%'", Comparison(2, Operator.IS_NOT_NULL)),
    ],
)
def test_predicates(sql: str, expected: Predicate | None) -> None:
    assert parse_filter(sql, SCHEMA).to_predicate(FIELD_IDS) == expected


def test_columns_without_an_id_are_not_reported() -> None:
    assert parse_filter("id = 5 AND s = 'a'", SCHEMA).to_predicate({"s": 2}) == Comparison(2, Operator.IN, (text("a"),))


def test_a_long_list_is_reported_as_its_range() -> None:
    sql = "id IN (" + ", ".join(str(n) for n in range(12_000)) + ")"
    assert parse_filter(sql, SCHEMA).to_predicate(FIELD_IDS) == AllOf(
        (
            Comparison(1, Operator.GREATER_OR_EQUAL, (number(0),)),
            Comparison(1, Operator.LESS_OR_EQUAL, (number(11_999),)),
        )
    )
    assert parse_filter("NOT " + sql, SCHEMA).to_predicate(FIELD_IDS) == Comparison(1, Operator.IS_NOT_NULL)


@pytest.mark.parametrize(
    ("sql", "first", "last"),
    [
        ("id = 5", number(5), number(5) + b"\xff"),
        ("id = 5 AND s = 'a'", number(5) + text("a"), number(5) + text("a") + b"\xff"),
        ("s = 'a' AND id = 5 AND x > 1", number(5) + text("a"), number(5) + text("a") + b"\xff"),
        ("id = 5 AND s > 'a'", number(5) + text("a"), number(5) + b"\xff"),
        ("id = 5 AND s < 'b'", number(5), number(5) + text("b") + b"\xff"),
        ("id BETWEEN 2 AND 3 AND s = 'a'", number(2), number(3) + b"\xff"),
        ("id > 2", number(2), None),
        ("id < 2", None, number(2) + b"\xff"),
        ("id IN (7, 3, 5)", number(3), number(7) + b"\xff"),
        ("id >= 2 AND id >= 4 AND id <= 9 AND id < 8", number(4), number(8) + b"\xff"),
        ("s = 'a'", None, None),
        ("id = 5 OR s = 'a'", None, None),
        ("id <> 5", None, None),
        ("true", None, None),
        ("id BETWEEN 3 AND 1", number(3), number(3)),
        ("id = 5 AND id = 7", number(7), number(7)),
        ("id = 5 AND s > 'b' AND s < 'a'", number(5) + text("b"), number(5) + text("b")),
    ],
)
def test_key_bounds(sql: str, first: bytes | None, last: bytes | None) -> None:
    assert parse_filter(sql, SCHEMA).key_bounds(["id", "s"]) == (first, last)


def test_bounds_by_a_prefix_of_a_text() -> None:
    assert parse_filter("s LIKE 'ab%'", SCHEMA).key_bounds(["s", "id"]) == (text("ab"), text("ac") + b"\xff")
