"""Codes of keys: the same for the same key wherever it stands, and different for different ones."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.format.keys.codes import are_exact, find_key_codes

TEXTS = st.text(max_size=20) | st.sampled_from(
    ["", "\x00", "\x00\x00", "a\x00", "x" * 127, "x" * 128, "x" * 129, "x" * 300]
)
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), TEXTS),
    "octets": (pa.binary(), TEXTS.map(str.encode)),
    "tiny": (pa.int8(), st.integers(-128, 127)),
    "big": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "flag": (pa.bool_(), st.booleans()),
    "day": (pa.date32(), st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1))),
    "short": (pa.decimal128(10, 2), st.integers(-(10**9), 10**9).map(lambda n: decimal.Decimal(n).scaleb(-2))),
    "long": (pa.decimal128(38, 0), st.integers(-(10**30), 10**30).map(decimal.Decimal)),
}


@pytest.mark.parametrize(
    "names", [("text",), ("octets",), ("flag",), ("long",), ("text", "big"), ("big", "text"), ("day", "short", "tiny")]
)
@given(st.data())
def test_keys_have_the_same_code_exactly_when_they_are_equal(names: tuple[str, ...], data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.tuples(*(COLUMNS[name][1] for name in names)), min_size=1, max_size=20))
    columns = [pa.array([key[i] for key in keys], COLUMNS[name][0]) for i, name in enumerate(names)]
    codes = find_key_codes(columns)
    # By itself, in a slice and among others each key has the same code.
    for place in range(len(keys)):
        alone = find_key_codes([column.slice(place, 1) for column in columns])
        assert alone[0] == codes[place]
    assert len(set(codes.tolist())) == len(set(keys))


def test_codes_of_one_integer_are_the_integers() -> None:
    for data_type in (pa.int8(), pa.int32(), pa.int64(), pa.date32(), pa.timestamp("us")):
        assert are_exact([data_type])
    assert find_key_codes([pa.array([3, -1, 2], pa.int16())]).tolist() == [3, -1, 2]
    assert find_key_codes([pa.chunked_array([[1], [2, 3]])]).tolist() == [1, 2, 3]
    for types in ([pa.string()], [pa.int64(), pa.int64()], [pa.decimal128(18, 3)], [pa.bool_()]):
        assert not are_exact(types)


def test_what_a_hash_must_not_do_codes_do_not() -> None:
    """Similar keys, and keys whose columns are exchanged or shifted, have different codes; bits are spread."""
    numbers = np.arange(200_000)
    pairs = [pa.array(numbers % 447), pa.array(numbers // 447)]
    assert len(np.unique(find_key_codes(pairs))) == len(numbers)
    assert (find_key_codes(pairs) != find_key_codes(pairs[::-1]))[numbers % 447 != numbers // 447].all()
    texts = pa.array([f"user-{n:012d}" for n in range(100_000)])
    codes = find_key_codes([texts])
    assert len(np.unique(codes)) == 100_000
    ones = np.unpackbits(codes.view(np.uint8)).mean()
    assert 0.49 < ones < 0.51
    split = find_key_codes([pa.array(["ab", "a"]), pa.array(["c", "bc"])])
    assert split[0] != split[1]


def test_no_rows_have_no_codes() -> None:
    assert len(find_key_codes([pa.array([], pa.string()), pa.array([], pa.int64())])) == 0
