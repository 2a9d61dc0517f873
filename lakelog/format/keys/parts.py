"""The single values of a composite encoded key (`encoding.py`), without decoding them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyarrow import types as pt

from lakelog.errors import DataCorrupted


def split_key(encoded: bytes, types: Sequence[pa.DataType]) -> tuple[bytes, ...]:
    """Returns the encoding of each value of an untruncated composite key or partition. Pure.

    Args:
        encoded: The result of `keys.encode_key` or `keys.encode_partition`.
        types: The columns' canonical types, in the same order.

    Returns:
        One encoding per column, including its marker; concatenated they are `encoded`.

    Raises:
        DataCorrupted: The bytes do not have the length of such a key.
    """
    parts = []
    start = 0
    for data_type in types:
        end = _end_of_value(encoded, start, data_type)
        parts.append(encoded[start:end])
        start = end
    if start != len(encoded):
        raise _damaged(encoded, types)
    return tuple(parts)


def _end_of_value(encoded: bytes, start: int, data_type: pa.DataType) -> int:
    marker = encoded[start : start + 1]
    if marker == b"\x00":
        return start + 1
    if marker != b"\x01":
        raise _damaged(encoded, [data_type])
    if pt.is_string(data_type) or pt.is_binary(data_type):
        end = encoded.find(b"\x00\x00", start + 1) + 2
        if end < start + 3:
            raise _damaged(encoded, [data_type])
        return end
    end = start + 1 + (1 if pt.is_boolean(data_type) else 16 if pt.is_decimal128(data_type) else 8)
    if end > len(encoded):
        raise _damaged(encoded, [data_type])
    return end


def _damaged(encoded: bytes, types: Sequence[pa.DataType]) -> DataCorrupted:
    return DataCorrupted(
        f"{encoded[:40]!r} is not the encoding of values of the types {', '.join(map(str, types)) or '(none)'}; it was "
        "truncated or damaged."
    )
