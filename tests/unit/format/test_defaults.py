from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.format.types.cast import cast_batch
from lakelog.format.types.defaults import (
    WRITE_DEFAULT_KEY,
    fill_left_out,
    to_default_text,
    with_defaults,
    write_default,
)
from lakelog.format.types.schema import assign_field_ids
from lakelog.format.types.types import INSTANT, LOCAL_TIMESTAMP


@pytest.mark.parametrize(
    ("value", "data_type"),
    [
        (5, pa.int8()),
        (-(2**63), pa.int64()),
        (0.1, pa.float32()),
        (0.1, pa.float64()),
        (-math.inf, pa.float64()),
        (True, pa.bool_()),
        ("it's", pa.string()),
        ("", pa.string()),
        (b"\x00\xff", pa.binary()),
        (Decimal("-0.05"), pa.decimal128(4, 2)),
        (7, pa.decimal128(38, 10)),
        (dt.date(1, 1, 1), pa.date32()),
        (dt.datetime.fromisoformat("2020-01-02T03:04:05.000006"), LOCAL_TIMESTAMP),
        (dt.datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC), INSTANT),
        (dt.datetime(9999, 12, 31, tzinfo=dt.timezone(dt.timedelta(hours=5))), INSTANT),
    ],
)
def test_a_default_is_read_back_as_it_was_given(value: object, data_type: pa.DataType) -> None:
    field = pa.field("a", data_type)
    stored = field.with_metadata({WRITE_DEFAULT_KEY: to_default_text(value, field)})
    expected = (
        pa.array([value], data_type) if not isinstance(value, int | Decimal) else pa.array([value]).cast(data_type)
    )
    assert fill_left_out(stored, 3).equals(pa.concat_arrays([expected] * 3))
    assert write_default(field) is None
    assert fill_left_out(field, 2).null_count == 2


def test_not_a_number_is_a_default() -> None:
    field = pa.field("a", pa.float64())
    found = write_default(field.with_metadata({WRITE_DEFAULT_KEY: to_default_text(math.nan, field)}))
    assert found is not None
    assert math.isnan(found.as_py())


@pytest.mark.parametrize(
    ("value", "data_type", "says"),
    [
        ("5", pa.int32(), "type string: text is not parsed"),
        (300, pa.int8(), "In this type, it cannot become int8"),
        (Decimal("1.234"), pa.decimal128(4, 2), "In this type"),
        (dt.datetime.fromisoformat("2020-01-01"), INSTANT, "assume_timezone"),
        ([1], pa.list_(pa.int64()), "Only columns of single values"),
        (object(), pa.int32(), "cannot be the default"),
        ("x" * 5000, pa.string(), "5000 bytes"),
        (pa.scalar(400_000_000, pa.int32()).cast(pa.date32()), pa.date32(), ""),
    ],
)
def test_what_is_no_default_is_refused_with_its_column(value: object, data_type: pa.DataType, says: str) -> None:
    with pytest.raises(InvalidArgument, match="column 'a'") as error:
        to_default_text(value, pa.field("a", data_type))
    assert says in error.value.message
    assert error.value.metadata["column"] == "a"


def test_a_new_table_has_defaults() -> None:
    schema = with_defaults(pa.schema([("a", pa.int64()), ("b", pa.large_string())]), {"b": "new", "a": None})
    assert cast_batch(
        pa.record_batch({"a": [1]}), schema.set(1, schema.field(1).with_type(pa.string()))
    ).to_pydict() == {
        "a": [1],
        "b": ["new"],
    }
    with pytest.raises(InvalidArgument, match="'c', which is not in the schema: a, b"):
        with_defaults(schema, {"c": 1})
    with pytest.raises(InvalidArgument, match="default of column 'a'"):
        with_defaults(schema, {"a": "x"})


def test_a_write_may_leave_out_a_column_with_a_default() -> None:
    field = pa.field("b", pa.int32(), nullable=False)
    schema = pa.schema([("a", pa.int64()), field.with_metadata({WRITE_DEFAULT_KEY: to_default_text(7, field)})])
    batch = pa.record_batch({"a": [1, 2]})
    assert cast_batch(batch, schema).to_pydict() == {"a": [1, 2], "b": [7, 7]}
    with pytest.raises(InvalidArgument, match="it is NOT NULL"):
        cast_batch(batch, pa.schema([("a", pa.int64()), field]))


def test_an_empty_text_is_a_default() -> None:
    """A text of no characters is another value than NULL."""
    for data_type, value in ((pa.string(), ""), (pa.binary(), b"")):
        given = with_defaults(pa.schema([pa.field("c", data_type)]), {"c": value})
        assert write_default(assign_field_ids(given).field("c")) == pa.scalar(value, data_type)
