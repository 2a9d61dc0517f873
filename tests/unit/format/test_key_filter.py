"""Filters of keys: none of their own is ever left out, and few others come through."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakelog.format.keys.bloom_filter import KeyFilter, hash_codes, make_filter
from lakelog.format.keys.codes import find_key_codes

KEYS = {
    "rising": lambda numbers: pa.array(numbers),
    "far apart": lambda numbers: pa.array(numbers * 2**20),
    "negative": lambda numbers: pa.array(-numbers),
    "dates": lambda numbers: pa.array(numbers.astype(np.int32), pa.date32()),
    "texts": lambda numbers: pa.array([f"order-{number:09d}" for number in numbers]),
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 100, 4096, 4097, 30_000])
def test_its_own_come_through_and_few_others(kind: str, count: int) -> None:
    codes = find_key_codes([KEYS[kind](np.arange(count + 20_000))])
    own, others = codes[:count], codes[count:]
    words = make_filter(own)
    assert len(words) == 2 or 16 * count <= 64 * len(words) < 32 * count + 64
    tested = KeyFilter(words)
    assert tested.may_hold(hash_codes(own)).all()
    # A quarter of the words' bits are set at most; of small filters the words are few, and some are fuller.
    assert tested.may_hold(hash_codes(others)).mean() < (0.01 if count > 1000 else 0.2)


def test_some_of_the_keys_may_be_asked_for() -> None:
    hashes = hash_codes(np.arange(100))
    tested = KeyFilter(make_filter(np.array([7, 70])))
    found = tested.may_hold(hashes)
    assert tested.may_hold(hashes.take(np.array([70, 8, 7]))).tolist() == [True, found[8], True]
