"""Makes predicates small: joins comparisons of one column into one, and removes repetitions.

Pruning tests each comparison for all files, so a thousand equalities in an OR would cost a thousand times as much as
one IN. The combined predicate excludes exactly the same files (`prune.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from lakelog.format.tables.predicate import AllOf, AnyOf, Comparison, Operator, Predicate

_Pick = Callable[[Iterable[bytes]], bytes]

_STRICTEST: Final[dict[Operator, _Pick]] = {
    Operator.LESS: min,
    Operator.LESS_OR_EQUAL: min,
    Operator.GREATER: max,
    Operator.GREATER_OR_EQUAL: max,
}
_WEAKEST: Final[dict[Operator, _Pick]] = {
    Operator.LESS: max,
    Operator.LESS_OR_EQUAL: max,
    Operator.GREATER: min,
    Operator.GREATER_OR_EQUAL: min,
}


def combine(predicate: Predicate) -> Predicate:
    """An equivalent predicate with as few comparisons as possible. Pure.

    Only in such a predicate can a NOT_EQUAL have several values: the column equals none of them.
    """
    if isinstance(predicate, Comparison):
        return predicate
    is_all = isinstance(predicate, AllOf)
    operands = [part for operand in predicate.operands for part in _flat(combine(operand), type(predicate))]
    columns: dict[tuple[int, Operator], list[Comparison]] = {}
    others: dict[Predicate, None] = {}
    for operand in operands:
        if isinstance(operand, Comparison):
            columns.setdefault((operand.field_id, operand.operator), []).append(operand)
        else:
            others[operand] = None
    if is_all:
        _join_sets(columns)
    joined: list[Predicate] = []
    for (field_id, operator), comparisons in columns.items():
        join = _all_of_column if is_all else _any_of_column
        joined += join(field_id, operator, comparisons)
    joined += others
    if len(joined) == 1:
        return joined[0]
    return AllOf(tuple(joined)) if is_all else AnyOf(tuple(joined))


def _flat(predicate: Predicate, kind: type[AllOf | AnyOf]) -> Sequence[Predicate]:
    return predicate.operands if isinstance(predicate, kind) else (predicate,)


def _any_of_column(field_id: int, operator: Operator, comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The condition that is true if at least one of these comparisons of a column by one operator is."""
    if len(comparisons) == 1:
        return [*comparisons]
    values = tuple(dict.fromkeys(value for comparison in comparisons for value in comparison.values))
    if operator in _WEAKEST:
        return [Comparison(field_id, operator, (_WEAKEST[operator](values),))]
    if operator is Operator.NOT_EQUAL:
        # A value differs from one of two unless it equals both; a combined NOT_EQUAL differs from all of its values.
        common = set(comparisons[0].values).intersection(*(comparison.values for comparison in comparisons))
        if not common:
            return [Comparison(field_id, Operator.IS_NOT_NULL)]
        return [Comparison(field_id, operator, tuple(value for value in values if value in common))]
    return [Comparison(field_id, operator, values)]


def _all_of_column(field_id: int, operator: Operator, comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The condition that is true if all of these comparisons of a column by one operator are."""
    if len(comparisons) == 1:
        return [*comparisons]
    values = tuple(dict.fromkeys(value for comparison in comparisons for value in comparison.values))
    if operator in _STRICTEST:
        return [Comparison(field_id, operator, (_STRICTEST[operator](values),))]
    # Sets are joined already.
    return [*comparisons] if operator is Operator.IN else [Comparison(field_id, operator, values)]


def _join_sets(columns: dict[tuple[int, Operator], list[Comparison]]) -> None:
    """Joins the sets of values of each column, before its bounds are joined: some sets become bounds."""
    for field_id, operator in [key for key, comparisons in columns.items() if len(comparisons) > 1]:
        if operator is not Operator.IN:
            continue
        joined = _all_of_sets(field_id, columns[field_id, operator])
        columns[field_id, operator] = [each for each in joined if each.operator is operator]
        for each in joined:
            if each.operator is not operator:
                columns.setdefault((field_id, each.operator), []).append(each)


def _all_of_sets(field_id: int, comparisons: Sequence[Comparison]) -> list[Comparison]:
    """A file may hold a value of each set: bounds that include several single values include their whole range."""
    singles = {comparison.values[0] for comparison in comparisons if len(comparison.values) == 1}
    sets: dict[frozenset[bytes], Comparison] = {}
    for comparison in comparisons:
        if len(comparison.values) != 1:
            sets.setdefault(frozenset(comparison.values), comparison)
    joined = list(sets.values())
    if len(singles) == 1:
        joined.append(Comparison(field_id, Operator.IN, tuple(singles)))
    elif singles:
        joined.append(Comparison(field_id, Operator.LESS_OR_EQUAL, (min(singles),)))
        joined.append(Comparison(field_id, Operator.GREATER_OR_EQUAL, (max(singles),)))
    return joined
