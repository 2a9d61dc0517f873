"""Checks and combines the predicates of plans, and bounds their size before any file is tested."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lakelog.format.tables.predicate import MAX_COMPARISONS, MAX_VALUES, AllOf, AnyOf, Comparison, Operator, Predicate
from lakelog.format.tables.prune import PreparedPredicate

from ..store.limits import MAX_INT32
from ..store.validation import invalid

_MAX_DEPTH: Final = 64


def prepare_predicate(predicate: Predicate) -> PreparedPredicate:
    """Checks a predicate and prepares it to test files.

    Raises:
        InvalidArgument: It is malformed, nested too deep or too large; the error names the limit and the remedy.
    """
    size = _check_node(predicate, 0)
    if size > MAX_VALUES:
        raise invalid(
            "predicate",
            f"{size} values",
            f"Give at most {MAX_VALUES}, or the least and the greatest value of a longer list: a predicate may be "
            "weaker than the filter.",
        )
    prepared = PreparedPredicate(predicate)
    if prepared.comparison_count > MAX_COMPARISONS:
        raise invalid(
            "predicate",
            f"{prepared.comparison_count} comparisons",
            f"Give at most {MAX_COMPARISONS} after those of one column are combined: name the values of a column in "
            "one IN, or leave comparisons out, because a predicate may be weaker than the filter.",
        )
    return prepared


def count_values(predicate: Predicate) -> int:
    """How many values and comparisons a predicate has, however deep it is nested. Pure."""
    count, waiting = 0, [predicate]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Comparison):
            count += max(len(node.values), 1)
        else:
            waiting += node.operands
    return count


def find_field_ids(predicate: Predicate) -> Iterator[int]:
    """The columns that a predicate compares, with repetitions. Pure."""
    if isinstance(predicate, Comparison):
        yield predicate.field_id
        return
    for operand in predicate.operands:
        yield from find_field_ids(operand)


def _check_node(predicate: Predicate, depth: int) -> int:
    """Checks a part of a predicate, and returns how many values and operands it has."""
    if depth > _MAX_DEPTH:
        raise invalid(
            "predicate", f"nested {depth} levels deep", f"At most {_MAX_DEPTH} levels are possible; flatten it."
        )
    if isinstance(predicate, AllOf | AnyOf):
        if not predicate.operands:
            raise invalid("predicate.operands", "0 operands", "Give at least one.")
        return sum(_check_node(operand, depth + 1) for operand in predicate.operands)
    _check_comparison(predicate)
    return max(len(predicate.values), 1)


def _check_comparison(predicate: Comparison) -> None:
    if not 1 <= predicate.field_id <= MAX_INT32:
        raise invalid("predicate.field_id", predicate.field_id, "Give the id of a column, from 1.")
    count = len(predicate.values)
    match predicate.operator:
        case Operator.IS_NULL | Operator.IS_NOT_NULL:
            if count:
                raise invalid("predicate.values", f"{count} values", f"{predicate.operator.value} takes none.")
        case Operator.IN:
            if not count:
                raise invalid("predicate.values", "0 values", "IN takes at least one.")
        case _:
            if count != 1:
                raise invalid("predicate.values", f"{count} values", f"'{predicate.operator.value}' takes exactly one.")
