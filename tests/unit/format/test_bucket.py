"""The bucket function against hashes that Spark made (bench/kernels/make_bucket_vectors.py)."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.format.keys.bucket import assign_buckets, hash_columns
from lakelog.format.types.sql_types import from_sql_type

VECTORS: dict[str, Any] = json.loads((Path(__file__).parent / "bucket_vectors.json").read_text())


def to_array(values: list[Any], sql_type: str) -> pa.Array:
    data_type = from_sql_type(sql_type)
    if pa.types.is_floating(data_type):
        return pa.array([None if v is None else float.fromhex(v) for v in values], data_type)
    if pa.types.is_decimal(data_type):
        return pa.array([None if v is None else Decimal(v) for v in values], data_type)
    if pa.types.is_binary(data_type):
        return pa.array([None if v is None else bytes.fromhex(v) for v in values], data_type)
    if pa.types.is_boolean(data_type) or pa.types.is_string(data_type):
        return pa.array(values, data_type)
    width = pa.int32() if pa.types.is_date(data_type) else pa.int64()
    numbers = pa.array([None if v is None else int(v) for v in values], width)
    return numbers.cast(data_type)


@pytest.mark.parametrize("case", VECTORS["single"], ids=lambda case: case["type"])
def test_every_type_hashes_as_in_spark(case: dict[str, Any]) -> None:
    array = to_array(case["values"], case["type"])
    assert hash_columns([array]).tolist() == case["hashes"]
    # The same values behind an offset, in chunks, and one by one.
    shifted = pa.concat_arrays([array[:1], array]).slice(1)
    assert hash_columns([shifted]).tolist() == case["hashes"]
    assert hash_columns([pa.chunked_array([array[:3], array[3:3], array[3:]])]).tolist() == case["hashes"]
    assert [int(hash_columns([array[i : i + 1]])[0]) for i in range(len(array))] == case["hashes"]


@pytest.mark.parametrize("case", VECTORS["combined"], ids=lambda case: "+".join(case["types"]))
def test_several_columns_fold_as_in_spark(case: dict[str, Any]) -> None:
    columns = [to_array([row[i] for row in case["rows"]], t) for i, t in enumerate(case["types"])]
    assert hash_columns(columns).tolist() == case["hashes"]


def test_vectors_of_the_design() -> None:
    def one(value: Any, data_type: pa.DataType) -> int:
        return int(hash_columns([pa.array([value], data_type)])[0])

    assert one(1, pa.int64()) == -1712319331
    assert one(1, pa.int32()) == -559580957
    assert one("abcdef", pa.string()) == 724255765
    assert one("", pa.string()) == 142593372
    assert one("żółć", pa.string()) == 1585930290
    assert one(True, pa.bool_()) == -559580957
    assert one(-0.0, pa.float64()) == one(0.0, pa.float64()) == -1670924195
    assert one(None, pa.string()) == 42
    assert int(hash_columns([pa.array([1]), pa.array(["a"])])[0]) == 573093329


def test_rows_beyond_one_chunk_of_work() -> None:
    numbers = np.arange(100_000)
    texts = pa.array(numbers).cast(pa.string())
    whole = hash_columns([pa.array(numbers), texts])
    parts = [hash_columns([pa.array(numbers[i : i + 999]), texts[i : i + 999]]) for i in range(0, 100_000, 999)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


def test_buckets_are_never_negative() -> None:
    hashes = hash_columns([pa.array(range(1000))])
    assert hashes.min() < 0
    buckets = assign_buckets([pa.array(range(1000))], 7)
    assert buckets.dtype == np.int32
    assert buckets.tolist() == [h % 7 for h in hashes.tolist()]
    assert set(assign_buckets([pa.array(range(9))], 1).tolist()) == {0}
    assert len(assign_buckets([pa.array([], pa.string())], 3)) == 0


def test_what_cannot_be_hashed() -> None:
    with pytest.raises(InvalidArgument, match="at least one"):
        hash_columns([])
    with pytest.raises(InvalidArgument, match=r"lengths: \[1, 2\]"):
        hash_columns([pa.array([1]), pa.array([1, 2])])
    with pytest.raises(InvalidArgument, match="list"):
        hash_columns([pa.array([[1]])])
    for count in (0, -1, 65537):
        with pytest.raises(InvalidArgument, match=f"bucket = {count} "):
            assign_buckets([pa.array([1])], count)
