"""Binary columns seen as bytes and bounds, and made from them: what all codecs are built of. No loops over rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Bounds = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def to_bytes(column: pa.Array) -> tuple[Bytes, Bounds]:
    """The bytes of all values, one behind the other, and the n + 1 places in them where values begin and end.

    Args:
        column: Strings or binary with 32-bit offsets, a slice too; NULLs are empty.
    """
    if column.null_count:
        column = column.fill_null(b"" if pa.types.is_binary(column.type) else "")
    _, offsets, data = column.buffers()
    if not len(column):
        return np.zeros(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    bounds = np.frombuffer(offsets, np.int32, len(column) + 1, 4 * column.offset).astype(np.int64)
    first, last = int(bounds[0]), int(bounds[-1])
    if first == last:
        return np.zeros(0, dtype=np.uint8), bounds - first
    return np.frombuffer(data, np.uint8, last - first, first), bounds - first


def from_bytes(data: npt.NDArray[Any], bounds: npt.NDArray[Any], valid: Mask | None = None) -> pa.Array:
    """A binary column of values that stand one behind the other; the inverse of `to_bytes`.

    Args:
        data: Its bytes.
        bounds: n + 1 places, the first one 0.
        valid: False: the value is NULL; None: none is.
    """
    offsets = pa.py_buffer(np.ascontiguousarray(bounds, dtype=np.int32))
    mask = None if valid is None or valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(
        pa.binary(), len(bounds) - 1, [mask, offsets, pa.py_buffer(np.ascontiguousarray(data, dtype=np.uint8))]
    )


def to_bounds(lengths: npt.NDArray[Any]) -> Bounds:
    """The n + 1 places where values of these lengths begin and end."""
    bounds = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


def find_span_places(starts: npt.NDArray[Any], lengths: npt.NDArray[Any]) -> Bounds:
    """The place of each byte of spans, one span behind the other."""
    bounds = to_bounds(lengths)
    places = np.arange(bounds[-1], dtype=np.int64)
    places += np.repeat(np.asarray(starts, dtype=np.int64) - bounds[:-1], lengths)
    return places


def take_spans(data: Bytes, starts: npt.NDArray[Any], lengths: npt.NDArray[Any], valid: Mask | None = None) -> pa.Array:
    """A binary column of spans of `data`, which may overlap and stand in any order."""
    return from_bytes(data[find_span_places(starts, lengths)], to_bounds(lengths), valid)


def as_text(column: pa.Array) -> pa.Array:
    """A binary column as strings without a look at them: for bytes that are known to be UTF-8."""
    return column.view(pa.string())


def fill_with_any(values: pa.Array) -> pa.Array:
    """The same without NULLs, where there must be values that nobody looks at. Pure."""
    if not values.null_count:
        return values
    if not pa.types.is_nested(values.type):
        return values.fill_null(_to_any_value(values.type))
    # Arrow fills no NULLs of nested types.
    any_value = pa.array([{} if pa.types.is_struct(values.type) else []], values.type)
    places = np.where(np.asarray(values.is_null()), len(values), np.arange(len(values)))
    return pa.concat_arrays([values, any_value]).take(pa.array(places))


def _to_any_value(data_type: pa.DataType) -> pa.Scalar:
    zeros = pa.py_buffer(bytes(16))
    is_bytes = pa.types.is_string(data_type) or pa.types.is_binary(data_type)
    return pa.Array.from_buffers(data_type, 1, [None, zeros, zeros] if is_bytes else [None, zeros])[0]
