"""Encoded partitions at the edge: one encoding for one partition, so that the same values are always the same one."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.format.keys.encoding import encode_key
from metastore.tables.partitions import check_partition


def test_what_writers_encode_is_taken() -> None:
    types = [pa.string(), pa.bool_(), pa.int16(), pa.decimal128(30, 2)]
    values = [pa.scalar("a\0b"), pa.scalar(True), pa.scalar(None, pa.int16()), pa.scalar(-5, pa.decimal128(30, 2))]
    check_partition(encode_key(values), types, "shop.t")
    check_partition(b"", [], "shop.t")


@pytest.mark.parametrize(
    ("partition", "data_type"),
    [
        (b"\x01\x02", pa.bool_()),
        (b"\x01a\x00\x01\x00\x00", pa.string()),
        (b"\x01a", pa.string()),
        (b"\x01a\x00\x00\x00", pa.string()),
        (b"\x01" + b"\xff" * 8, pa.int16()),
        (b"", pa.string()),
    ],
)
def test_what_only_looks_like_an_encoding_is_refused(partition: bytes, data_type: pa.DataType) -> None:
    with pytest.raises(InvalidArgument, match=r"1 partition columns .* this is no encoding of their values"):
        check_partition(partition, [data_type], "shop.t")
