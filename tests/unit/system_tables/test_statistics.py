"""Statistics of files in the columns' types and by their present names."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakelog.format.keys.encoding import encode_value, lower_bound, upper_bound
from lakelog.format.tables.files import ColumnStatistics
from lakelog.format.tables.packed_statistics import encode_statistics
from lakelog.format.tables.statistics import BOUND_LENGTH, StatisticsCollector
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.system_tables.metadata.statistics import decode_statistics


def schema_of(*fields: pa.Field, schema_id: int = 0, ids: tuple[int, ...] = ()) -> TableSchema:
    arrow = assign_field_ids(pa.schema(fields))
    if ids:
        arrow = pa.schema(
            [field.with_metadata({b"PARQUET:field_id": str(each)}) for field, each in zip(arrow, ids, strict=True)]
        )
    return TableSchema(schema_id, arrow)


def shown(table: pa.Table, schema: TableSchema) -> list[dict[str, Any]]:
    collector = StatisticsCollector(schema.field_ids)
    collector.update(table)
    encoded = pa.array([encode_statistics(collector.finish())], pa.binary())
    found: list[dict[str, Any]] = decode_statistics(encoded, pa.array([0], pa.int32()), schema, {0: schema}).to_pylist()
    return found


def test_types() -> None:
    fields = [
        pa.field("n", pa.int16()),
        pa.field("x", pa.float32()),
        pa.field("b", pa.bool_()),
        pa.field("t", pa.string()),
        pa.field("d", pa.date32()),
        pa.field("l", pa.list_(pa.int64())),
        pa.field("e", pa.decimal128(5, 2)),
    ]
    schema = schema_of(*fields)
    columns: list[list[Any]] = [
        [3, None, -1],
        [0.5, float("nan"), -2.0],
        [True, False, None],
        ["b", "a", None],
        [1, 2, 3],
        [[1], [], None],
        [None, None, None],
    ]
    table = pa.table(columns, schema=schema.arrow)
    (found,) = shown(table, schema)
    assert list(found) == ["n", "x", "b", "t", "d", "e"]
    assert found["n"] == {"min": -1, "max": 3, "nulls": 1}
    assert found["x"]["min"] == -2.0
    assert found["x"]["max"] != found["x"]["max"]
    assert found["b"] == {"min": False, "max": True, "nulls": 1}
    assert found["t"] == {"min": "a", "max": "b", "nulls": 1}
    assert found["e"] == {"min": None, "max": None, "nulls": 3}


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("short", "short", "short"),
        ("exactly 13 by", "exactly 13 by", "exactly 13 by"),
        ("a text that is longer", "a text that is \u2026", "a text that is \u2026"),
        # The bound ends in the middle of a character, which is left out.
        ("1234567890123\u20ac\u20ac", "1234567890123\u2026", "1234567890123\u2026"),
        ("12345678901234\u00e9\u00e9", "12345678901234\u2026", "12345678901234\u2026"),
        ("\U0001f600" * 5, "\U0001f600" * 3 + "\u2026", "\U0001f600" * 3 + "\u2026"),
        ("nul\x00in", "nul\x00in", "nul\x00in"),
        ("", "", ""),
    ],
)
def test_texts_that_are_cut(text: str, low: str, high: str) -> None:
    schema = schema_of(pa.field("t", pa.string()))
    (found,) = shown(pa.table({"t": [text]}, schema=schema.arrow), schema)
    assert (found["t"]["min"], found["t"]["max"]) == (low, high)


def test_columns_are_found_by_id_and_widened() -> None:
    old = schema_of(pa.field("a", pa.int32()), pa.field("gone", pa.int32()), ids=(1, 2))
    new = schema_of(pa.field("renamed", pa.int64()), pa.field("gone", pa.string()), schema_id=1, ids=(1, 3))

    def one(field_id: int, low: pa.Scalar, high: pa.Scalar) -> bytes | None:
        bounds = lower_bound(encode_value(low), BOUND_LENGTH), upper_bound(encode_value(high), BOUND_LENGTH)
        return encode_statistics([ColumnStatistics(field_id, 0, *bounds)])

    encoded = pa.array(
        [
            one(1, pa.scalar(1, pa.int32()), pa.scalar(2, pa.int32())),
            one(1, pa.scalar(3, pa.int64()), pa.scalar(2**40, pa.int64())),
            one(2, pa.scalar(7, pa.int32()), pa.scalar(7, pa.int32())),
            None,
        ],
        pa.binary(),
    )
    ids = pa.array([0, 1, 0, 0], pa.int32())
    found = decode_statistics(encoded, ids, new, {0: old, 1: new}).to_pylist()
    assert [each["renamed"] for each in found] == [
        {"min": 1, "max": 2, "nulls": 0},
        {"min": 3, "max": 2**40, "nulls": 0},
        None,
        None,
    ]
    # A dropped column of this name says nothing of the new one.
    assert [each["gone"] for each in found] == [None] * 4


def test_no_columns_with_statistics() -> None:
    schema = schema_of(pa.field("l", pa.list_(pa.int64())))
    found = decode_statistics(pa.array([None], pa.binary()), pa.array([0], pa.int32()), schema, {0: schema})
    assert len(found) == 1
