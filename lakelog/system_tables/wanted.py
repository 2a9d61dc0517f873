"""What a read of a system table wants: columns, a condition, and a state. Parts of the condition narrow requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakelog.format.filter.condition import Filter
from lakelog.format.filter.pruning import to_predicate
from lakelog.format.filter.tree import AllOf, AnyOf, Column, Compare, InSet, IsNull, Matches, Node
from lakelog.format.keys.encoding import decode_values
from lakelog.format.tables.predicate import AllOf as AllPredicates
from lakelog.format.tables.predicate import Comparison, Operator, Predicate
from lakelog.format.types.schema import TableSchema
from lakelog.reads.reading import State

_NUMBER_LENGTH: Final = 9
"""Bytes of an encoded number: a marker and eight digits."""


@dataclass(frozen=True)
class Wanted:
    """What a read wants. A system table may return more rows and columns; they are left out afterwards.

    Args:
        schema: All columns of the system table.
        given_schema: The schema of the table at the state to show; None for tables of the catalog.
        columns: Names of the columns that the result or the condition needs.
        filter: The condition; None: all rows.
        state: The state to show; None: the present one.
        between: For changes: only those of the snapshots after the first up to the second one; None: all.
    """

    schema: pa.Schema
    given_schema: TableSchema | None
    columns: frozenset[str]
    filter: Filter | None = None
    state: State = None
    between: tuple[int, int] | None = None

    @property
    def table_schema(self) -> TableSchema:
        """The schema of the table at the state to show."""
        assert self.given_schema is not None, "only tables of the catalog have none"
        return self.given_schema

    def needs(self, *names: str) -> bool:
        """Whether one of these columns is needed."""
        return not self.columns.isdisjoint(names)

    def bounds_of(self, name: str) -> tuple[int | None, int | None]:
        """The least and the greatest whole number that a column of a wanted row can have; None: unbounded."""
        if self.filter is None:
            return None, None
        first, last = self.filter.key_bounds((name,))
        return _to_number(first), _to_number(last)

    def values_of(self, name: str) -> list[object] | None:
        """The only values that a column of a wanted row can have; None: any."""
        predicate = None if self.filter is None else self.filter.to_predicate({name: 1})
        values = None if predicate is None else _find_values(predicate)
        if values is None:
            return None
        found: list[object] = decode_values(sorted(values), self.schema.field(name).type).to_pylist()
        return found

    def predicate_on(self, struct: str, field_ids: Mapping[str, int]) -> Predicate | None:
        """The part of the condition on fields of a struct column, as one on columns with these ids; None: none."""
        if self.filter is None:
            return None
        found = _lift(self.filter.tree, struct)
        return None if found is None else to_predicate(found, field_ids)


def _to_number(encoded: bytes | None) -> int | None:
    if encoded is None or len(encoded) < _NUMBER_LENGTH or encoded[0] != 1:
        return None
    return int.from_bytes(encoded[1:_NUMBER_LENGTH], "big") - (1 << 63)


def _find_values(predicate: Predicate) -> set[bytes] | None:
    if isinstance(predicate, Comparison):
        return set(predicate.values) if predicate.operator is Operator.IN else None
    parts = [_find_values(operand) for operand in predicate.operands]
    known = [part for part in parts if part is not None]
    if isinstance(predicate, AllPredicates):
        return set.intersection(*known) if known else None
    return set().union(*known) if len(known) == len(parts) else None


def _lift(node: Node, struct: str) -> Node | None:
    """The part of a condition on fields of one struct, with the fields as columns; None: there is none. Pure."""
    match node:
        case AllOf():
            parts = [part for operand in node.operands if (part := _lift(operand, struct)) is not None]
            return AllOf(tuple(parts)) if parts else None
        case AnyOf():
            lifted = [_lift(operand, struct) for operand in node.operands]
            known = tuple(part for part in lifted if part is not None)
            return AnyOf(known) if len(known) == len(lifted) else None
        case Compare():
            left = _lift_column(node.left, struct)
            return None if left is None else Compare(node.operator, left, node.right)
        case InSet() | IsNull() | Matches():
            operand = _lift_column(node.operand, struct)
            return None if operand is None else _with_operand(node, operand)
        case _:
            return None


def _lift_column(node: Node, struct: str) -> Column | None:
    if not isinstance(node, Column) or len(node.path) != 2 or node.path[0] != struct:
        return None
    return Column(node.path[1:], node.type)


def _with_operand(node: InSet | IsNull | Matches, operand: Column) -> Node:
    match node:
        case InSet():
            return InSet(operand, node.values, node.negated)
        case IsNull():
            return IsNull(operand, node.negated)
        case Matches():
            return Matches(operand, node.kind, node.pattern, node.negated)
