"""Each widening is tried with the values at the ends of its type: what the rules say must hold for real values."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal

import pyarrow as pa
import pytest

from lakelog.format.keys.bucket import assign_buckets
from lakelog.format.keys.encoding import encode_values
from lakelog.format.types.types import INSTANT, LOCAL_TIMESTAMP
from lakelog.format.types.widening import explain_refusal, is_widening, keeps_bucket, keeps_encoding

BUCKETS = 1 << 16
"""So many that values of another hash are in another bucket."""

_DAYS = [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]
VALUES = {
    **{
        pa.from_numpy_dtype(f"int{bits}"): [-(2 ** (bits - 1)), -1, 0, 1, 77, 2 ** (bits - 1) - 1]
        for bits in (8, 16, 32, 64)
    },
    pa.float32(): [-1.5, 0.0, 2.0**-140, 3.0e38],
    pa.float64(): [-1.5, 0.0, 1e300],
    pa.decimal128(5, 2): [Decimal("-999.99"), Decimal("0.00"), Decimal("1.10"), Decimal("999.99")],
    pa.decimal128(7, 2): [Decimal("99999.99"), Decimal("1.10")],
    pa.decimal128(7, 4): [Decimal("999.9999")],
    pa.decimal128(20, 2): [Decimal("9" * 18 + ".99")],
    pa.decimal128(10, 0): [Decimal("9999999999")],
    pa.decimal128(38, 10): [Decimal("9" * 28 + ".9999999999")],
    pa.date32(): _DAYS,
    LOCAL_TIMESTAMP: [dt.datetime.fromisoformat("2024-02-29T13:00")],
    INSTANT: [dt.datetime(2024, 2, 29, 13, tzinfo=dt.UTC)],
    pa.string(): ["", "a"],
    pa.binary(): [b"", b"a"],
    pa.bool_(): [True, False],
}
PAIRS = [pair for pair in itertools.product(VALUES, VALUES) if is_widening(*pair)]


@pytest.mark.parametrize(("old", "new"), PAIRS, ids=str)
def test_a_widening_keeps_each_value_its_order_and_what_is_said_of_its_form(old: pa.DataType, new: pa.DataType) -> None:
    values = pa.array(VALUES[old], old)
    widened = values.cast(new)
    assert widened.cast(old).equals(values)
    assert (encode_values(widened).equals(encode_values(values))) == keeps_encoding(old, new)
    if not pa.types.is_floating(old) and not pa.types.is_floating(new):
        same = assign_buckets([values], BUCKETS).tolist() == assign_buckets([widened], BUCKETS).tolist()
        assert same or not keeps_bucket(old, new)


@pytest.mark.parametrize(("old", "new"), [(old, new) for old, new in PAIRS if keeps_bucket(old, new)], ids=str)
def test_what_keeps_its_bucket_keeps_its_form(old: pa.DataType, new: pa.DataType) -> None:
    assert keeps_encoding(old, new)


def test_the_widenings_are_these() -> None:
    by_type = {old: [new for other, new in PAIRS if other == old] for old in VALUES}
    decimals = [each for each in VALUES if pa.types.is_decimal(each)]
    assert by_type[pa.int8()] == [
        pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), *decimals,
    ]  # fmt: skip
    assert by_type[pa.int32()] == [
        pa.int64(), pa.float64(), pa.decimal128(20, 2), pa.decimal128(10, 0), pa.decimal128(38, 10),
    ]  # fmt: skip
    assert by_type[pa.int64()] == [pa.decimal128(38, 10)]
    assert by_type[pa.float32()] == [pa.float64()]
    assert by_type[pa.decimal128(5, 2)] == [
        pa.decimal128(7, 2), pa.decimal128(7, 4), pa.decimal128(20, 2), pa.decimal128(38, 10),
    ]  # fmt: skip
    assert by_type[pa.date32()] == [LOCAL_TIMESTAMP]
    for fixed in (pa.float64(), LOCAL_TIMESTAMP, INSTANT, pa.string(), pa.binary(), pa.bool_()):
        assert by_type[fixed] == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (pa.int64(), pa.int32(), "INT is narrower"),
        (pa.int32(), pa.string(), "It may become BIGINT, DOUBLE"),
        (pa.decimal128(10, 2), pa.decimal128(10, 3), "more digits before the point, behind it, or both"),
        (pa.string(), pa.int32(), "STRING keeps its type"),
        (pa.list_(pa.int8()), pa.list_(pa.int16()), "one by one, by their paths"),
    ],
)
def test_a_refusal_says_what_is_possible(old: pa.DataType, new: pa.DataType, says: str) -> None:
    assert says in explain_refusal(old, new)
