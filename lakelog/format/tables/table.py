"""The catalog's record of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lakelog.format.types.evolution import find_renames
from lakelog.format.types.schema import TableSchema
from lakelog.options.column_options import rename_in_options


@dataclass(frozen=True)
class TableName:
    """A table's full name."""

    database: str
    name: str

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"


@dataclass(frozen=True)
class TableInfo:
    """A table in its state at the answer of the metastore.

    Args:
        table_uuid: 32 hexadecimal digits; another one after drop and re-creation.
        name: Its full name.
        location: Absolute URI that ends with a slash.
        schema: The schema that new commits must be written with.
        options: Options that were set, by key, as text.
        latest_snapshot_id: 0 if the table has no snapshot.
        created_at_ms: Milliseconds since the epoch.
        comment: May be empty.
    """

    table_uuid: str
    name: TableName
    location: str
    schema: TableSchema
    options: Mapping[str, str]
    latest_snapshot_id: int
    created_at_ms: int
    comment: str = ""


@dataclass(frozen=True)
class DatabaseInfo:
    """A database.

    Args:
        name: Its name.
        comment: What it is for; may be empty.
        table_count: How many tables it has.
        size_bytes: The size of the files of their newest snapshots.
    """

    name: str
    comment: str
    table_count: int
    size_bytes: int = 0


def as_of(table: TableInfo, schema: TableSchema) -> TableInfo:
    """The table with another version of its schema, and options that name the columns as that version does. Pure.

    Options name columns by their present names. Read beside an earlier schema they would name no column, or another
    one that had the name then.
    """
    if schema.schema_id == table.schema.schema_id:
        return table
    options = rename_in_options(table.options, find_renames(table.schema, schema))
    return replace(table, schema=schema, options=options)
