"""Filters over a small table of difficult values: which rows come out."""

from __future__ import annotations

import datetime
import pickle
import subprocess
import sys
from decimal import Decimal

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from lakelog.format.filter.condition import parse_filter

UTC = datetime.UTC
NAN = float("nan")
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("i", pa.int32()),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("s", pa.string()),
        ("flag", pa.bool_()),
        ("d", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("price", pa.decimal128(10, 2)),
        ("raw", pa.binary()),
        ("inner", pa.struct([("a", pa.int32()), ("B", pa.struct([("c", pa.string())]))])),
        ("items", pa.list_(pa.int32())),
        ("we`ird name", pa.int8()),
    ]
)
TABLE = pa.Table.from_pylist(
    [
        {
            "id": 1,
            "i": 1,
            "x": 1.0,
            "f": 0.1,
            "s": "abc",
            "flag": True,
            "d": datetime.date(2020, 1, 1),
            "ts": datetime.datetime(2020, 1, 1, tzinfo=UTC),
            "local": datetime.datetime(2020, 1, 1, 5),  # noqa: DTZ001
            "price": Decimal("1.50"),
            "raw": b"a",
            "inner": {"a": 1, "B": {"c": "x"}},
            "items": [1],
        },
        {
            "id": 2,
            "i": -7,
            "x": NAN,
            "f": NAN,
            "s": "a%c",
            "flag": False,
            "d": datetime.date(1969, 12, 31),
            "ts": datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
            "price": Decimal("-2.25"),
            "raw": b"",
        },
        {"id": 3},
        {
            "id": 4,
            "i": 2**31 - 1,
            "x": -0.0,
            "f": 0.5,
            "s": "",
            "flag": True,
            "price": Decimal("0"),
            "inner": {"a": None, "B": None},
            "we`ird name": 5,
        },
        {"id": 5, "i": 0, "x": float("-inf"), "f": float("inf"), "s": "Żółć\n𝄞", "flag": False},
    ],
    schema=SCHEMA,
)


def ids(sql: str) -> list[int]:
    found: list[int] = TABLE.filter(parse_filter(sql, SCHEMA).to_arrow())["id"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        # Names, constants, precedence.
        ("ID = 1", [1]),
        ("`Id` == 1 /* a comment */ -- and another\n", [1]),
        ("`we``ird name` = 5", [4]),
        ("id = 1 OR id = 2 AND i = 0", [1]),
        ("(id = 1 OR id = 2) AND NOT i = 1", [2]),
        ("NOT id = 1 AND id < 3", [2]),
        ("! (id > 1)", [1]),
        ("2 > id", [1]),
        ("true", [1, 2, 3, 4, 5]),
        ("null", []),
        ("1 = 1 AND id = 3", [3]),
        ("1 = 2 OR id = 3", [3]),
        ("id = 1 + 1", [2]),
        ("id = 2L OR id = 3S OR id = 4Y", [2, 3, 4]),
        # Three-valued logic.
        ("i = NULL", []),
        ("abs(NULL) = i OR -NULL = i OR i = 1", [1]),
        ("lower(NULL) IS NULL AND i = 1", [1]),
        ("NOT (i = NULL)", []),
        ("i <=> NULL", [3]),
        ("NULL <=> NULL AND id = 1", [1]),
        ("i <=> 1", [1]),
        ("NOT (i <=> 1)", [2, 3, 4, 5]),
        ("i IS DISTINCT FROM 1", [2, 3, 4, 5]),
        ("i IS NOT DISTINCT FROM 1", [1]),
        ("i IS NULL", [3]),
        ("i IS NOT NULL", [1, 2, 4, 5]),
        ("(i = 1) IS NULL", [3]),
        ("i = 1 IS NULL", [3]),
        ("flag", [1, 4]),
        ("NOT flag", [2, 5]),
        ("flag IS TRUE", [1, 4]),
        ("flag IS NOT TRUE", [2, 3, 5]),
        ("flag IS FALSE", [2, 5]),
        ("flag IS UNKNOWN", [3]),
        ("(i > 0) IS NOT FALSE", [1, 3, 4]),
        ("flag = (i > 0)", [1, 2, 4, 5]),
        ("flag < true", [2, 5]),
        ("i IN (1, -7)", [1, 2]),
        ("i IN (1, NULL)", [1]),
        ("i NOT IN (1, -7)", [4, 5]),
        ("i NOT IN (1, NULL)", []),
        ("i IN (id, 0)", [1, 5]),
        ("(i IN (1, NULL)) IS NULL", [2, 3, 4, 5]),
        ("i BETWEEN 0 AND 1", [1, 5]),
        ("i NOT BETWEEN 0 AND 1", [2, 4]),
        ("i BETWEEN NULL AND -8", []),
        ("NOT (i BETWEEN NULL AND -8)", [1, 2, 4, 5]),
        # Floating-point numbers: NaN is equal to itself and above all, the zeros are one.
        ("x > 0", [1, 2]),
        ("x >= 1", [1, 2]),
        ("x < 1", [4, 5]),
        ("x <= 1e300", [1, 4, 5]),
        ("NOT (x < 1)", [1, 2]),
        ("x = 0", [4]),
        ("x IN (0)", [4]),
        ("x IN (0, 1)", [1, 4]),
        ("x NOT IN (0, 1)", [2, 5]),
        ("x <> 1", [2, 4, 5]),
        ("x = CAST('NaN' AS DOUBLE)", [2]),
        ("x IN (CAST('NaN' AS DOUBLE), 1)", [1, 2]),
        ("x < CAST('NaN' AS DOUBLE)", [1, 4, 5]),
        ("x <= CAST('NaN' AS DOUBLE)", [1, 2, 4, 5]),
        ("x > CAST('NaN' AS DOUBLE)", []),
        ("x = x", [1, 2, 4, 5]),
        ("x >= f", [1, 2]),
        ("x < f", [4, 5]),
        ("isnan(x)", [2]),
        ("NOT isnan(x)", [1, 3, 4, 5]),
        ("x = CAST('-Infinity' AS DOUBLE)", [5]),
        # Constants of other types than the column's, as Spark brings them together.
        ("f = 0.1", []),
        ("f > 0.1", [1, 2, 4, 5]),
        ("f = 0.1F", [1]),
        ("f = CAST(0.1 AS FLOAT)", [1]),
        ("f <> 0.1", [1, 2, 4, 5]),
        ("i = '1'", [1]),
        ("'1' = i", [1]),
        ("id = ' +2 '", [2]),
        ("i IN ('1', -7)", [1, 2]),
        ("i < '99999999999'", [1, 2, 4, 5]),
        ("'5' = 5 AND id = 1", [1]),
        ("x = 'NaN'", [2]),
        ("price = '1.50'", [1]),
        ("price BETWEEN '-3' AND '0'", [2, 4]),
        ("flag = 'true'", [1, 4]),
        ("raw = 'a'", [1]),
        ("i > 0.5", [1, 4]),
        ("i = 1.0", [1]),
        ("i = 1.5", []),
        ("i <> 1.5", [1, 2, 4, 5]),
        ("i < 1e10", [1, 2, 4, 5]),
        ("i < 9999999999", [1, 2, 4, 5]),
        ("NOT (i < 9999999999)", []),
        ("i > -9999999999 AND i < 0", [2]),
        ("price = 1.5", [1]),
        ("price > 0.001", [1]),
        ("price >= -2.25D", [1, 2, 4]),
        ("price < 99999999999", [1, 2, 4]),
        ("price IN (1.500, 0)", [1, 4]),
        ("i = id", [1]),
        # Text and binary.
        ("s = 'abc'", [1]),
        ('s = "abc"', [1]),
        ("s = 'a' ", []),
        ("s < 'b'", [1, 2, 4]),
        ("s = 'Żółć\\n\\U0001D11E'", [5]),
        ("s LIKE 'a%'", [1, 2]),
        ("s LIKE '%c'", [1, 2]),
        ("s LIKE '%b%'", [1]),
        ("s LIKE 'a_c'", [1, 2]),
        ("s LIKE 'a\\%c'", [2]),
        ("s LIKE 'a!%c' ESCAPE '!'", [2]),
        ("s LIKE '%'", [1, 2, 4, 5]),
        ("s LIKE ''", [4]),
        ("s LIKE '____\\n_'", [5]),
        ("s NOT LIKE 'a%'", [4, 5]),
        ("s LIKE NULL", []),
        ("raw = X'61'", [1]),
        ("raw < X'61'", [2]),
        ("raw = X''", [2]),
        # Dates and timestamps.
        ("d = '2020-01-01'", [1]),
        ("d = DATE '2020-01-01'", [1]),
        ("d < '2020'", [2]),
        ("d BETWEEN '1969-12-31' AND '1970-1-1'", [2]),
        ("d IN ('2020-01-01', '1969-12-31 10:00')", [1, 2]),
        ("d < TIMESTAMP '2020-01-01 00:00:00.000001'", [1, 2]),
        ("d < TIMESTAMP '2020-01-01'", [2]),
        ("ts >= '2020-01-01'", [1]),
        ("ts = TIMESTAMP '2020-01-01 01:00:00+01:00'", [1]),
        ("ts = '2020-01-01T00:00Z'", [1]),
        ("ts = '2020-01-01 01:00 Europe/Paris'", [1]),
        ("ts = '1969-12-31 23:59:59.999999'", [2]),
        ("ts < DATE '1970-01-01'", [2]),
        ("ts = d", [1]),
        ("local = TIMESTAMP_NTZ '2020-01-01 05:00'", [1]),
        ("local > ts", [1]),
        # Nested columns.
        ("inner.a = 1", [1]),
        ("INNER.b.C = 'x'", [1]),
        ("inner.b IS NULL", [2, 3, 4, 5]),
        ("inner IS NOT NULL", [1, 4]),
        ("items IS NULL", [2, 3, 4, 5]),
        # Arithmetic, casts, functions.
        ("i + i > 5", [4]),
        ("-i = 7", [2]),
        ("i - -7 = 0", [2]),
        ("i * 2 = -14", [2]),
        ("i % 2 = -1", [2]),
        ("i DIV 2 = -3", [2]),
        ("i / 2 = -3.5", [2]),
        ("1 / i IS NULL", [3, 5]),
        ("i % i IS NULL", [3, 5]),
        ("price * 2 = 3", [1]),
        ("price + 0.001 = 1.501", [1]),
        ("CAST(i AS STRING) = '1'", [1]),
        ("CAST(i AS DECIMAL(12, 2)) = 1.00", [1]),
        ("CAST(d AS TIMESTAMP) = ts", [1]),
        ("CAST(ts AS DATE) = d", [1, 2]),
        ("id = CAST('2' AS INT)", [2]),
        ("abs(i) = 7", [2]),
        ("lower(s) = 'żółć\\n𝄞'", [5]),
        ("upper(s) = 'ABC'", [1]),
        ("length(s) = 6", [5]),
        ("length(raw) = 0", [2]),
        ("substring(s, -1, 1) = 'c'", [1, 2]),
        ("substring(s, -1) = 'c'", [1, 2]),
        ("substr(s, 2, 1) = 'b'", [1]),
        ("substring(s, 0, 2) = 'ab'", [1]),
        ("substring(s, -5, 3) = 'a'", [1, 2]),
        ("startswith(s, 'Żó')", [5]),
        ("endswith(s, 'c')", [1, 2]),
        ("contains(s, '%')", [2]),
        ("coalesce(i, 0) = 0", [3, 5]),
        ("coalesce(i, id) = 3", [3]),
        ("nvl(flag, true) AND id > 1", [3, 4]),
        ("year(ts) = 1969 AND month(d) = 12 AND day(d) = 31", [2]),
        ("isnull(i) OR isnotnull(items)", [1, 3]),
    ],
)
def test_rows(sql: str, expected: list[int]) -> None:
    assert ids(sql) == expected
    # The same as NOT of NOT, which takes the way through all opposites.
    assert ids(f"NOT (NOT ({sql}))") == expected
    assert ids(f"(NOT ({sql})) = false") == expected
    assert ds.dataset(TABLE).to_table(filter=parse_filter(sql, SCHEMA).to_arrow())["id"].to_pylist() == expected


@pytest.mark.parametrize("sql", ["i / 0 = 1", "i % 0 = 1", "i DIV 0 = 1", "9223372036854775807 + id = 1"])
def test_arithmetic_never_fails(sql: str) -> None:
    assert ids(sql) == []


def test_whole_numbers_wrap_around() -> None:
    schema = pa.schema([("n", pa.int64())])
    table = pa.table({"n": [-(2**63)]}, schema)
    for sql in ("n - 1 = 9223372036854775807", "n DIV -1 = n", "n % -1 = 0", "-n = n", "abs(n) = n"):
        assert table.filter(parse_filter(sql, schema).to_arrow()).num_rows == 1, sql


def test_columns_are_those_used_in_the_schemas_order() -> None:
    assert parse_filter("s = 'a' AND (INNER.a = 1 OR i + id > 3)", SCHEMA).columns == ("id", "i", "s", "inner")
    assert parse_filter("true", SCHEMA).columns == ()


def test_filters_travel() -> None:
    condition = parse_filter("price > 1 AND s IN ('abc', 'b') AND inner.a = 1", SCHEMA)
    copy = pickle.loads(pickle.dumps(condition))
    assert copy == condition
    assert TABLE.filter(copy.to_arrow())["id"].to_pylist() == [1]


def test_many_alternatives_are_one_set() -> None:
    sql = " OR ".join(f"id = {n}" for n in range(1, 1500))
    assert ids(sql) == [1, 2, 3, 4, 5]
    long_list = "id IN (" + ", ".join(str(n) for n in range(2, 15_000)) + ")"
    assert ids(long_list) == [2, 3, 4, 5]


def test_deep_nesting_within_the_limit_is_evaluated() -> None:
    assert ids("(" * 190 + "id = 1" + ")" * 190) == [1]
    assert ids("id = 1" + " OR (i = 5 AND (flag" * 45 + "))" * 45) == [1]
    # What a program makes that joins conditions one by one.
    assert ids("(" * 150 + "id = 1" + " AND i < 100)" * 150) == [1]


def test_importing_filters_brings_in_no_large_library() -> None:
    code = "import sys, lakelog.format.filter.condition as _; "
    code += "print([m for m in ('pandas', 'sqlglot', 'duckdb') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
