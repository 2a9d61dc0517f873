"""Which rows of a merge belong together: equal columns, and what else the condition asks for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types as pt
from sqlglot import exp

from lakelog.errors import InvalidArgument
from lakelog.format.filter.condition import parse_filter
from lakelog.format.types.cast import check_schema
from lakelog.format.types.types import canonical_type
from lakelog.writes.row_changes.expressions import (
    Column,
    Side,
    SqlText,
    bind_tree,
    columns_of,
    parse_expression,
    split_conjunction,
)

_PLACE = "the merge's condition (on)"


@dataclass(frozen=True)
class EqualColumns:
    """A column of the table and one of the source that must be equal, compared as values of a type."""

    target: str
    source: str
    type: pa.DataType


@dataclass(frozen=True)
class OnCondition:
    """The parts of the condition of a merge; all of them must hold.

    Args:
        equal: Columns that must be equal.
        rest: What else must hold for a pair of rows; None: nothing.
        filter: What else must hold for the table's row, as a filter of a scan; None: nothing.
    """

    equal: tuple[EqualColumns, ...]
    rest: SqlText | None = None
    filter: str | None = None


def bind_on(on: str | Sequence[str], target: Side, source: Side, *, reads_all: bool) -> OnCondition:
    """Reads the condition of a merge.

    Args:
        on: Names of columns that both sides have and that must be equal, or an SQL condition.
        target: The table.
        source: The source.
        reads_all: Whether rows of the table that the condition excludes matter as well.

    Raises:
        InvalidArgument: A column does not exist, cannot be compared, or the condition cannot be read.
    """
    if not isinstance(on, str):
        return OnCondition(tuple(_name_equal(name, target, source) for name in on))
    equal: list[EqualColumns] = []
    rest: list[exp.Expr] = []
    filters: list[str] = []
    parts = split_conjunction(parse_expression(on, _PLACE))
    for part in parts:
        pair = _find_equal(part, target, source)
        condition = None if reads_all or pair is not None else _find_filter(part, target, source)
        if pair is not None:
            equal.append(pair)
        elif condition is not None:
            filters.append(condition)
        else:
            rest.append(part)
    bound = None
    if not equal and not rest:
        # All rows of the source belong to each row of the table that the filter leaves.
        rest = parts
    if rest:
        whole = bind_tree(exp.and_(*rest), (target, source), _PLACE)
        # A column alone is a condition of type BOOLEAN, or none at all.
        bound = (
            whole if isinstance(whole, SqlText) else SqlText(f'"{columns_of(whole)[0].label}"', columns_of(whole), on)
        )
    return OnCondition(tuple(equal), bound, " AND ".join(f"({each})" for each in filters) or None)


def check_on(on: object) -> str | tuple[str, ...]:
    """Returns the argument `on` of a merge.

    Raises:
        InvalidArgument: It is neither an SQL condition nor a list of at least one column, each named once.
    """
    if isinstance(on, str):
        return on
    names = tuple(on) if isinstance(on, Sequence) and not isinstance(on, bytes) else ()
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise InvalidArgument(
            f"on={on!r:.80} does not say which rows belong together. Give columns, each once, as in on=['id'], or an "
            "SQL condition such as on='target.id = source.id'.",
            metadata={"field": "on"},
        )
    return names


def _name_equal(name: str, target: Side, source: Side) -> EqualColumns:
    columns = (target.find(name), source.find(name))
    for side, column in zip((target, source), columns, strict=True):
        if column is None:
            raise InvalidArgument(
                f"on={name!r:.80}: the {side.names[0]} has no such column; its columns are "
                f"{', '.join(side.schema.names[:50])}.",
                reason="UNKNOWN_COLUMN",
                metadata={"field": "on", "column": name[:200]},
            )
    own, other = columns
    assert own is not None
    assert other is not None
    field = target.schema.field(own)
    given = source.schema.field(other)
    if pt.is_nested(field.type):
        raise InvalidArgument(
            f"Rows cannot be matched by '{own}' of type {field.type}: only single values are compared. Match by "
            "another column, or by a field in an SQL condition.",
            metadata={"field": "on", "column": own},
        )
    common = _find_common_type(field.type, given.type)
    if common is None:
        check_schema(pa.schema([given.with_name(own)]), pa.schema([pa.field(own, field.type)]))
        common = field.type
    return EqualColumns(own, other, common)


def _find_equal(part: exp.Expr, target: Side, source: Side) -> EqualColumns | None:
    if not isinstance(part, exp.EQ):
        return None
    operands = (part.this.unnest(), part.expression.unnest())
    if not all(isinstance(each, exp.Column) for each in operands):
        return None
    bound = [bind_tree(each, (target, source), _PLACE) for each in operands]
    columns = {each.side: each.name for each in bound if isinstance(each, Column)}
    if set(columns) != {target.prefix, source.prefix}:
        return None
    own, other = columns[target.prefix], columns[source.prefix]
    common = _find_common_type(target.schema.field(own).type, source.schema.field(other).type)
    return None if common is None else EqualColumns(own, other, common)


def _find_filter(part: exp.Expr, target: Side, source: Side) -> str | None:
    """A part that concerns only the table, as a filter of a scan; None: it is none, or scans do not know it."""
    if isinstance(part, exp.Column):
        return None
    used = columns_of(bind_tree(part, (target, source), _PLACE))
    if not used or any(column.side != target.prefix for column in used):
        return None
    copy = part.copy()
    names = {name.casefold() for name in target.names}
    for column in copy.find_all(exp.Column):
        qualifier = ".".join(each.name for each in column.parts[:-1]).casefold()
        if qualifier and qualifier not in names:
            return None
        column.replace(exp.column(exp.to_identifier(column.name, quoted=True)))
    text = copy.sql("spark")
    try:
        parse_filter(text, target.schema)
    except InvalidArgument:
        return None
    return text


def _find_common_type(own: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type in which values of both are compared; None: they are compared in another way. Pure."""
    if pt.is_nested(own) or pt.is_nested(other):
        return None
    if pt.is_integer(own) and pt.is_integer(other) and not pt.is_uint64(other):
        return pa.int64()
    try:
        return own if canonical_type(other, "") == own else None
    except InvalidArgument:
        return None
