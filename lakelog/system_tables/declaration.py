"""How a system table is declared: its name, its columns, and the function that reads it.

The page docs/system-tables.md and the schemas of reads come from these declarations alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakelog.format.types.schema import TableSchema
from lakelog.format.types.types import INSTANT

if TYPE_CHECKING:
    from lakelog.context import Context
    from lakelog.format.tables.table import TableInfo
    from lakelog.system_tables.wanted import Wanted

TEXT: Final = pa.string()
NUMBER: Final = pa.int64()
SMALL_NUMBER: Final = pa.int32()
FLAG: Final = pa.bool_()
TIME: Final = INSTANT


@dataclass(frozen=True)
class Derived:
    """A type that depends on the table.

    Args:
        shown: How the documentation names it.
        of: The type, by the table's schema.
    """

    shown: str
    of: Callable[[TableSchema], pa.DataType]


@dataclass(frozen=True)
class Column:
    """A column of a system table. Each can be NULL, as in Spark's own sources.

    Args:
        name: Its name.
        type: Its type.
        about: What it holds, for the documentation.
    """

    name: str
    type: pa.DataType | Derived
    about: str


@dataclass(frozen=True)
class Declaration:
    """What all system tables have.

    Args:
        name: Without the table and the `$`.
        about: What it is for, for the documentation.
        columns: Its own columns, in order.
    """

    name: str
    about: str
    columns: tuple[Column, ...]

    def to_schema(self, schema: TableSchema | None) -> pa.Schema:
        """Its columns for a table of this schema; None: it belongs to the catalog. Pure."""
        return pa.schema([pa.field(each.name, _type_of(each, schema)) for each in self.columns])


@dataclass(frozen=True)
class OfTable(Declaration):
    """Metadata of one table.

    Args:
        read: Returns at least the wanted rows, with at least the wanted columns, in any order of columns.
        has_past: Whether it can show an earlier snapshot.
    """

    read: Callable[[Context, TableInfo, Wanted], pa.Table] = field(kw_only=True)
    has_past: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class OfCatalog(Declaration):
    """Metadata of all tables that the caller may see; `read` as of `OfTable`."""

    read: Callable[[Context, Wanted], pa.Table] = field(kw_only=True)


@dataclass(frozen=True)
class OfRows(Declaration):
    """Rows of the table itself, in another form. The own columns come first, then those of the table.

    Args:
        to_type: The type of a column of the table here.
        has_changes: It shows changes, and not a state.
    """

    to_type: Callable[[pa.DataType], pa.DataType] = field(default=lambda data_type: data_type, kw_only=True)
    has_changes: bool = field(default=True, kw_only=True)

    def to_schema(self, schema: TableSchema | None) -> pa.Schema:
        """Its columns for a table of this schema. Pure."""
        assert schema is not None, "it belongs to a table"
        own = super().to_schema(schema)
        # A delete may know only its key, so each column can be NULL.
        return pa.schema([*own, *(pa.field(each.name, self.to_type(_without_ids(each.type))) for each in schema.arrow)])


def _type_of(column: Column, schema: TableSchema | None) -> pa.DataType:
    if isinstance(column.type, pa.DataType):
        return column.type
    assert schema is not None, "only tables have columns whose type depends on the table"
    return column.type.of(schema)


def _without_ids(data_type: pa.DataType) -> pa.DataType:
    """The type without the ids of nested fields, which only files need."""
    if pa.types.is_struct(data_type):
        fields = [data_type.field(place) for place in range(data_type.num_fields)]
        return pa.struct([pa.field(each.name, _without_ids(each.type), each.nullable) for each in fields])
    if pa.types.is_map(data_type):
        item = data_type.item_field
        key = pa.field(data_type.key_field.name, _without_ids(data_type.key_type), nullable=False)
        return pa.map_(key, pa.field(item.name, _without_ids(item.type), item.nullable))
    if pa.types.is_list(data_type):
        value = data_type.value_field
        return pa.list_(pa.field(value.name, _without_ids(value.type), value.nullable))
    return data_type
