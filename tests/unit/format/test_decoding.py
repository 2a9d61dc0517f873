"""Many keys are decoded as each of them by itself."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakelog.format.keys.decoding import EncodedKeys
from lakelog.format.keys.encoding import encode_key
from lakelog.format.types.types import INSTANT

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.bool_(): st.booleans(),
    pa.float64(): st.floats(allow_nan=False).map(lambda number: number + 0.0),
    pa.string(): st.text(alphabet=st.sampled_from("ab\x00\xff\u20ac\U0001f600"), max_size=4),
    pa.binary(): st.binary(max_size=4),
    pa.date32(): st.dates(),
    INSTANT: st.datetimes(timezones=st.just(dt.UTC)),
    pa.decimal128(10, 2): st.integers(-(10**9), 10**9).map(lambda number: Decimal(number) / 100),
}


@st.composite
def keys(draw: st.DrawFn) -> tuple[list[pa.DataType], list[list[pa.Scalar]], list[int | None]]:
    types = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    rows = draw(st.lists(st.tuples(*(st.one_of(st.none(), VALUES[each]) for each in types)), max_size=6))
    scalars = [[pa.scalar(value, each) for value, each in zip(row, types, strict=True)] for row in rows]
    # Some keys are cut, or missing.
    cuts = [draw(st.one_of(st.just(None), st.just(None), st.integers(0, 12))) for _ in rows]
    return types, scalars, cuts


@given(keys())
def test_many_keys(case: tuple[list[pa.DataType], list[list[pa.Scalar]], list[int | None]]) -> None:
    types, rows, cuts = case
    whole = [encode_key(row) for row in rows]
    given_keys = [each if cut is None else each[:cut] for each, cut in zip(whole, cuts, strict=True)]
    # A slice begins in the middle of its buffers.
    encoded = pa.array([b"\x01", *given_keys, None], pa.binary()).slice(1)
    keys = EncodedKeys(encoded)
    columns = [keys.take_column(each) for each in types]
    expected = [a == b for a, b in zip(whole, given_keys, strict=True)]
    assert keys.is_complete().tolist() == [*expected, False]
    for row, is_whole in enumerate(expected):
        if is_whole:
            assert [column[row] for column in columns] == rows[row]
    assert all(column[len(rows)].as_py() is None for column in columns)


def test_no_keys() -> None:
    keys = EncodedKeys(pa.array([], pa.binary()))
    assert len(keys.take_column(pa.int64())) == 0
    assert keys.is_complete().tolist() == []
    empty = EncodedKeys(pa.array([b""], pa.binary()))
    assert empty.take_column(pa.string()).to_pylist() == [None]
    assert not np.any(empty.is_complete())
