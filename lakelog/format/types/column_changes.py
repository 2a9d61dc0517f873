"""The changes of a table's columns, as values: what a user asks for, and what travels to the metastore.

`lakelog.format.types.evolution` applies them to a schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

ColumnPath: TypeAlias = str | Sequence[str]
"""A column, or a field inside of one: `address.zip`, `tags.element`, `prices.value`; or its parts one by one, for names
that contain a dot: `["a.b", "zip"]`."""


@dataclass(frozen=True)
class AddColumn:
    """Adds a column, or a field to a struct. A name that was dropped before makes a new column.

    Args:
        column: Its path; the last part is the new name.
        data_type: An Arrow type, or the text of an SQL type.
        nullable: Whether it takes NULL; a column that does not needs a default.
        comment: What it is for.
        default: What rows that are there already show, and what a write stores that leaves it out; None: NULL.
        first: Put it before all others.
        after: Put it behind this one.
    """

    column: ColumnPath
    data_type: pa.DataType | str
    nullable: bool = True
    comment: str = ""
    default: Any = None
    first: bool = False
    after: str | None = None


@dataclass(frozen=True)
class DropColumn:
    """Drops a column or field. Earlier snapshots keep it."""

    column: ColumnPath


@dataclass(frozen=True)
class RenameColumn:
    """Gives a column or field another name: the last part of its path."""

    column: ColumnPath
    new_name: str


@dataclass(frozen=True)
class MoveColumn:
    """Moves a column or field to another place; exactly one of `first` and `after`."""

    column: ColumnPath
    first: bool = False
    after: str | None = None


@dataclass(frozen=True)
class WidenColumn:
    """Gives a column or field a wider type, which holds each of its values unchanged.

    Args:
        column: Its path; lists and maps are widened at `.element`, `.key` and `.value`.
        data_type: An Arrow type, or the text of an SQL type.
    """

    column: ColumnPath
    data_type: pa.DataType | str


@dataclass(frozen=True)
class AllowNull:
    """Lets a NOT NULL column or field take NULL."""

    column: ColumnPath


@dataclass(frozen=True)
class CommentColumn:
    """Sets the comment of a column or field; an empty one removes it."""

    column: ColumnPath
    comment: str


@dataclass(frozen=True)
class SetDefault:
    """Sets what writes store that leave a column out; rows that are there stay as they are. None: NULL."""

    column: ColumnPath
    default: Any


ColumnChange: TypeAlias = (
    AddColumn | DropColumn | RenameColumn | MoveColumn | WidenColumn | AllowNull | CommentColumn | SetDefault
)
"""One change of one column."""
