"""Values in the places of a condition, and expressions of pyarrow: what they select, and what is refused."""

from __future__ import annotations

import datetime as dt
import functools
import operator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import InvalidArgument
from lakelog.format.filter.condition import parse_filter
from lakelog.sdk.conditions import to_condition

_ROWS = pa.table(
    {
        "id": pa.array([1, 2, -3, None], pa.int64()),
        "name": pa.array(["a", "' OR TRUE --", "100%_\\", None]),
        "price": pa.array([Decimal("1.50"), Decimal("-2.25"), None, Decimal("0.00")], pa.decimal128(9, 2)),
        "x": pa.array([0.1, float("nan"), -1e-7, None]),
        "ok": pa.array([True, False, None, True]),
        "raw": pa.array([b"\x00'", b"", None, b"a"]),
        "day": pa.array([dt.date(2024, 5, 1), dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
        "at": pa.array([0, 1, None, -1], pa.timestamp("us", "UTC")),
        "inner": pa.array([{"b": 1}, {"b": None}, None, {"b": 3}], pa.struct([("b", pa.int64())])),
    }
)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def _select(condition: Any, params: Any = None) -> list[int]:
    """The places of the rows that are selected."""
    sql = to_condition(condition, params)
    assert sql is not None
    rows = _ROWS.append_column("place", pa.array(range(_ROWS.num_rows)))
    places: list[int] = rows.filter(parse_filter(sql, _ROWS.schema).to_arrow()).column("place").to_pylist()
    return places


@pytest.mark.parametrize(
    ("condition", "value", "rows"),
    [
        ("id = :p", 1, [0]),
        ("id = :p", np.int64(-3), [2]),
        ("id = 0-:p", -1, [0]),
        ("id = 0 -:p", 3, [2]),
        ("id < :p", 2.5, [0, 1, 2]),
        ("name = :p", "' OR TRUE --", [1]),
        ("name = :p", "100%_\\", [2]),
        ("name LIKE :p", "100\\%%", [2]),
        ("price = :p", Decimal("1.5"), [0]),
        ("price = :p", Decimal("-2.250"), [1]),
        ("price < :p", Decimal("1E+3"), [0, 1, 3]),
        ("x = :p", 0.1, [0]),
        ("x = :p", -1e-7, [2]),
        ("x = :p", float("nan"), [1]),
        ("x < :p", float("inf"), [0, 2]),
        ("x > :p", float("-inf"), [0, 1, 2]),
        ("ok = :p", True, [0, 3]),
        ("ok = :p", np.bool_(False), [1]),
        ("raw = :p", b"\x00'", [0]),
        ("raw = :p", b"", [1]),
        ("day = :p", dt.date(2024, 5, 1), [0]),
        ("day = :p", dt.date(1, 1, 1), [1]),
        ("at = :p", _EPOCH.astimezone(dt.timezone(dt.timedelta(hours=5))), [0]),
        ("at = :p", _EPOCH + dt.timedelta(microseconds=1), [1]),
        ("at = :p", dt.datetime(1970, 1, 1), [0]),  # noqa: DTZ001
        ("at < :p", pd.Timestamp("1970-01-01", tz="UTC"), [3]),
        ("at = :p", np.datetime64("1970-01-01T00:00:00.000001"), [1]),
        ("at = :p", pd.NaT, []),
        ("id = :p", None, []),
        ("id <> :p", None, []),
        ("id <=> :p", None, [3]),
        ("id = :p", pa.scalar(2), [1]),
        ("id IN :p", [1, -3], [0, 2]),
        ("id IN (:p)", (1, -3), [0, 2]),
        ("id IN (2, :p)", [1, -3], [0, 1, 2]),
        ("id IN :p", pa.array([1, 2]), [0, 1]),
        ("id IN :p", np.array([2]), [1]),
        ("id NOT IN :p", [1, None], []),
        ("name IN :p", ["a", "') OR TRUE OR name IN ('"], [0]),
        ("inner.b = :p", 3, [3]),
    ],
)
def test_a_value_selects_what_equals_it(condition: str, value: object, rows: list[int]) -> None:
    assert _select(condition, {"p": value}) == rows


@given(st.text())
def test_no_text_is_ever_more_than_a_value(text: str) -> None:
    rows = pa.table({"name": [text, text + "x", ""]})
    sql = to_condition("name = :p", {"p": text})
    assert sql is not None
    found = rows.filter(parse_filter(sql, rows.schema).to_arrow()).column("name").to_pylist()
    assert found == [each for each in rows.column("name").to_pylist() if each == text]


def test_names_inside_of_texts_and_comments_are_no_places() -> None:
    assert to_condition("name = ':p' AND id = :p /* :q */", {"p": 1}) == "name = ':p' AND id =  1  /* :q */"


@pytest.mark.parametrize(
    ("condition", "params", "message"),
    [
        ("id = :p", {}, "There is no value for :p"),
        ("id = :p AND name = :q", {"p": 1, "r": 2}, "There is no value for :q"),
        ("id = :p", {"p": 1, "q": 2, "r": 3}, "no place for the value of :q, :r"),
        ("id = 5", {"p": 1}, "no place for the value of :p"),
        ("id = :p", {"p": object()}, r"The value of :p, .*object.*it is a object"),
        ("id = :p", {"p": dt.timedelta(1)}, "it is a timedelta"),
        ("id = :p", {"p": {"a": 1}}, "it is a dict"),
        ("id = :p", {"p": [[1]]}, "it is a list"),
        ("id IN :p", {"p": []}, "The value of :p is an empty list"),
        ("id = :p", {"p": Decimal("NaN")}, "no such decimal"),
        ("id = :p", {"p": Decimal(10) ** 40}, "38 digits"),
        ("name = :p", {"p": "\ud800"}, "no Unicode text"),
        ("at = :p", {"p": pd.Timestamp(1, tz="UTC")}, "parts of a microsecond"),
        ("at = :p", {"p": np.datetime64(1, "ns")}, "parts of a microsecond"),
        ("id = :p", [1], "no dict of values by name"),
        (None, {"p": 1}, "missing here"),
        (pc.field("id") == 1, {"p": 1}, "missing here"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(condition: Any, params: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        to_condition(condition, params)


_ID, _NAME, _X = pc.field("id"), pc.field("name"), pc.field("x")


@pytest.mark.parametrize(
    ("expression", "rows"),
    [
        (_ID == 1, [0]),
        (_ID != 1, [1, 2]),
        ((_ID < 2) & (_ID >= -3), [0, 2]),
        ((_ID > 1) | (_NAME == "a"), [0, 1]),
        (~(_ID == 1), [1, 2]),
        (_ID.is_null(), [3]),
        (_ID.is_valid(), [0, 1, 2]),
        (~_ID.is_valid(), [3]),
        (pa.scalar(None, pa.int64()) == _ID, []),
        (_ID.isin([1, 2]), [0, 1]),
        (~_ID.isin([1, 2]), [2, 3]),
        (_ID.isin([1, None]), [0, 3]),
        (_ID.isin(pa.array([], pa.int64())), []),
        (~_ID.isin(pa.array([], pa.int64())), [0, 1, 2, 3]),
        (pc.starts_with(_NAME, "100%"), [2]),
        (pc.ends_with(_NAME, "_\\"), [2]),
        (pc.match_substring(_NAME, "' OR"), [1]),
        (_NAME == "' OR TRUE --", [1]),
        (pc.field("price") == Decimal("1.5"), [0]),
        (pc.field("ok"), [0, 3]),
        (pc.field("ok") == False, [1]),  # noqa: E712
        (pc.field("raw") == b"\x00'", [0]),
        (pc.field("day") > dt.date(2000, 1, 1), [0, 3]),
        (pc.field("at") == _EPOCH, [0]),
        (pc.field("inner", "b") == 3, [3]),
        (_X < -1e-9, [2]),
        (pc.scalar(True), [0, 1, 2, 3]),
        ((_ID == 1) & (_ID == 1) & (_ID == 1), [0]),
        (((_ID == 1) | (_ID == 2)) & (_NAME == "a"), [0]),
        ((_ID == 1) | (_ID == 2) & (_NAME == "a"), [0]),
        (~((_ID == 1) | (_ID == 2)), [2]),
        (((_ID == 1) | (_ID == 2)).is_null(), [3]),
        (((_ID == 1) & (_ID == 1)) == pc.field("ok"), [0, 1]),
        (functools.reduce(operator.or_, [n == _ID for n in range(2, 2000)]), [1]),
    ],
)
def test_an_expression_of_pyarrow_selects_what_it_selects_there(expression: pc.Expression, rows: list[int]) -> None:
    assert _select(expression) == rows
    numbered = _ROWS.append_column("place", pa.array(range(_ROWS.num_rows)))
    assert numbered.filter(expression).column("place").to_pylist() == rows


def test_nan_means_in_expressions_what_it_means_in_sql() -> None:
    assert _select(float("nan") == _X) == _select("isnan(x)") == [1]
    assert _select(_X > 0) == [0, 1]


def test_columns_of_any_name_are_found() -> None:
    rows = pa.schema([("a`b :p", pa.int64())])
    sql = to_condition(pc.field("a`b :p") == 1, None)
    assert sql is not None
    assert parse_filter(sql, rows).columns == ("a`b :p",)


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        (_ID + 1 > 2, "add_checked"),
        (_ID.cast(pa.int32()) == 1, "cast"),
        (pc.field(0) == 1, "its place"),
        (_X.is_null(nan_is_null=True), "nan_is_null"),
        (pc.starts_with(_NAME, "a", ignore_case=True), "ignore_case"),
        (pc.match_substring_regex(_NAME, "a"), "match_substring_regex"),
        (pa.scalar(dt.timedelta(1)) == _ID, "duration"),
    ],
)
def test_an_expression_that_has_no_sql_is_refused_by_what_it_has(expression: pc.Expression, named: str) -> None:
    with pytest.raises(InvalidArgument, match=named) as error:
        to_condition(expression, None)
    assert "give the condition as SQL text" in error.value.message
