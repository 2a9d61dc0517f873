"""The bucket function: Spark's own `hash`, in columns, so that Spark and numpy send a row to the same bucket.

Spark hashes a row by folding Murmur3 x86_32 over its columns: the hash of one column is the seed of the next, starting
from 42; NULL leaves the seed unchanged. Two things differ from the published Murmur3: the bytes after the last whole
4-byte word are mixed one by one, as sign-extended words, and each takes the full round. The test vectors are made with
Spark itself (bench/kernels/make_bucket_vectors.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as pt

from lakelog.errors import InvalidArgument
from lakelog.format.keys.ordering import Column, NumpyArray, integer_values, is_integer_like

SPARK_SEED: Final = 42
MAX_BUCKET_COUNT: Final = 1 << 16
"""Buckets of a partition; each costs a task, a file a commit and a Kafka partition, so more is a mistake."""

_Words: TypeAlias = npt.NDArray[np.uint32]
_C1: Final = np.uint32(0xCC9E2D51)
_C2: Final = np.uint32(0x1B873593)
_CHUNK_ROWS: Final = 1 << 15
"""Rows mixed at a time: all temporaries of a chunk stay in the second-level cache, twice as fast as whole columns."""


def hash_columns(columns: Sequence[Column]) -> npt.NDArray[np.int32]:
    """Returns what Spark's built-in `hash(columns...)` returns for each row. Pure, reentrant; no loop over rows.

    Args:
        columns: At least one column of a canonical single-valued type, all of one length; NULLs are allowed. The order
            matters.

    Returns:
        Int32, one a row.

    Raises:
        InvalidArgument: No column, different lengths, or a type that cannot be hashed.
    """
    if not columns:
        raise InvalidArgument("A bucket needs at least one key column to hash.")
    if len({len(column) for column in columns}) > 1:
        raise InvalidArgument(f"Columns to hash have different lengths: {[len(column) for column in columns]}.")
    hashes = np.full(len(columns[0]), SPARK_SEED, np.uint32)
    for column in columns:
        start = 0
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            for first in range(0, len(chunk), _CHUNK_ROWS):
                part = chunk.slice(first, _CHUNK_ROWS)
                target = hashes[start : start + len(part)]
                mixed = _hash_array(part, target)
                if part.null_count:
                    mixed = np.where(part.is_valid().to_numpy(zero_copy_only=False), mixed, target)
                target[:] = mixed
                start += len(part)
    return hashes.view(np.int32)


def assign_buckets(columns: Sequence[Column], bucket_count: int) -> npt.NDArray[np.int32]:
    """Returns each row's bucket, `pmod(hash(columns), bucket_count)`, as Spark counts. Pure.

    Args:
        columns: The bucket key's columns, as of `hash_columns`.
        bucket_count: 1 to `MAX_BUCKET_COUNT`.

    Raises:
        InvalidArgument: As `hash_columns`, or a bucket count outside its bounds.
    """
    if not 1 <= bucket_count <= MAX_BUCKET_COUNT:
        raise InvalidArgument(f"bucket = {bucket_count} is not possible: choose 1 to {MAX_BUCKET_COUNT} buckets.")
    # Numpy's remainder has the divisor's sign, as Spark's pmod.
    buckets: npt.NDArray[np.int32] = np.remainder(hash_columns(columns), np.int32(bucket_count))
    return buckets


def _hash_array(array: pa.Array, seeds: _Words) -> _Words:
    data_type = array.type
    if pt.is_string(data_type) or pt.is_binary(data_type):
        return _hash_bytes(*_byte_slices(array), seeds)
    if pt.is_boolean(data_type):
        return _hash_words([array.fill_null(False).cast(pa.uint8()).to_numpy().astype(np.uint32)], seeds)
    if is_integer_like(data_type):
        return _hash_integers(integer_values(array), seeds)
    if pt.is_decimal128(data_type):
        return _hash_long_decimals(array, seeds)
    if pt.is_float32(data_type) or pt.is_float64(data_type):
        return _hash_integers(_float_bits(array), seeds)
    raise InvalidArgument(
        f"Type {data_type} cannot be part of a bucket key; use numbers, strings, dates or timestamps."
    )


def _hash_integers(values: NumpyArray, seeds: _Words) -> _Words:
    if values.dtype.itemsize < 8:
        return _hash_words([values.astype(np.int32).view(np.uint32)], seeds)
    halves = np.ascontiguousarray(values).view(np.uint32)
    return _hash_words([halves[::2], halves[1::2]], seeds)


def _hash_words(words: list[_Words], seeds: _Words) -> _Words:
    hashes = seeds
    for word in words:
        hashes = _mix(hashes, word)
    return _finish(hashes, np.uint32(4 * len(words)))


def _mix(hashes: _Words, words: _Words) -> _Words:
    mixed = words * _C1
    mixed = (mixed << np.uint32(15)) | (mixed >> np.uint32(17))
    mixed *= _C2
    mixed ^= hashes
    mixed = (mixed << np.uint32(13)) | (mixed >> np.uint32(19))
    mixed *= np.uint32(5)
    mixed += np.uint32(0xE6546B64)
    return mixed


def _finish(hashes: _Words, lengths: _Words | np.uint32) -> _Words:
    hashes = hashes ^ lengths
    hashes ^= hashes >> np.uint32(16)
    hashes *= np.uint32(0x85EBCA6B)
    hashes ^= hashes >> np.uint32(13)
    hashes *= np.uint32(0xC2B2AE35)
    hashes ^= hashes >> np.uint32(16)
    return hashes


def _hash_bytes(data: npt.NDArray[np.uint8], starts: NumpyArray, lengths: NumpyArray, seeds: _Words) -> _Words:
    """Hashes byte strings of different lengths: word by word over the rows that are long enough, the longest first."""
    if len(starts) == 0:
        return seeds
    shortest, longest = int(lengths.min()), int(lengths.max())
    # SUBTLE: 3 bytes after the data make the unaligned load of the last word legal.
    padded = np.concatenate([data, np.zeros(4, np.uint8)])
    words = np.ndarray((len(padded) - 3,), "<u4", padded, 0, (1,))
    signed = padded.view(np.int8)
    hashes = seeds.copy()
    if shortest == longest:
        for offset in range(0, longest & ~3, 4):
            hashes = _mix(hashes, words[starts + offset])
        for offset in range(longest & ~3, longest):
            hashes = _mix(hashes, signed[starts + offset].astype(np.int32).view(np.uint32))
        return _finish(hashes, np.uint32(longest))
    word_counts = lengths >> 2
    # Rows by falling number of words: those that have another word are then always the first ones, without a search.
    order = np.argsort(-word_counts, kind="stable")
    starts, sorted_lengths, hashes = starts[order], lengths[order], hashes[order]
    going = np.searchsorted(-word_counts[order], -np.arange(longest >> 2), side="left")
    for index, count in enumerate(going):
        hashes[:count] = _mix(hashes[:count], words[starts[:count] + 4 * index])
    tails = starts + (sorted_lengths & ~3)
    for index in range(3):
        rows = np.flatnonzero((sorted_lengths & 3) > index)
        hashes[rows] = _mix(hashes[rows], signed[tails[rows] + index].astype(np.int32).view(np.uint32))
    finished = np.empty_like(hashes)
    finished[order] = _finish(hashes, sorted_lengths.astype(np.uint32))
    return finished


def _byte_slices(array: pa.Array) -> tuple[npt.NDArray[np.uint8], NumpyArray, NumpyArray]:
    """Returns the bytes of a string or binary array, and where each value starts in them and its length."""
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    if len(offsets) == 0 or data_buffer is None or data_buffer.size == 0:
        return np.zeros(0, np.uint8), np.zeros(len(array), np.int64), np.zeros(len(array), np.int64)
    data = np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]
    return data, offsets[:-1] - offsets[0], np.diff(offsets)


def _hash_long_decimals(array: pa.Array, seeds: _Words) -> _Words:
    """Hashes as Java's `BigInteger.toByteArray`: the fewest big-endian two's complement bytes that keep the sign."""
    raw = np.frombuffer(array.buffers()[1], np.uint8)[16 * array.offset : 16 * (array.offset + len(array))]
    big_endian = np.ascontiguousarray(raw.reshape(len(array), 16)[:, ::-1])
    sign = np.where(big_endian[:, 0] & 0x80, 0xFF, 0).astype(np.uint8)
    # A leading byte is redundant if it only repeats the sign and the next byte has the same sign bit.
    redundant = (big_endian[:, :-1] == sign[:, np.newaxis]) & (((big_endian[:, 1:] ^ sign[:, np.newaxis]) & 0x80) == 0)
    skipped = np.where(redundant.all(axis=1), 15, np.argmin(redundant, axis=1))
    starts = 16 * np.arange(len(array)) + skipped
    return _hash_bytes(big_endian.ravel(), starts, 16 - skipped, seeds)


def _float_bits(array: pa.Array) -> NumpyArray:
    values = array.fill_null(0.0).to_numpy()
    # Adding 0.0 makes -0.0 positive; Spark hashes the single NaN that Java's floatToIntBits makes of all.
    normal: NumpyArray = np.where(np.isnan(values), values.dtype.type(np.nan), values + values.dtype.type(0.0))
    return normal.view(np.int32 if values.dtype.itemsize == 4 else np.int64)
