"""Which of many files may hold a row that matches a predicate, from bounds of their columns.

Objectives, which conflict: no row that matches is ever lost; as few files as possible remain; a million files are
judged in milliseconds. So bounds are compared as bytes (`lakelog.format.keys.encoding` orders them like the values), in
columns, and anything unknown counts as a possible match. Comparisons of one column are combined first (`combine.py`),
and many values are searched at once (`value_set.py`).

A predicate has no NOT, so one question is enough for each node: may there be a row for which this is true? For a
conjunction of single columns the answer is the conjunction of the answers: too many files may remain, never too few.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.format.tables.combine import combine
from lakelog.format.tables.predicate import AllOf, Comparison, Operator, Predicate
from lakelog.format.tables.value_set import Mask, ValueSet

NULL: Final = b"\x00"
"""The encoding of NULL, of every type."""


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


class PreparedPredicate:
    """A predicate that is prepared once to test many batches of files; immutable.

    Args:
        predicate: Conditions on columns by their field ids.
    """

    def __init__(self, predicate: Predicate) -> None:
        self._predicate = combine(predicate)
        self._sets = {id(each): ValueSet(each.values) for each in _comparisons(self._predicate)}

    @property
    def comparison_count(self) -> int:
        """How many comparisons are tested for each batch of files."""
        return len(self._sets)

    @cached_property
    def field_ids(self) -> frozenset[int]:
        """The columns that are compared."""
        return frozenset(each.field_id for each in _comparisons(self._predicate))

    def find_named_values(self, field_id: int) -> Sequence[bytes] | None:
        """The encoded values of which a column has one wherever the predicate is true; None: it does not name them."""
        operands = self._predicate.operands if isinstance(self._predicate, AllOf) else (self._predicate,)
        for each in operands:
            if isinstance(each, Comparison) and each.field_id == field_id:
                if each.operator is Operator.IN:
                    return each.values
                if each.operator is Operator.IS_NULL:
                    return (NULL,)
        return None

    def may_match(self, columns: Mapping[int, ColumnBounds], row_count: pa.Array) -> Mask:
        """Returns for each file whether it may hold a row for which the predicate is true.

        Args:
            columns: The known bounds, by field id; a comparison of a missing column may be true in every file.
            row_count: Int64, rows of each file.

        Returns:
            One boolean per file; False: surely no match.
        """
        return self._judge(self._predicate, columns, row_count)

    def _judge(self, predicate: Predicate, columns: Mapping[int, ColumnBounds], row_count: pa.Array) -> Mask:
        if isinstance(predicate, Comparison):
            bounds = columns.get(predicate.field_id)
            if bounds is None:
                return np.ones(len(row_count), np.bool_)
            return _may_compare(predicate, self._sets[id(predicate)], bounds, row_count)
        is_all = isinstance(predicate, AllOf)
        mask: Mask = np.full(len(row_count), is_all)
        for operand in predicate.operands:
            answer = self._judge(operand, columns, row_count)
            mask = mask & answer if is_all else mask | answer
            if not mask.any() if is_all else mask.all():
                break
        return mask


def may_match(predicate: Predicate, columns: Mapping[int, ColumnBounds], row_count: pa.Array) -> Mask:
    """Returns for each file whether it may hold a row for which the predicate is true. Pure.

    Arguments and result are those of `PreparedPredicate.may_match`, which serves several batches of files.
    """
    return PreparedPredicate(predicate).may_match(columns, row_count)


def _comparisons(predicate: Predicate) -> Iterator[Comparison]:
    if isinstance(predicate, Comparison):
        yield predicate
        return
    for operand in predicate.operands:
        yield from _comparisons(operand)


def _may_compare(comparison: Comparison, values: ValueSet, bounds: ColumnBounds, row_count: pa.Array) -> Mask:
    if comparison.operator is Operator.IS_NULL:
        return _or_unknown(pc.greater(bounds.null_count, 0))
    has_values = _or_unknown(pc.less(bounds.null_count, row_count))
    match comparison.operator:
        case Operator.IS_NOT_NULL:
            return has_values
        case Operator.IN:
            return has_values & values.may_lie_between(bounds.min_value, bounds.max_value)
        case Operator.NOT_EQUAL:
            return has_values & values.may_hold_another(bounds.min_value, bounds.max_value)
    return has_values & _may_hold(comparison.operator, comparison.values[0], bounds)


def _may_hold(operator: Operator, value: bytes, bounds: ColumnBounds) -> Mask:
    constant = pa.scalar(value, bounds.min_value.type)
    match operator:
        case Operator.LESS:
            return _or_unknown(pc.less(bounds.min_value, constant))
        case Operator.LESS_OR_EQUAL:
            return _or_unknown(pc.less_equal(bounds.min_value, constant))
        case Operator.GREATER:
            return _or_unknown(pc.greater(bounds.max_value, constant))
        case Operator.GREATER_OR_EQUAL:
            return _or_unknown(pc.greater_equal(bounds.max_value, constant))
    raise AssertionError(f"{operator} compares no order")


def _or_unknown(answer: pa.Array) -> Mask:
    mask: Mask = pc.fill_null(answer, True).to_numpy(zero_copy_only=False)
    return mask
