"""Types of columns that only their values tell."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from lakelog.records.inferred_types import infer_json, infer_texts, join_schemas, leave_out_untyped
from lakelog.records.text_options import TextOptions

LOCAL = pa.timestamp("us")


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (["1", "-5", None, ""], pa.int64()),
        (["1", "2.5"], pa.float64()),
        (["1", "99999999999999999999"], pa.float64()),
        (["true", "FALSE"], pa.bool_()),
        (["2013-01-01", "2014-12-31"], pa.date32()),
        (["2013-01-01 05:00:00", "2013-01-01T05:00:00.5"], LOCAL),
        (["2013-01-01T05:00:00Z"], pa.timestamp("us", "UTC")),
        (["1", "x"], pa.string()),
        (["01/02/2013"], pa.string()),
        ([None, ""], pa.null()),
        ([], pa.null()),
    ],
)
def test_texts(texts: list[str | None], wanted: pa.DataType) -> None:
    assert infer_texts(pa.array(texts, pa.string()), TextOptions()) == wanted


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([{"a": 1}, {"b": "2013-01-01", "a": None}], {"a": pa.int64(), "b": pa.string()}),
        ([{"a": 1}, {"a": 1.5}], {"a": pa.float64()}),
        ([{"a": True, "n": None}], {"a": pa.bool_(), "n": pa.null()}),
        ([{"a": {"b": [1]}}, {"a": {"c": "x"}}], {"a": pa.struct([("b", pa.list_(pa.int64())), ("c", pa.string())])}),
        ([{"a": 1}, {"a": "x"}], {"a": pa.string()}),
        ([{"a": 2**63}], {"a": pa.float64()}),
        ([{"a": [1, "x"]}], {"a": pa.list_(pa.string())}),
        ([1, [], "x", {"a": 1}], {"a": pa.int64()}),
    ],
)
def test_json(values: list[Any], wanted: dict[str, pa.DataType]) -> None:
    assert infer_json(pa.array([json.dumps(each).encode() for each in values])) == pa.schema(list(wanted.items()))
    damaged = pa.array([*(json.dumps(each).encode() for each in values), b"{", None], pa.binary())
    assert infer_json(damaged) == pa.schema(list(wanted.items()))


def test_what_has_no_type_is_left_out() -> None:
    inner = pa.struct([("a", pa.null()), ("b", pa.int64())])
    schema = pa.schema([("n", pa.null()), ("s", inner), ("e", pa.struct([])), ("l", pa.list_(pa.null()))])
    assert leave_out_untyped(schema) == pa.schema([("s", pa.struct([("b", pa.int64())]))])
    assert join_schemas([schema, pa.schema([("n", pa.string())])]).field("n").type == pa.string()
