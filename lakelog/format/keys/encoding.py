r"""Order-preserving bytes for values and keys: comparing the bytes, unsigned, is comparing the values.

Files carry their key range and column bounds in this form, so that planning prunes by comparing bytes, in Python and in
Postgres alike, without knowing types. The encoding, which is stored and never changes:

- each value begins with a marker: 0x00 for NULL, which therefore lies lowest, 0x01 before a value;
- all integers, dates and timestamps take 8 big-endian bytes with the sign bit flipped, so that bounds stay right when a
  column is widened; so do float and double, both as double: NaN above all numbers, -0.0 equal to 0.0;
- a boolean takes one byte; a decimal 16 bytes of its unscaled value with the sign bit flipped (one scale a column);
- strings (UTF-8) and binary are their bytes, 0x00 written as 0x00 0xFF, and end with 0x00 0x00.

No encoding is a prefix of another one of the same type, so the concatenated encodings of several columns compare like
the tuples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.errors import DataCorrupted, InvalidArgument
from lakelog.format.keys.ordering import NumpyArray, is_integer_like, order_codes

DEFAULT_BOUND_LENGTH: Final = 64
"""Bytes of a stored key bound: enough to distinguish keys, and no room for a 10 MB string in every plan."""

MAX_PARTITION_BYTES: Final = 2048
"""Bytes of one encoded partition: the metastore's index holds it, and an entry of a Postgres index has at most 2704."""

_NULL: Final = b"\x00"
_PRESENT: Final = b"\x01"
_END: Final = b"\x00\x00"
_SIGN_BIT: Final = 1 << 63


def encode_values(array: pa.Array) -> pa.Array:
    """Returns each value's encoding. Pure; no loop over rows.

    Args:
        array: Values of a canonical single-valued type; NULLs are allowed.

    Returns:
        Binary array of the same length without NULLs.

    Raises:
        InvalidArgument: A nested type, or more than 2 GiB of bytes.
    """
    if pt.is_string(array.type) or pt.is_binary(array.type):
        return _encode_bytes(array)
    return _from_matrix(_payload(array), array)


def encode_value(value: pa.Scalar) -> bytes:
    """Returns one value's encoding, as `encode_values` does for many: small files spend most of their cost on bounds.

    Args:
        value: A value of a canonical single-valued type; NULL is allowed.
    """
    data_type = value.type
    if not value.is_valid:
        return _NULL
    if pt.is_string(data_type) or pt.is_binary(data_type):
        return _PRESENT + value.as_buffer().to_pybytes().replace(b"\x00", b"\x00\xff") + _END
    if pt.is_signed_integer(data_type):
        return _PRESENT + (value.as_py() + _SIGN_BIT).to_bytes(8, "big")
    if pt.is_date32(data_type) or pt.is_timestamp(data_type):
        return _PRESENT + (value.value + _SIGN_BIT).to_bytes(8, "big")
    encoded: bytes = encode_values(pa.repeat(value, 1))[0].as_py()
    return encoded


def encode_rows(columns: Sequence[pa.Array]) -> pa.Array:
    """Returns the encoding of each row's composite key: the concatenated encodings of its columns.

    Args:
        columns: At least one, of one length, as of `encode_values`.
    """
    encoded = [encode_values(column) for column in columns]
    return encoded[0] if len(encoded) == 1 else pc.binary_join_element_wise(*encoded, b"")


def encode_key(values: Sequence[pa.Scalar]) -> bytes:
    """Returns the encoding of one composite key; the types are those of the scalars, canonical ones."""
    return b"".join(map(encode_value, values))


def decode_key(encoded: bytes, types: Sequence[pa.DataType]) -> list[pa.Scalar]:
    """Returns the values of an untruncated encoding, the inverse of `encode_key` (-0.0 comes back as 0.0).

    Args:
        encoded: The result of `encode_key`.
        types: The columns' canonical types, in the same order.

    Raises:
        DataCorrupted: The bytes are not the encoding of a key of these types: truncated or damaged.
    """
    values: list[pa.Scalar] = []
    position = 0
    for data_type in types:
        marker = encoded[position : position + 1]
        position += 1
        if marker == _NULL:
            values.append(pa.scalar(None, data_type))
        elif marker == _PRESENT:
            value, position = _decode_value(encoded, position, data_type)
            values.append(value)
        else:
            raise _damaged(encoded, types)
    if position != len(encoded):
        raise _damaged(encoded, types)
    return values


def decode_values(encoded: Sequence[bytes], data_type: pa.DataType) -> pa.Array:
    """Returns the values of encodings of one column, the inverse of `encode_values`. Pure; no loop over values.

    Args:
        encoded: Untruncated encodings from `encode_values`, none of a NULL.
        data_type: The column's canonical type.

    Raises:
        DataCorrupted: An encoded number does not have the length of its type.
    """
    values = pa.array(encoded, pa.binary())
    if pt.is_string(data_type) or pt.is_binary(data_type):
        escaped = pc.binary_slice(values, 1, -len(_END))
        return pc.replace_substring(escaped, b"\x00\xff", b"\x00").cast(data_type)
    width = 1 if pt.is_boolean(data_type) else 16 if pt.is_decimal128(data_type) else 8
    joined = b"".join(encoded)
    if len(joined) != len(encoded) * (width + 1):
        raise _damaged(joined, [data_type])
    payload = np.frombuffer(joined, np.uint8).reshape(len(encoded), width + 1)[:, 1:].copy()
    return decode_payload(payload, data_type)


def encode_partition(values: Sequence[pa.Scalar]) -> bytes:
    """Returns the encoding of a partition's values: that of a key, never truncated, so it also is its identity."""
    return encode_key(values)


def decode_partition(encoded: bytes, types: Sequence[pa.DataType]) -> list[pa.Scalar]:
    """Returns a partition's values, the inverse of `encode_partition`; raises as `decode_key`."""
    return decode_key(encoded, types)


def lower_bound(encoded: bytes, limit: int = DEFAULT_BOUND_LENGTH) -> bytes:
    """Returns at most `limit` bytes that are lower than or equal to `encoded`: its prefix."""
    return encoded[:limit]


def upper_bound(encoded: bytes, limit: int = DEFAULT_BOUND_LENGTH) -> bytes | None:
    """Returns at most `limit` bytes that are greater than or equal to `encoded`.

    If it must be cut, this is the next greater prefix; None if there is none (all bytes are 0xFF): unbounded.
    """
    if len(encoded) <= limit:
        return encoded
    prefix = encoded[:limit].rstrip(b"\xff")
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None


def _payload(array: pa.Array) -> npt.NDArray[np.uint8]:
    """Returns the bytes after the marker, one row per value."""
    data_type = array.type
    if pt.is_boolean(data_type):
        return order_codes(array).astype(np.uint8).reshape(len(array), 1)
    if pt.is_decimal128(data_type):
        raw = np.frombuffer(array.buffers()[1], np.uint8)[16 * array.offset : 16 * (array.offset + len(array))]
        flipped = raw.reshape(len(array), 16)[:, ::-1].copy()
        flipped[:, 0] ^= 0x80
        return flipped
    if is_integer_like(data_type) or pt.is_float32(data_type) or pt.is_float64(data_type):
        return order_codes(array).astype(">u8").view(np.uint8).reshape(len(array), 8)
    raise InvalidArgument(
        f"Type {data_type} has no order-preserving encoding; only single-valued table types have one."
    )


def decode_payload(payload: npt.NDArray[np.uint8], data_type: pa.DataType) -> pa.Array:
    """Returns numbers from the bytes after their markers, one row per value: the inverse of `_payload`."""
    if pt.is_boolean(data_type):
        return pa.array(payload[:, 0] == 1)
    if pt.is_decimal128(data_type):
        payload[:, 0] ^= 0x80
        raw = payload[:, ::-1].tobytes()
        return pa.Array.from_buffers(data_type, len(payload), [None, pa.py_buffer(raw)])
    codes = payload.view(">u8").ravel().astype(np.uint64)
    if pt.is_floating(data_type):
        is_positive = (codes & np.uint64(_SIGN_BIT)) != 0
        bits = np.where(is_positive, codes & np.uint64(_SIGN_BIT - 1), ~codes)
        return pa.array(bits.view(np.float64)).cast(data_type)
    numbers = pa.array((codes ^ np.uint64(_SIGN_BIT)).view(np.int64))
    return numbers.cast(pa.int32()).cast(data_type) if pt.is_date32(data_type) else numbers.cast(data_type)


def _from_matrix(payload: npt.NDArray[np.uint8], array: pa.Array) -> pa.Array:
    rows, width = payload.shape
    marked = np.empty((rows, width + 1), np.uint8)
    marked[:, 0] = _PRESENT[0]
    marked[:, 1:] = payload
    lengths: NumpyArray = np.full(rows, width + 1, np.int64)
    data = marked.ravel()
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        marked[~valid, 0] = _NULL[0]
        lengths[~valid] = 1
        data = marked[np.arange(width + 1) < lengths[:, np.newaxis]]
    if len(data) >= 2**31:
        raise InvalidArgument(f"{rows} values are too many to be encoded at once: encode fewer rows at a time.")
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _encode_bytes(array: pa.Array) -> pa.Array:
    values = array.cast(pa.binary())
    escaped = pc.replace_substring(values, b"\x00", b"\x00\xff")
    return pc.fill_null(pc.binary_join_element_wise(_PRESENT, escaped, _END, b""), _NULL)


def _decode_value(encoded: bytes, start: int, data_type: pa.DataType) -> tuple[pa.Scalar, int]:
    if pt.is_string(data_type) or pt.is_binary(data_type):
        return _decode_bytes(encoded, start, data_type)
    width = 1 if pt.is_boolean(data_type) else 16 if pt.is_decimal128(data_type) else 8
    payload = encoded[start : start + width]
    if len(payload) < width:
        raise _damaged(encoded, [data_type])
    number = int.from_bytes(payload, "big")
    try:
        return _decode_number(number, data_type), start + width
    except (pa.ArrowException, OverflowError) as error:
        raise _damaged(encoded, [data_type]) from error


def _decode_number(number: int, data_type: pa.DataType) -> pa.Scalar:
    if pt.is_boolean(data_type):
        return pa.scalar(bool(number), data_type)
    if pt.is_decimal128(data_type):
        raw = (number - (1 << 127)).to_bytes(16, "little", signed=True)
        return pa.Array.from_buffers(data_type, 1, [None, pa.py_buffer(raw)])[0]
    if pt.is_floating(data_type):
        bits = number & ~_SIGN_BIT if number & _SIGN_BIT else ~number & (2**64 - 1)
        return pa.scalar(float(np.uint64(bits).view(np.float64)), pa.float64()).cast(data_type)
    value: Any = number - _SIGN_BIT
    if pt.is_date32(data_type):
        return pa.scalar(value, pa.int32()).cast(data_type)
    return pa.scalar(value, pa.int64()).cast(data_type)


def _decode_bytes(encoded: bytes, start: int, data_type: pa.DataType) -> tuple[pa.Scalar, int]:
    # Inside a value 0x00 is always followed by 0xFF, so the first 0x00 0x00 is the end, wherever it starts.
    end = encoded.find(_END, start)
    if end < 0:
        raise _damaged(encoded, [data_type])
    value = encoded[start:end].replace(b"\x00\xff", b"\x00")
    try:
        return pa.scalar(value.decode() if pt.is_string(data_type) else value, data_type), end + len(_END)
    except UnicodeDecodeError as error:
        raise _damaged(encoded, [data_type]) from error


def _damaged(encoded: bytes, types: Sequence[pa.DataType]) -> DataCorrupted:
    return DataCorrupted(
        f"{encoded[:40]!r} is not the encoded key of columns of type {', '.join(map(str, types))}; "
        "it was truncated or damaged."
    )
