"""Whether two columns hold the same values, row by row, by the rules of changelogs (semantics 3.2).

NULL equals NULL and NaN equals NaN, also deep inside of nested values; 0.0 and -0.0 differ. Lists and maps are equal
when their entries are, in their order.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.errors import InvalidArgument
from lakelog.format.keys.ordering import single_array

Mask = npt.NDArray[np.bool_]


def equal_rows(left: pa.Table, right: pa.Table, columns: Iterable[str]) -> Mask:
    """Returns for each row whether two tables of one length are equal in some columns. Pure; no loop over rows.

    Args:
        left: One side.
        right: The other side.
        columns: Names of columns of both; none: all rows are equal.

    Raises:
        InvalidArgument: A column has different types.
    """
    equal = np.ones(left.num_rows, bool)
    for name in columns:
        undecided = np.flatnonzero(equal)
        if len(undecided) == 0:
            break
        sides = (single_array(left.column(name)), single_array(right.column(name)))
        if len(undecided) < len(equal):
            # Rows that differ in one column need not be compared in the others.
            taken = pa.array(undecided)
            sides = (sides[0].take(taken), sides[1].take(taken))
        equal[undecided] = equal_values(*sides)
    return equal


def equal_values(left: pa.Array, right: pa.Array) -> Mask:
    """Returns for each place whether two arrays of one type and length hold the same value. Pure; no loop over rows.

    Raises:
        InvalidArgument: The types differ.
    """
    if left.type != right.type:
        raise InvalidArgument(
            f"A column of type {left.type} was compared with one of type {right.type}. Read both with one schema."
        )
    valid = _valid(left)
    same = valid == _valid(right)
    both = valid & same
    return same & (~both | _equal_where(left, right, both))


def _equal_where(left: pa.Array, right: pa.Array, both: Mask) -> Mask:
    """As `equal_values`, but arbitrary where `both` is false; it says that both values are valid."""
    data_type = left.type
    if pt.is_struct(data_type):
        equal = np.ones(len(left), bool)
        for place in range(data_type.num_fields):
            equal &= equal_values(pc.struct_field(left, [place]), pc.struct_field(right, [place])) | ~both
        return equal
    if pt.is_list(data_type) or pt.is_map(data_type):
        return _equal_lists(left, right, both)
    if pt.is_floating(data_type):
        same: Mask = _bits(left) == _bits(right)
        return same
    return pc.fill_null(pc.equal(left, right), False).to_numpy(zero_copy_only=False)


def _equal_lists(left: pa.Array, right: pa.Array, both: Mask) -> Mask:
    offsets = (left.offsets.to_numpy(), right.offsets.to_numpy())
    lengths = np.diff(offsets[0])
    equal = both & (lengths == np.diff(offsets[1]))
    rows = np.flatnonzero(equal & (lengths > 0))
    if len(rows) == 0:
        return equal
    # The entries of the remaining rows, concatenated, for both sides.
    counts = lengths[rows].astype(np.int64)
    ends = np.cumsum(counts)
    within = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
    taken = [pa.array(np.repeat(side[:-1][rows].astype(np.int64), counts) + within) for side in offsets]
    same = np.ones(len(within), bool)
    for children in zip(_children(left), _children(right), strict=True):
        same &= equal_values(*(child.take(places) for child, places in zip(children, taken, strict=True)))
    equal[rows] = np.logical_and.reduceat(same, ends - counts)
    return equal


def _children(array: pa.Array) -> list[pa.Array]:
    """The flat entries that an array's offsets refer to."""
    return [array.keys, array.items] if pt.is_map(array.type) else [array.values]


def _bits(array: pa.Array) -> npt.NDArray[np.unsignedinteger]:
    values = array.fill_null(0.0).to_numpy(zero_copy_only=False)
    return np.where(np.isnan(values), np.array(np.nan, values.dtype), values).view(f"u{values.itemsize}")


def _valid(array: pa.Array) -> Mask:
    if array.null_count == 0:
        return np.ones(len(array), bool)
    valid: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    return valid
