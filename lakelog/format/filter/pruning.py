"""The parts of a filter by which the metastore can exclude files: conditions on single columns, and key bounds.

Both are weaker than the filter. A part that they cannot express is left out of a conjunction, and a disjunction with
such a part excludes nothing, so no row that matches is ever lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakelog.format.filter.arrow import to_scalar
from lakelog.format.filter.tree import (
    FALSE,
    UNKNOWN,
    AllOf,
    AnyOf,
    Column,
    Compare,
    Constant,
    InSet,
    IsNull,
    Matches,
    Node,
    Value,
)
from lakelog.format.filter.types import family
from lakelog.format.keys.encoding import encode_key, encode_values
from lakelog.format.tables.predicate import MAX_COMPARISONS, Comparison, Operator, Predicate
from lakelog.format.tables.predicate import AllOf as AllPredicates
from lakelog.format.tables.predicate import AnyOf as AnyPredicate
from lakelog.format.tables.weaken import weaken

MAX_PRUNING_VALUES: Final = 10_000
"""Values of an IN list that are sent; a longer one is sent as its range."""

MAX_PRUNING_BYTES: Final = 256 * 1024
"""The most bytes of these values, so that a plan's request stays small."""

MAX_EXCLUDED_VALUES: Final = 1_000
"""The most values of a NOT IN list that are sent, each as a comparison; a longer list excludes next to nothing."""

_AFTER_ALL: Final = b"\xff"
"""After an encoded prefix of a key, this is above every longer key: encodings begin with 0x00 or 0x01."""

_OPERATORS: Final = {
    "=": Operator.IN,
    "<>": Operator.NOT_EQUAL,
    "<": Operator.LESS,
    "<=": Operator.LESS_OR_EQUAL,
    ">": Operator.GREATER,
    ">=": Operator.GREATER_OR_EQUAL,
}


def to_predicate(node: Node, field_ids: Mapping[str, int]) -> Predicate | None:
    """The part of a filter that single top-level columns decide; None: there is no such part. Pure.

    It never has more comparisons than the metastore accepts.
    """
    found = _to_predicate(node, field_ids)
    return None if found is None else weaken(found, MAX_COMPARISONS)


def _to_predicate(node: Node, field_ids: Mapping[str, int]) -> Predicate | None:
    match node:
        case AllOf():
            parts = [_to_predicate(operand, field_ids) for operand in node.operands]
            known = tuple(part for part in parts if part is not None)
            return AllPredicates(known) if len(known) > 1 else known[0] if known else None
        case AnyOf():
            # A constant NULL, as from a list with NULL in it, never lets a row pass.
            possible = [operand for operand in node.operands if operand not in (UNKNOWN, FALSE)]
            parts = [_to_predicate(operand, field_ids) for operand in possible]
            known = tuple(part for part in parts if part is not None)
            if not known or len(known) < len(parts):
                return None
            return AnyPredicate(known) if len(known) > 1 else known[0]
        case Compare():
            column = _top_level(node.left, field_ids)
            if column is None or not isinstance(node.right, Constant):
                return None
            return Comparison(
                field_ids[column.path[0]], _OPERATORS[node.operator], (_encode(node.right.value, column),)
            )
        case IsNull():
            column = _top_level(node.operand, field_ids)
            if column is None:
                return None
            return Comparison(field_ids[column.path[0]], Operator.IS_NOT_NULL if node.negated else Operator.IS_NULL)
        case InSet():
            column = _top_level(node.operand, field_ids)
            return None if column is None else _set_predicate(node, column, field_ids[column.path[0]])
        case Matches():
            column = _top_level(node.operand, field_ids)
            return None if column is None else _prefix_predicate(node, column, field_ids[column.path[0]])
        case _:
            return None


def key_bounds(node: Node, key: Sequence[str]) -> tuple[bytes | None, bytes | None]:
    """Encoded inclusive bounds of the keys that rows matching the filter can have. Pure.

    Args:
        node: The filter.
        key: Names of the trimmed primary key's columns in order.

    Returns:
        The least and the greatest key, the first never above the second; None: unbounded.
    """
    parts = node.operands if isinstance(node, AllOf) else (node,)
    first = last = b""
    open_below = open_above = False
    for name in key:
        bounds = _Bounds()
        for part in parts:
            bounds = bounds.narrowed(part, name)
        if not open_below and bounds.first is not None:
            first += bounds.first
        else:
            open_below = True
        if not open_above and bounds.last is not None:
            last += bounds.last
        else:
            open_above = True
        if bounds.first is None or bounds.first != bounds.last:
            # After a column that is not fixed to one value, the next ones would bound only its least and greatest.
            break
    if first and last and first > last + _AFTER_ALL:
        # Conditions that contradict each other, such as BETWEEN 3 AND 1: no row fulfils them, so any range is right.
        return first, first
    return first or None, last + _AFTER_ALL if last else None


@dataclass(frozen=True)
class _Bounds:
    """Encoded inclusive bounds of one column's values; None: unbounded."""

    first: bytes | None = None
    last: bytes | None = None

    def narrowed(self, node: Node, name: str) -> _Bounds:
        """Bounds that also include a condition that must be true; unchanged if it does not concern the column."""
        match node:
            case Compare(operator, Column((column,)) as left, Constant(value)) if column == name and operator != "<>":
                encoded = _encode(value, left)
                return self._within(
                    encoded if operator in ("=", ">", ">=") else None, encoded if operator in ("=", "<", "<=") else None
                )
            case InSet(Column((column,)) as operand, values, False) if column == name:
                encoded_values = _encode_all(values, operand)
                return self._within(encoded_values[0], encoded_values[-1])
            case Matches(Column((column,)) as operand, "starts", pattern, False) if column == name:
                end = _after_prefix(pattern)
                return self._within(_encode(pattern, operand), None if end is None else _encode(end, operand))
            case _:
                return self

    def _within(self, first: bytes | None, last: bytes | None) -> _Bounds:
        firsts = [bound for bound in (self.first, first) if bound is not None]
        lasts = [bound for bound in (self.last, last) if bound is not None]
        return _Bounds(max(firsts, default=None), min(lasts, default=None))


def _top_level(node: Node, field_ids: Mapping[str, int]) -> Column | None:
    if not isinstance(node, Column) or len(node.path) > 1 or node.path[0] not in field_ids:
        return None
    return None if family(node.type) == "nested" else node


def _encode(value: Value, column: Column) -> bytes:
    return encode_key([to_scalar(value, column.type)])


def _encode_all(values: Sequence[Value], column: Column) -> list[bytes]:
    """The distinct encodings, in rising order."""
    return sorted(set(encode_values(pa.array(values, column.type)).to_pylist()))


def _set_predicate(node: InSet, column: Column, field_id: int) -> Predicate | None:
    if node.negated and len(node.values) > MAX_EXCLUDED_VALUES:
        return Comparison(field_id, Operator.IS_NOT_NULL)
    encoded = _encode_all(node.values, column)
    if node.negated:
        return AllPredicates(tuple(Comparison(field_id, Operator.NOT_EQUAL, (value,)) for value in encoded))
    if len(encoded) <= MAX_PRUNING_VALUES and sum(map(len, encoded)) <= MAX_PRUNING_BYTES:
        return Comparison(field_id, Operator.IN, tuple(encoded))
    return AllPredicates(
        (
            Comparison(field_id, Operator.GREATER_OR_EQUAL, (encoded[0],)),
            Comparison(field_id, Operator.LESS_OR_EQUAL, (encoded[-1],)),
        )
    )


def _prefix_predicate(node: Matches, column: Column, field_id: int) -> Predicate | None:
    if node.negated or node.kind != "starts":
        return Comparison(field_id, Operator.IS_NOT_NULL)
    at_least = Comparison(field_id, Operator.GREATER_OR_EQUAL, (_encode(node.pattern, column),))
    end = _after_prefix(node.pattern)
    if end is None:
        return at_least
    return AllPredicates((at_least, Comparison(field_id, Operator.LESS, (_encode(end, column),))))


def _after_prefix(prefix: str) -> str | None:
    """The least text above all texts with this prefix; None: there is none. Texts are ordered by their code points."""
    for position in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[position])
        if code < 0x10FFFF:
            # Surrogates are no characters and cannot be encoded.
            following = 0xE000 if code == 0xD7FF else code + 1
            return prefix[:position] + chr(following)
    return None
