"""Columns as one numpy array whose order is the order of the rows' keys.

The sort and merge kernels work on numpy arrays, since numpy's stable sort detects the sorted runs in data files and
merges them. Finding superseded rows then costs 10 to 25 ns per row for integers and 30 to 140 for strings; hashing the
keys with Arrow costs 60 to 200 (bench/kernels/merge.py). Arrow's `group_by` ran for minutes on a million keys that were
all multiples of 2**40. So a key becomes, in order of preference:

1. itself, if it is one integer-like column;
2. one unsigned 64-bit number, if the columns' value ranges fit into 64 bits together;
3. fixed-width bytes (numpy `S`): big-endian offsets from the column's minimum for numbers; for strings their bytes,
   padded with zeros and followed by the length. Numpy compares such bytes unsigned and over the full width.

Strings longer than `MAX_BYTES_WIDTH` bytes are replaced by their rank, which Arrow's sort finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.errors import InvalidArgument

Column: TypeAlias = pa.Array | pa.ChunkedArray
NumpyArray: TypeAlias = npt.NDArray[Any]

MAX_BYTES_WIDTH: Final = 64
"""Bytes of a string as part of a key; beyond it the padded copy costs more memory and time than ranking by Arrow."""

_SIGN_BIT: Final = np.uint64(1 << 63)


def order_codes(array: pa.Array) -> npt.NDArray[np.uint64]:
    """Returns one unsigned number per value, in the order of the values; equal values give equal numbers. Pure.

    Args:
        array: Values without NULL (a NULL gives an arbitrary number) of a canonical type of at most 8 bytes: boolean,
            integer, date, timestamp, decimal of precision <= 18, float, double. NaN lies above all numbers, -0.0
            equals 0.0, as in Spark.
    """
    data_type = array.type
    if pt.is_boolean(data_type):
        bits: npt.NDArray[np.uint8] = array.fill_null(False).cast(pa.uint8()).to_numpy()
        return bits.astype(np.uint64)
    if pt.is_floating(data_type):
        return _float_codes(array.cast(pa.float64()))
    return integer_values(array).astype(np.int64).view(np.uint64) ^ _SIGN_BIT


def integer_values(array: pa.Array) -> NumpyArray:
    """Returns the numbers in an integer, date, timestamp or short decimal array, if possible without a copy.

    Args:
        array: As of `order_codes`, without booleans and floats. A NULL's number is arbitrary.

    Returns:
        Signed integers of the width of the type; decimals give their unscaled value.
    """
    if pt.is_decimal(array.type):
        words = np.frombuffer(array.buffers()[1], np.int64)
        return words[2 * array.offset : 2 * (array.offset + len(array)) : 2]
    width = array.type.bit_width // 8
    values = np.frombuffer(array.buffers()[1], f"<i{width}") if len(array) else np.empty(0, f"<i{width}")
    return values[array.offset : array.offset + len(array)]


def is_integer_like(data_type: pa.DataType) -> bool:
    """Whether `integer_values` accepts the type."""
    if pt.is_decimal128(data_type):
        return bool(data_type.precision <= 18)
    return bool(pt.is_signed_integer(data_type) or pt.is_date32(data_type) or pt.is_timestamp(data_type))


def comparable_keys(columns: Sequence[Column]) -> NumpyArray:
    """Returns an array whose order and equality are those of the rows' keys. Pure; no loop over rows.

    The numbers have a meaning only within one call: offsets and widths are chosen from the given values.

    Args:
        columns: At least one column of a canonical single-valued type, all of one length, without NULLs; the first one
            is the most significant.

    Returns:
        Array of one element per row: signed or unsigned integers, or `S` bytes.

    Raises:
        InvalidArgument: A column has a NULL, or more than 2 GiB of bytes.
    """
    arrays = [single_array(column) for column in columns]
    for position, array in enumerate(arrays):
        if array.null_count:
            raise InvalidArgument(
                f"Key column {position + 1} of {len(arrays)} has {array.null_count} NULLs; key columns cannot have any."
            )
    if len(arrays) == 1 and is_integer_like(arrays[0].type):
        return integer_values(arrays[0])
    if len(arrays[0]) == 0:
        return np.empty(0, np.uint64)
    return _pack([part for array in arrays for part in _key_parts(array)], len(arrays[0]))


def comparable_sequences(columns: Sequence[Column], descending: bool = False) -> NumpyArray:
    """Returns an array whose order is that of the rows' sequence columns: NULL lowest, also in descending order.

    As `comparable_keys`, but NULLs are allowed and equal to each other.

    Args:
        columns: Columns of canonical single-valued types and one length; the first one is the most significant.
        descending: Whether a smaller value counts as the later one (`sequence.field.sort-order`, semantics 1.3).
    """
    arrays = [single_array(column) for column in columns]
    rows = len(arrays[0])
    if rows == 0:
        return np.empty(0, np.uint64)
    if len(arrays) == 1 and not arrays[0].null_count and not descending and is_integer_like(arrays[0].type):
        return integer_values(arrays[0])
    parts: list[_Part] = []
    for array in arrays:
        if array.null_count == rows:
            continue
        if array.null_count:
            parts.append(_number_part(array.is_valid().cast(pa.uint8()).to_numpy().astype(np.uint64)))
            # Any value will do, if it is the same one for all NULLs.
            array = array.fill_null(array.drop_null()[0])
        parts.extend(_reversed(part) if descending else part for part in _key_parts(array))
    return _pack(parts, rows)


def single_array(column: Column) -> pa.Array:
    """Returns the column as one array; one chunk is not copied.

    Raises:
        InvalidArgument: Strings of more than 2 GiB together, which one Arrow array cannot hold.
    """
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    try:
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    except pa.ArrowInvalid as error:
        raise InvalidArgument(
            f"A column of type {column.type} with {column.nbytes} bytes is too large to be merged at once (2 GiB): "
            "merge smaller key ranges."
        ) from error


def offsets_and_bytes(array: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Returns offsets into the bytes of a string or binary array, and the bytes, without those outside a slice."""
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[array.offset : array.offset + len(array) + 1]
    if data_buffer is None or data_buffer.size == 0:
        return offsets - offsets[0], np.zeros(0, np.uint8)
    return offsets - offsets[0], np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]


@dataclass(frozen=True)
class _Part:
    """One column of a key as `width` bytes per row: numbers as codes below 256**width, or bytes as a matrix."""

    width: int
    codes: npt.NDArray[np.uint64] | None = None
    matrix: npt.NDArray[np.uint8] | None = None


def _key_parts(array: pa.Array) -> list[_Part]:
    if pt.is_string(array.type) or pt.is_binary(array.type):
        return _byte_parts(array)
    if pt.is_decimal128(array.type) and array.type.precision > 18:
        words = np.frombuffer(array.buffers()[1], np.uint64)[2 * array.offset : 2 * (array.offset + len(array))]
        return [_number_part(words[1::2] ^ _SIGN_BIT), _number_part(words[::2])]
    return [_number_part(order_codes(array))]


def _reversed(part: _Part) -> _Part:
    if part.codes is not None:
        return _Part(part.width, codes=part.codes.max() - part.codes)
    assert part.matrix is not None
    return _Part(part.width, matrix=np.uint8(255) - part.matrix)


def _number_part(codes: npt.NDArray[np.uint64]) -> _Part:
    lowest = codes.min()
    return _Part((int(codes.max() - lowest).bit_length() + 7) // 8, codes=codes - lowest)


def _byte_parts(array: pa.Array) -> list[_Part]:
    """Returns the bytes after the prefix that all values share, or, if they are too many, the ranks of the values."""
    offsets, data = offsets_and_bytes(array)
    lengths = np.diff(offsets)
    shortest, longest = int(lengths.min()), int(lengths.max())
    prefix = _common_prefix(array, shortest, longest)
    width = longest - prefix
    if width > MAX_BYTES_WIDTH:
        return [_number_part(pc.rank(array, tiebreaker="dense").to_numpy())]
    if shortest == longest:
        rows = data.reshape(len(array), longest)
        return [_Part(width, matrix=rows[:, prefix:])]
    padded = _padded(data, offsets[:-1] + prefix, lengths - prefix, width)
    return [_Part(padded.shape[1], matrix=padded)]


def _padded(data: npt.NDArray[np.uint8], starts: NumpyArray, lengths: NumpyArray, width: int) -> npt.NDArray[np.uint8]:
    """Returns the byte strings as contiguous rows of whole words: padded with zeros, the length in the last byte.

    This takes one unaligned load and one mask per row. A length fits into a byte, since `MAX_BYTES_WIDTH` is far below
    256; it orders a string before the same string with NULs after it.
    """
    word_count = width // 8 + 1
    # SUBTLE: the load for the last strings reads past the end of the data; padding of the same length makes it legal.
    data = np.concatenate([data, np.zeros(8 * word_count, np.uint8)])
    unaligned = np.ndarray((len(data) - 8 * word_count + 1,), f"V{8 * word_count}", data, 0, (1,))
    words = unaligned[starts].view("<u8").reshape(len(starts), word_count)
    words &= _masks(width, word_count)[lengths]
    rows = words.view(np.uint8).reshape(len(starts), 8 * word_count)
    rows[:, -1] = lengths
    return rows


def _masks(width: int, word_count: int) -> npt.NDArray[np.uint64]:
    """Returns for each length 0 to `width` the words that keep the first `length` bytes."""
    kept = np.arange(8 * word_count) < np.arange(width + 1)[:, np.newaxis]
    return np.where(kept, np.uint8(255), np.uint8(0)).view(np.uint64)


def _common_prefix(array: pa.Array, shortest: int, longest: int) -> int:
    """Returns the length of a prefix that all values share, 0 if finding it does not pay.

    Reading all values costs 10 to 25 ns per row. It pays if the rest may fit into one word, which halves the cost of
    sorting, or if the key would be too wide with it; three values show whether this is possible.
    """
    # As bytes, since a damaged file may hold texts that are not valid.
    octets = array.view(pa.binary())
    sample = [octets[place].as_py() for place in (0, len(array) // 2, len(array) - 1)]
    most = _shared_prefix(min(sample), max(sample), shortest)
    if most == 0 or 8 < longest - most <= longest <= MAX_BYTES_WIDTH or longest <= 7:
        return 0
    bounds = pc.min_max(octets).as_py()
    return _shared_prefix(bounds["min"], bounds["max"], shortest)


def _shared_prefix(lowest: bytes, highest: bytes, most: int) -> int:
    length = 0
    while length < most and lowest[length] == highest[length]:
        length += 1
    return length


def _pack(parts: list[_Part], rows: int) -> NumpyArray:
    if sum(part.width for part in parts) <= 8:
        return _pack_words(parts, rows)
    if len(parts) == 1 and parts[0].matrix is not None:
        # Strings of one length are their own key: a view of Arrow's buffer, if it is contiguous.
        return np.ascontiguousarray(parts[0].matrix).view(f"S{parts[0].width}").ravel()
    matrix = np.empty((rows, sum(part.width for part in parts)), np.uint8)
    start = 0
    for part in parts:
        target = matrix[:, start : start + part.width]
        if part.matrix is not None:
            target[:] = part.matrix
        elif part.codes is not None and part.width:
            target[:] = part.codes.astype(">u8").view(np.uint8).reshape(rows, 8)[:, 8 - part.width :]
        start += part.width
    return matrix.view(f"S{matrix.shape[1]}").ravel()


def _pack_words(parts: list[_Part], rows: int) -> npt.NDArray[np.uint64]:
    packed = np.zeros(rows, np.uint64)
    for part in parts:
        if part.width == 0:
            continue
        if part.codes is not None:
            codes = part.codes
        else:
            assert part.matrix is not None
            word = np.zeros((rows, 8), np.uint8)
            word[:, 8 - part.width :] = part.matrix
            codes = word.view(">u8").ravel().astype(np.uint64)
        # A part of 8 bytes is the only one, and needs no shift.
        packed = codes if part.width == 8 else (packed << np.uint64(8 * part.width)) | codes
    return packed


def _float_codes(array: pa.Array) -> npt.NDArray[np.uint64]:
    values = array.fill_null(0.0).to_numpy()
    # Adding 0.0 makes -0.0 positive; every NaN becomes the one whose bits lie above infinity.
    bits = np.where(np.isnan(values), np.nan, values + 0.0).view(np.uint64)
    return np.where(bits & _SIGN_BIT, ~bits, bits | _SIGN_BIT)
