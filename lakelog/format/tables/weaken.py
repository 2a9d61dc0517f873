"""Weakens predicates that would be too large: an OR of very many ANDs, as from a list of keys of two columns.

For each column, one set of values or one range remains, which covers all operands of the OR.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakelog.format.tables.combine import combine
from lakelog.format.tables.predicate import AllOf, AnyOf, Comparison, Operator, Predicate

_LOWER = (Operator.GREATER, Operator.GREATER_OR_EQUAL)
_UPPER = (Operator.LESS, Operator.LESS_OR_EQUAL)


def weaken(predicate: Predicate, most: int) -> Predicate | None:
    """Returns a predicate with a limited number of comparisons that is true wherever the given one is. Pure.

    Args:
        predicate: Any predicate.
        most: The most comparisons of the combined predicate, at least 1.

    Returns:
        The same predicate if it is small enough; None: no condition fits into so few comparisons.
    """
    combined = combine(predicate)
    if _count(combined) <= most:
        return predicate
    weaker = _weaken(combined, most)
    return None if weaker is None else _split_exclusions(weaker)


def _weaken(predicate: Predicate, most: int) -> Predicate | None:
    if _count(predicate) <= most:
        return predicate
    if isinstance(predicate, AnyOf):
        return _weaken_any(predicate, most)
    assert isinstance(predicate, AllOf), "one comparison is few enough"
    # The most selective operand is not known, so each gets the comparisons that the smaller ones before it have left.
    kept: list[Predicate] = []
    for operand in sorted(predicate.operands, key=_count):
        weaker = _weaken(operand, most) if most > 0 else None
        if weaker is not None:
            kept.append(weaker)
            most -= _count(weaker)
    return AllOf(tuple(kept)) if len(kept) > 1 else kept[0] if kept else None


def _weaken_any(predicate: AnyOf, most: int) -> Predicate | None:
    columns: dict[int, list[Comparison]] = {}
    said = [_by_column(operand) for operand in predicate.operands]
    for field_id in said[0]:
        if all(field_id in each for each in said):
            columns[field_id] = _join([each[field_id] for each in said])
    comparisons = [comparison for column in columns.values() for comparison in column][:most]
    return AllOf(tuple(comparisons)) if len(comparisons) > 1 else comparisons[0] if comparisons else None


def _by_column(operand: Predicate) -> dict[int, list[Comparison]]:
    """The comparisons that must be true if an operand is true, by column."""
    parts = operand.operands if isinstance(operand, AllOf) else (operand,)
    found: dict[int, list[Comparison]] = {}
    for part in parts:
        if isinstance(part, Comparison):
            found.setdefault(part.field_id, []).append(part)
    return found


def _join(said: Sequence[Sequence[Comparison]]) -> list[Comparison]:
    """The comparisons that hold for a column if all comparisons of at least one list hold."""
    field_id = said[0][0].field_id
    sets = [_values(comparisons, (Operator.IN,)) for comparisons in said]
    if all(sets):
        return [Comparison(field_id, Operator.IN, tuple(dict.fromkeys(value for each in sets for value in each)))]
    joined = []
    lowers = [_values(comparisons, (Operator.IN, *_LOWER)) for comparisons in said]
    if all(lowers):
        joined.append(Comparison(field_id, Operator.GREATER_OR_EQUAL, (min(min(each) for each in lowers),)))
    uppers = [_values(comparisons, (Operator.IN, *_UPPER)) for comparisons in said]
    if all(uppers):
        joined.append(Comparison(field_id, Operator.LESS_OR_EQUAL, (max(max(each) for each in uppers),)))
    return joined


def _values(comparisons: Iterable[Comparison], operators: Sequence[Operator]) -> tuple[bytes, ...]:
    """The values of the first comparison with one of the operators; empty: there is none."""
    return next((each.values for each in comparisons if each.operator in operators), ())


def _split_exclusions(predicate: Predicate) -> Predicate:
    """The same predicate without a NOT_EQUAL of several values, which only combined predicates have."""
    if isinstance(predicate, Comparison):
        if predicate.operator is not Operator.NOT_EQUAL or len(predicate.values) == 1:
            return predicate
        return AllOf(tuple(Comparison(predicate.field_id, predicate.operator, (value,)) for value in predicate.values))
    return type(predicate)(tuple(_split_exclusions(operand) for operand in predicate.operands))


def _count(predicate: Predicate) -> int:
    if isinstance(predicate, Comparison):
        return 1
    return sum(_count(operand) for operand in predicate.operands)
