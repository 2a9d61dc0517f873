"""Spark's conditions as conditions of lakelog: what they exclude, and what is left out because its meaning differs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakelog.format.filter.condition import parse_filter
from lakelog.spark.java.pushed_filters import to_condition, to_exact_condition

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("order", pa.string()),
        ("a.b", pa.int32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("price", pa.decimal128(9, 2)),
        ("d", pa.float64()),
        ("pair", pa.struct([("x", pa.int64())])),
    ]
)


def value(kind: str, text: str) -> dict[str, str]:
    return {"class": kind, "text": text}


def compared(kind: str, column: str, given: dict[str, str]) -> list[Any]:
    return [kind, value("String", column), given]


ID_IS_5 = compared("EqualTo", "id", value("Long", "5"))
IS_REAL = compared("EqualTo", "d", value("Float", "0.1"))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (ID_IS_5, "(`id` = 5)"),
        (compared("EqualNullSafe", "order", value("String", "a")), "(`order` <=> 'a')"),
        (compared("GreaterThan", "order", value("String", "it's")), "(`order` > 'it\\'s')"),
        (compared("LessThanOrEqual", "`a.b`", value("Integer", "-1")), "(`a.b` <= (-1))"),
        (compared("LessThan", "pair.x", value("Long", "1")), "(`pair`.`x` < 1)"),
        (compared("LessThan", "at", value("Instant", "2024-01-01T05Z")), "(`at` < TIMESTAMP '2024-01-01 05:00:00Z')"),
        (compared("EqualTo", "day", value("Date", "2024-01-01")), "(`day` = DATE '2024-01-01')"),
        (compared("EqualTo", "price", value("BigDecimal", "1.50")), "(`price` = CAST('1.50' AS DECIMAL(3, 2)))"),
        (compared("GreaterThanOrEqual", "d", value("Double", "1.5E10")), "(`d` >= 15000000000.0D)"),
        (["IsNotNull", value("String", "id")], "(`id` IS NOT NULL)"),
        (["In", value("String", "id"), [value("Long", "1"), value("Long", "2")]], "(`id` IN (1, 2))"),
        (["Not", ID_IS_5], "(NOT (`id` = 5))"),
        (["Or", ID_IS_5, ID_IS_5], "((`id` = 5) OR (`id` = 5))"),
    ],
)  # fmt: skip
def test_a_condition_is_one_of_lakelog(given: list[Any], expected: str) -> None:
    found = to_condition([given])
    assert found == expected
    parse_filter(found, SCHEMA)


@pytest.mark.parametrize(
    "given",
    [
        IS_REAL,
        ["Or", ID_IS_5, IS_REAL],
        # A part that is left out of NOT would exclude rows.
        ["Not", ["And", ID_IS_5, IS_REAL]],
        ["StringStartsWith", value("String", "order"), value("String", "a")],
        ["In", value("String", "id"), []],
        ["In", value("String", "id"), [value("Long", str(number)) for number in range(20_000)]],
        compared("EqualTo", "day", value("Date", "+12345-01-01")),
        compared("EqualTo", "id", value("Period", "P1M")),
        compared("EqualNullSafe", "id", value("Null", "null")),
    ],
)
def test_what_has_no_certain_meaning_excludes_nothing(given: list[Any]) -> None:
    assert to_condition([given]) is None


def test_a_condition_of_rows_to_delete_is_exact() -> None:
    assert to_exact_condition([ID_IS_5, ["And", ID_IS_5, ID_IS_5]]) == "(`id` = 5) AND ((`id` = 5) AND (`id` = 5))"
    assert to_exact_condition([["And", ID_IS_5, IS_REAL]]) is None
    assert to_exact_condition([["AlwaysTrue"]]) == "TRUE"


def test_known_parts_of_and_are_kept() -> None:
    assert to_condition([["And", ID_IS_5, IS_REAL], IS_REAL, ID_IS_5]) == "((`id` = 5)) AND (`id` = 5)"
