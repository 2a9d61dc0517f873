"""The meaning of a filter: a tree whose names, types and functions are resolved.

NOT has been moved inwards (`negate`), so that pruning sees comparisons. All orders are Spark's: NaN equals NaN and is
above all other numbers, -0.0 equals 0.0, text is ordered by its bytes. Constants of dates and timestamps are whole
numbers: days and microseconds since 1970-01-01.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import pyarrow as pa

Value = bool | int | float | Decimal | str | bytes | None

_INVERSE: Final = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
SWAPPED: Final = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<=", "<=>": "<=>"}
"""The equivalent operator for exchanged operands."""


@dataclass(frozen=True)
class _Condition:
    """A node that is true, false or NULL."""

    @property
    def type(self) -> pa.DataType:
        """Boolean."""
        return pa.bool_()


@dataclass(frozen=True)
class Column:
    """A column, or a field inside a struct column."""

    path: tuple[str, ...]
    type: pa.DataType


@dataclass(frozen=True)
class Constant:
    """A constant of a type; None is NULL."""

    value: Value
    type: pa.DataType


@dataclass(frozen=True)
class Call:
    """A function of `filter_functions`, or `cast` to `type`; options are constants that are no values of rows."""

    function: str
    arguments: tuple[Node, ...]
    type: pa.DataType
    options: tuple[int | str | None, ...] = ()


@dataclass(frozen=True)
class Compare(_Condition):
    """`= <> < <= > >=` of two operands of one type; NULL when one of them is."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True)
class InSet(_Condition):
    """Whether the operand equals one of the values, which have its type and are neither NULL nor NaN.

    NULL for a NULL operand. The condition around it handles a NULL or a NaN in the list.
    """

    operand: Node
    values: tuple[Value, ...]
    negated: bool = False


@dataclass(frozen=True)
class IsNull(_Condition):
    """Whether the operand is NULL; never NULL itself."""

    operand: Node
    negated: bool = False


@dataclass(frozen=True)
class Matches(_Condition):
    """A text against a fixed pattern; NULL for a NULL text.

    Args:
        operand: The text.
        kind: `starts`, `ends`, `contains`, or `regex` (RE2, matching the whole text).
        pattern: The text or the expression.
        negated: Whether it must not match.
    """

    operand: Node
    kind: str
    pattern: str
    negated: bool = False


@dataclass(frozen=True)
class AllOf(_Condition):
    """SQL's AND of one or more."""

    operands: tuple[Node, ...]


@dataclass(frozen=True)
class AnyOf(_Condition):
    """SQL's OR of one or more."""

    operands: tuple[Node, ...]


@dataclass(frozen=True)
class Not(_Condition):
    """SQL's NOT of a condition that has no opposite of its own."""

    operand: Node


Node = Column | Constant | Call | Compare | InSet | IsNull | Matches | AllOf | AnyOf | Not

TRUE: Final = Constant(True, pa.bool_())
FALSE: Final = Constant(False, pa.bool_())
UNKNOWN: Final = Constant(None, pa.bool_())


def negate(node: Node) -> Node:
    """SQL's NOT of a condition, moved as far inwards as it goes. Pure."""
    match node:
        case Constant():
            return node if node.value is None else Constant(not node.value, node.type)
        case Compare():
            return Compare(_INVERSE[node.operator], node.left, node.right)
        case InSet():
            return InSet(node.operand, node.values, not node.negated)
        case IsNull():
            return IsNull(node.operand, not node.negated)
        case Matches():
            return Matches(node.operand, node.kind, node.pattern, not node.negated)
        case AllOf():
            return AnyOf(tuple(negate(operand) for operand in node.operands))
        case AnyOf():
            return AllOf(tuple(negate(operand) for operand in node.operands))
        case Not():
            return node.operand
        case Column() | Call():
            return Not(node)


def always_unless_null(operand: Node) -> Node:
    """True, but NULL where the operand is NULL."""
    return AnyOf((IsNull(operand, negated=True), UNKNOWN))


def never_or_null(operand: Node) -> Node:
    """False, but NULL where the operand is NULL."""
    return AllOf((IsNull(operand), UNKNOWN))


def all_of(operands: list[Node]) -> Node:
    """SQL's AND; nested ones are joined."""
    flat = [part for node in operands for part in (node.operands if isinstance(node, AllOf) else (node,))]
    return flat[0] if len(flat) == 1 else AllOf(tuple(flat))


def any_of(operands: list[Node]) -> Node:
    """SQL's OR; nested ones are joined, and equality comparisons of the same operand become one set."""
    flat = [part for node in operands for part in (node.operands if isinstance(node, AnyOf) else (node,))]
    sets: dict[Node, list[Value]] = {}
    joined: list[Node] = []
    for node in flat:
        equal = _equal_values(node)
        if equal is None:
            joined.append(node)
        else:
            sets.setdefault(equal[0], []).extend(equal[1])
    joined.extend(equals_any(operand, tuple(dict.fromkeys(values))) for operand, values in sets.items())
    return joined[0] if len(joined) == 1 else AnyOf(tuple(joined))


def equals_any(operand: Node, values: tuple[Value, ...]) -> Node:
    """The operand equals one of one or more values of its type, none of them NULL or NaN."""
    if len(values) == 1:
        return Compare("=", operand, Constant(values[0], operand.type))
    return InSet(operand, values)


def is_nan(value: Value) -> bool:
    """Whether a constant is not a number."""
    return isinstance(value, float) and value != value


def _equal_values(node: Node) -> tuple[Node, tuple[Value, ...]] | None:
    if isinstance(node, InSet) and not node.negated:
        return node.operand, node.values
    if isinstance(node, Compare) and node.operator == "=" and isinstance(node.right, Constant):
        value = node.right.value
        if value is not None and not is_nan(value):
            return node.left, (value,)
    return None
