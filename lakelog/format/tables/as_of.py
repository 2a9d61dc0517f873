"""A table under an earlier version of its schema."""

from __future__ import annotations

from dataclasses import replace

from lakelog.format.tables.table import TableInfo
from lakelog.format.types.evolution import find_renames
from lakelog.format.types.schema import TableSchema
from lakelog.options.column_options import rename_in_options


def as_of(table: TableInfo, schema: TableSchema) -> TableInfo:
    """The table with another version of its schema, and options that name the columns as that version does. Pure.

    Options name columns by their present names. Read beside an earlier schema they would name no column, or another
    one that had the name then.
    """
    if schema.schema_id == table.schema.schema_id:
        return table
    options = rename_in_options(table.options, find_renames(table.schema, schema))
    return replace(table, schema=schema, options=options)
