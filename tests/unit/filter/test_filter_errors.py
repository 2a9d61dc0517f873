"""What cannot be a filter: the message shows the place and says what to write."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.errors import InvalidArgument
from lakelog.format.filter.condition import parse_filter

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("x", pa.float64()),
        ("d", pa.date32()),
        ("flag", pa.bool_()),
        ("price", pa.decimal128(38, 10)),
        ("inner", pa.struct([("a", pa.int32()), ("A", pa.int32())])),
        ("items", pa.list_(pa.int32())),
    ]
)


@pytest.mark.parametrize(
    ("sql", "position", "parts"),
    [
        ("", 1, ["empty", "Give a condition"]),
        ("   -- nothing", 14, ["empty"]),
        ("id =", 5, ["at its end", "ends too early"]),
        ("id = = 1", 6, ["'= 1'", "a column, a constant or a function"]),
        ("id = 1 name = 'a'", 8, ["AND or OR"]),
        ("id = 1;", 7, ["';'"]),
        ("(id = 1", 8, ["')' is expected"]),
        ("name = 'abc", 8, ["not closed"]),
        ("id IS 5", 7, ["NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM"]),
        ("id NOT 5", 8, ["BETWEEN, IN or LIKE"]),
        ("id BETWEEN 1 OR 2", 14, ["'AND' is expected"]),
        ("id IN 1", 7, ["'(' is expected"]),
        ("id IN ()", 8, ["a column, a constant"]),
        ("id = @x", 6, ["no word"]),
        ("x = X'ABC'", 5, ["even number of hexadecimal digits"]),
        ("from = 1", 1, ["back-quotes"]),
        ("idd = 1", 1, ["no column 'idd'", "'id'"]),
        ("name = abc", 8, ["no column 'abc'", "Texts stand in single quotes"]),
        ("orders.id = 1", 1, ["no column 'orders'"]),
        ("id.a = 1", 1, ["'id' has type BIGINT", "no field 'a'"]),
        ("inner.z = 1", 1, ["no field 'z'", "'a', 'A'"]),
        ("inner.a = 1", 1, ["Several fields are called 'a'"]),
        ("id", 1, ["Column 'id' of type BIGINT is no condition"]),
        ("id AND flag", 1, ["is no condition"]),
        ("id = '5.0'", 6, ["Column 'id' of type BIGINT", "'5.0' is no whole number", "without quotes"]),
        ("id IN (1, 'a')", 11, ["'a' is no whole number"]),
        ("x = 'much'", 5, ["'much' is no value of type DOUBLE"]),
        ("flag = 'maybe'", 8, ["'maybe' is no value of type BOOLEAN"]),
        ("id = '9223372036854775808'", 6, ["does not fit the type BIGINT"]),
        ("name = 5", 1, ["Column 'name' of type STRING", "5 of type INT", "single quotes"]),
        ("5 = name", 5, ["Column 'name' of type STRING", "single quotes"]),
        ("flag = 1", 1, ["type BOOLEAN", "Cast one"]),
        ("d = 5", 1, ["Column 'd' of type DATE", "5 of type INT"]),
        ("name = d", 1, ["type STRING", "type DATE"]),
        ("d = 'soon'", 5, ["Column 'd' of type DATE", "'soon' is no date", "2020-01-31"]),
        ("d = '2021-02-29'", 5, ["no day of the calendar"]),
        ("d = TIMESTAMP '2021-02-01 25:00'", 5, ["no such time of day"]),
        ("d = TIMESTAMP '2021-02-01 05:00 Mars'", 5, ["no time zone"]),
        ("d = TIMESTAMP '2021-02-01 05:00+25:00'", 5, ["-18:00 to +18:00"]),
        ("items = items", 1, ["ARRAY<INT>", "a field inside it"]),
        ("inner = 1", 1, ["STRUCT<", "a field inside it"]),
        ("id LIKE 'a%'", 1, ["LIKE compares texts"]),
        ("name LIKE name", 11, ["constant text"]),
        ("name LIKE 'a\\\\b'", 11, ["Double it"]),
        ("name LIKE 'a' ESCAPE 'ab'", 22, ["one character"]),
        ("name LIKE ANY ('a')", 11, ["one pattern"]),
        ("name RLIKE 'a'", 6, ["RLIKE is not possible", "LIKE"]),
        ("name ILIKE 'a'", 6, ["ILIKE is not possible", "lower"]),
        ("id IN (SELECT 1)", 8, ["Subqueries are not possible"]),
        ("id = (SELECT max(id) FROM t)", 7, ["Subqueries are not possible"]),
        ("EXISTS (SELECT 1)", 1, ["Subqueries are not possible"]),
        ("count(*) > 1", 7, ["Aggregates are not possible"]),
        ("max(id) > 1", 1, ["Aggregates are not possible"]),
        ("rank() OVER (ORDER BY id) = 1", 8, ["Window functions are not possible"]),
        ("CASE WHEN flag THEN true END", 1, ["AND and OR"]),
        ("d > DATE '2020-01-01' - INTERVAL 1 DAY", 25, ["Intervals"]),
        ("frobnicate(id) = 1", 1, ["no function frobnicate", "coalesce", "year"]),
        ("lower(id) = 'a'", 1, ["lower takes a text, not a value of type BIGINT"]),
        ("lower(name, name) = 'a'", 1, ["lower takes 1 arguments, not 2"]),
        ("substring(name, id) = 'a'", 1, ["constant position"]),
        ("isnan(id)", 1, ["FLOAT or a DOUBLE"]),
        ("coalesce(id, name) = 1", 1, ["BIGINT and STRING do not go together"]),
        ("name + 1 = 2", 1, ["+ takes numbers"]),
        ("-name = 'a'", 1, ["- takes a number"]),
        ("x % 2 = 1", 1, ["whole numbers"]),
        ("price / 2 = 1", 1, ["no decimals", "DOUBLE"]),
        ("price * price = 1", 1, ["more than the 38", "DOUBLE"]),
        ("CAST(name AS INT) = 1", 1, ["from STRING to INT", "Cast the constant"]),
        ("CAST(id AS INT) = 1", 1, ["from BIGINT to INT"]),
        ("CAST(id AS WIDE) = 1", 1, ["'WIDE'"]),
        ("CAST(id) = 1", 8, ["CAST(value AS TYPE)"]),
        ("id = CAST('abc' AS INT)", 6, ["'abc'"]),
        ("id = CAST(3000000000 AS INT)", 6, ["does not fit the type INT"]),
        ("id = 300Y", 6, ["does not fit"]),
        ("id = 123456789012345678901234567890123456789", 6, ["38 digits"]),
    ],
)
def test_mistakes_are_shown_in_their_place(sql: str, position: int, parts: list[str]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_filter(sql, SCHEMA)
    for part in parts:
        assert part in caught.value.message
    assert caught.value.metadata["position"] == str(position)
    assert f"at character {position}" in caught.value.message


@pytest.mark.parametrize(
    ("sql", "part"),
    [
        ("id = 1 " * 20_000, "140000 characters"),
        ("(" * 300 + "id = 1" + ")" * 300, "nested deeper than 200"),
        ("NOT (" * 300 + "flag" + ")" * 300, "nested deeper than 200"),
        ("id = " + "1 + " * 300 + "1", "nested deeper than 200"),
        ("coalesce(" * 250 + "id" + ")" * 250 + " = 1", "nested deeper than 200"),
        (" OR ".join(f"id > {n}" for n in range(3000)), "more than 5000 parts"),
        ("name LIKE '" + "%a" * 1000 + "'", "at most 1000 characters"),
        ("name = '" + "a" * 200_000 + "'", "at most 100000"),
    ],
)
def test_what_is_too_large_is_refused(sql: str, part: str) -> None:
    with pytest.raises(InvalidArgument, match=part) as caught:
        parse_filter(sql, SCHEMA)
    assert len(caught.value.message) < 500


def test_a_filter_is_a_text() -> None:
    with pytest.raises(InvalidArgument, match=r"given as text.*not a int"):
        parse_filter(5, SCHEMA)  # type: ignore[arg-type]


_WORDS = st.sampled_from(
    [
        "id",
        "name",
        "x",
        "d",
        "flag",
        "price",
        "inner",
        "items",
        ".",
        "(",
        ")",
        ",",
        "=",
        "<>",
        "<",
        "<=>",
        "+",
        "-",
        "*",
        "/",
        "%",
        "DIV",
        "AND",
        "OR",
        "NOT",
        "IN",
        "IS",
        "NULL",
        "LIKE",
        "BETWEEN",
        "ESCAPE",
        "DISTINCT",
        "FROM",
        "TRUE",
        "1",
        "-2.5",
        "1e3",
        "7L",
        "'a'",
        "'2020-01-01'",
        "X'00'",
        "DATE",
        "CAST",
        "(",
        "AS",
        "INT",
        ")",
        "lower",
        "(",
        "abs",
        "(",
        "coalesce",
        "(",
        "`",
        ";",
        "$",
        ":",
        "\\",
        "'",
        "--",
        "/*",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_WORDS, max_size=14).map(" ".join) | st.text(max_size=30))
def test_whatever_is_written_is_a_filter_or_an_invalid_argument(sql: str) -> None:
    try:
        condition = parse_filter(sql, SCHEMA)
    except InvalidArgument as error:
        assert error.message.endswith(".")  # noqa: PT017
    else:
        condition.to_predicate({"id": 1, "name": 2})
        assert SCHEMA.empty_table().filter(condition.to_arrow()).num_rows == 0
