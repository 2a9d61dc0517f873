"""VALUES with the types of the columns they are written to."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.format.types.sql_types import from_sql_type
from lakelog.sql import parse_statement
from lakelog.sql.statements import Insert, Values
from lakelog.sql.values import to_rows

UTC = datetime.UTC


def rows_of(sql: str, *fields: pa.Field) -> pa.Table:
    statement = parse_statement(f"INSERT INTO t VALUES {sql}")
    assert isinstance(statement, Insert)
    assert isinstance(statement.rows, Values)
    return to_rows(statement.rows, fields)


@pytest.mark.parametrize(
    ("sql_type", "sql", "expected"),
    [
        ("ARRAY<INT>", "ARRAY[1, NULL, 1 + 1]", [1, None, 2]),
        ("ARRAY<ARRAY<STRING>>", "ARRAY[ARRAY[], ARRAY['a']]", [[], ["a"]]),
        ("MAP<STRING, INT>", "MAP['a', 1, 'b', NULL]", [("a", 1), ("b", None)]),
        ("STRUCT<a: INT, b: ARRAY<INT>>", "ROW(1, ARRAY[2])", {"a": 1, "b": [2]}),
        ("INT", "5", 5),
        ("TINYINT", "-128", -128),
        ("BIGINT", "-9223372036854775808", -(2**63)),
        ("INT", "5.0", 5),
        ("INT", "1e3", 1000),
        ("INT", "1 + 2 * 3", 7),
        ("INT", "NULL", None),
        ("INT", "CAST('7' AS INT)", 7),
        ("DOUBLE", "0.1", 0.1),
        ("DOUBLE", "5", 5.0),
        ("FLOAT", "0.1", 0.10000000149011612),
        ("DOUBLE", "CAST('Infinity' AS DOUBLE)", float("inf")),
        ("DECIMAL(5,2)", "1.5", Decimal("1.50")),
        ("DECIMAL(5,2)", "-999.99", Decimal("-999.99")),
        ("DECIMAL(5,2)", "7", Decimal("7.00")),
        ("DECIMAL(38,0)", "99999999999999999999999999999999999999", Decimal("9" * 38)),
        ("STRING", "'it''s\\n'", "it's\n"),
        ("STRING", "''", ""),
        ("BINARY", "X'00ff'", b"\x00\xff"),
        ("BOOLEAN", "true", True),
        ("BOOLEAN", "1 = 2", False),
        ("DATE", "'2020-02-29'", datetime.date(2020, 2, 29)),
        ("DATE", "DATE '1969-12-31'", datetime.date(1969, 12, 31)),
        ("DATE", "TIMESTAMP '2020-01-01 00:00'", datetime.date(2020, 1, 1)),
        ("TIMESTAMP", "'2020-01-01 12:00:00.5+02:00'", datetime.datetime(2020, 1, 1, 10, 0, 0, 500_000, UTC)),
        ("TIMESTAMP_NTZ", "DATE '2020-01-01'", datetime.datetime(2020, 1, 1)),  # noqa: DTZ001
        ("ARRAY<INT>", "array(1, NULL, 3)", [1, None, 3]),
        ("ARRAY<INT>", "array()", []),
        ("ARRAY<INT>", "NULL", None),
        ("MAP<STRING, INT>", "map('a', 1, 'b', NULL)", [("a", 1), ("b", None)]),
        ("STRUCT<a: INT, b: ARRAY<STRING>>", "struct(1, array('x'))", {"a": 1, "b": ["x"]}),
        ("STRUCT<a: INT, b: STRING>", "named_struct('B', 'x', 'a', 1)", {"a": 1, "b": "x"}),
    ],
)
def test_values_that_fit(sql_type: str, sql: str, expected: Any) -> None:
    data_type = from_sql_type(sql_type)
    table = rows_of(f"({sql})", pa.field("v", data_type))
    assert table.schema.field("v").type == data_type
    assert table["v"].to_pylist() == [expected]


@pytest.mark.parametrize(
    ("sql_type", "sql", "part"),
    [
        ("INT NOT NULL", "NULL", "the column is NOT NULL"),
        ("TINYINT", "128", "beyond the numbers of TINYINT"),
        ("INT", "1.5", "cannot hold all of its digits"),
        ("INT", "'5'", "Write it without quotes"),
        ("INT", "true", "Write a constant of type INT"),
        ("INT", "CAST('NaN' AS DOUBLE)", "has no such value"),
        ("DOUBLE", "9007199254740993", "cannot hold all of its digits"),
        ("FLOAT", "1e300", "beyond the numbers of FLOAT"),
        ("DECIMAL(5,2)", "1.005", "cannot hold all of its digits"),
        ("DECIMAL(5,2)", "1000", "beyond the numbers of DECIMAL(5,2)"),
        ("STRING", "5", "Write it in single quotes"),
        ("BINARY", "'abc'", "Write a constant of type BINARY"),
        ("BOOLEAN", "1", "Write a constant of type BOOLEAN"),
        ("DATE", "'soon'", "is no date"),
        ("DATE", "'2020-01-01 10:00'", "has a time of day"),
        ("DATE", "TIMESTAMP '2020-01-01 10:00'", "has a time of day"),
        ("TIMESTAMP", "5", "It has type INT"),
        ("INT", "array('a')", "It is an array, and the column holds single values"),
        ("INT", "NAMED_STRUCT('a', 1)", "It is a struct"),
        ("ARRAY<INT>", "1", "Write array(...)"),
        ("ARRAY<INT NOT NULL>", "array(NULL)", "NOT NULL"),
        ("ARRAY<INT>", "array('x')", "without quotes"),
        ("MAP<STRING, INT>", "map('a')", "map(key, value, ...)"),
        ("MAP<STRING, INT>", "map(NULL, 1)", "NOT NULL"),
        ("STRUCT<a: INT, b: STRING>", "struct(1)", "struct(...) with 2 values"),
        ("STRUCT<a: INT, b: STRING>", "named_struct('a', 1, 'c', 'x')", "no field 'b'"),
    ],
)
def test_values_that_do_not_fit(sql_type: str, sql: str, part: str) -> None:
    nullable = not sql_type.endswith(" NOT NULL") or "<" in sql_type
    data_type = from_sql_type(sql_type if nullable else sql_type.removesuffix(" NOT NULL"))
    with pytest.raises(InvalidArgument) as caught:
        rows_of(f"({sql})", pa.field("v", data_type, nullable))
    assert part in caught.value.message
    assert "column 'v" in caught.value.message
    assert caught.value.metadata["column"].startswith("v")


def test_every_row_has_a_value_a_column() -> None:
    fields = (pa.field("a", pa.int32()), pa.field("b", pa.int32()))
    with pytest.raises(InvalidArgument, match=r"Row 2 has 1 value for 2 columns \(a, b\)"):
        rows_of("(1, 2), (3)", *fields)


def test_brackets_alone_are_no_list() -> None:
    with pytest.raises(InvalidArgument, match=r"Lists of values are written ARRAY\(\.\.\.\)"):
        rows_of("(['a'])", pa.field("a", pa.list_(pa.string())))


def test_constants_name_no_columns() -> None:
    with pytest.raises(InvalidArgument, match="Here stands a constant"):
        rows_of("(abc)", pa.field("a", pa.string()))
    with pytest.raises(InvalidArgument, match="no function now"):
        rows_of("(now())", pa.field("a", pa.timestamp("us")))
