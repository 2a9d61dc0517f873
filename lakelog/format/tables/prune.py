"""Which of many files may hold a row that matches a predicate, from bounds of their columns.

Objectives, which conflict: no row that matches is ever lost; as few files as possible remain; a million files are
judged in milliseconds. So bounds are compared as bytes (`lakelog.format.keys.encoding` orders them like the values), in
columns, and anything unknown counts as a possible match.

A predicate has no NOT, so one question is enough for each node: may there be a row for which this is true? For a
conjunction of single columns the answer is the conjunction of the answers: too many files may remain, never too few.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.format.tables.predicate import AllOf, AnyOf, Comparison, Operator, Predicate

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ColumnBounds:
    """The bounds of one column in many files; arrays of one value per file.

    Args:
        min_value: Binary: every value that is not NULL is at least this; NULL: unbounded, or no such value.
        max_value: Binary: every value that is not NULL is at most this; NULL: unbounded, or no such value.
        null_count: Int64: how many values are NULL; NULL: nothing is known about the column.
    """

    min_value: pa.Array
    max_value: pa.Array
    null_count: pa.Array


def may_match(predicate: Predicate, columns: Mapping[int, ColumnBounds], row_count: pa.Array) -> Mask:
    """Returns for each file whether it may hold a row for which the predicate is true. Pure.

    Args:
        predicate: Conditions on columns by their field ids.
        columns: The known bounds, by field id; a comparison of a missing column may be true in every file.
        row_count: Int64, rows of each file.

    Returns:
        One boolean per file; False: surely no match.
    """
    if isinstance(predicate, AllOf):
        masks = [may_match(operand, columns, row_count) for operand in predicate.operands]
        return np.logical_and.reduce(masks) if masks else np.ones(len(row_count), np.bool_)
    if isinstance(predicate, AnyOf):
        masks = [may_match(operand, columns, row_count) for operand in predicate.operands]
        return np.logical_or.reduce(masks) if masks else np.zeros(len(row_count), np.bool_)
    bounds = columns.get(predicate.field_id)
    if bounds is None:
        return np.ones(len(row_count), np.bool_)
    return _may_compare(predicate, bounds, row_count)


def _may_compare(comparison: Comparison, bounds: ColumnBounds, row_count: pa.Array) -> Mask:
    if comparison.operator is Operator.IS_NULL:
        return _or_unknown(pc.greater(bounds.null_count, 0))
    has_values = _or_unknown(pc.less(bounds.null_count, row_count))
    if comparison.operator is Operator.IS_NOT_NULL:
        return has_values
    hits = [_may_hold(comparison.operator, value, bounds) for value in comparison.values]
    return has_values & (np.logical_or.reduce(hits) if hits else np.zeros(len(has_values), np.bool_))


def _may_hold(operator: Operator, value: bytes, bounds: ColumnBounds) -> Mask:
    constant = pa.scalar(value, bounds.min_value.type)
    match operator:
        case Operator.IN:
            above = _or_unknown(pc.less_equal(bounds.min_value, constant))
            return above & _or_unknown(pc.greater_equal(bounds.max_value, constant))
        case Operator.LESS:
            return _or_unknown(pc.less(bounds.min_value, constant))
        case Operator.LESS_OR_EQUAL:
            return _or_unknown(pc.less_equal(bounds.min_value, constant))
        case Operator.GREATER:
            return _or_unknown(pc.greater(bounds.max_value, constant))
        case Operator.GREATER_OR_EQUAL:
            return _or_unknown(pc.greater_equal(bounds.max_value, constant))
        case Operator.NOT_EQUAL:
            # Only if both bounds are the constant, every value is equal to it.
            below = _or_unknown(pc.not_equal(bounds.min_value, constant))
            return below | _or_unknown(pc.not_equal(bounds.max_value, constant))
    raise AssertionError(f"{operator} compares no values")


def _or_unknown(answer: pa.Array) -> Mask:
    mask: Mask = pc.fill_null(answer, True).to_numpy(zero_copy_only=False)
    return mask
