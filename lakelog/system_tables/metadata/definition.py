"""`$schemas` and `$options`: how a table is defined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakelog.format.types.defaults import show_default
from lakelog.format.types.schema import TableSchema
from lakelog.format.types.sql_types import to_sql_type
from lakelog.system_tables.columns import to_times
from lakelog.system_tables.declaration import FLAG, SMALL_NUMBER, TEXT, TIME, Column, OfTable

if TYPE_CHECKING:
    from lakelog.context import Context
    from lakelog.format.tables.table import TableInfo
    from lakelog.system_tables.wanted import Wanted

_PROPERTIES: Final = (
    Column("schema_id", SMALL_NUMBER, "The version of the schema, from 0. `$snapshots` and `$files` name it."),
    Column("field_id", SMALL_NUMBER, "The column's id. It stays when the column is renamed, and is never used again."),
    Column("column", TEXT, "The column's name."),
    Column("type", TEXT, "Its type, as `CREATE TABLE` takes it."),
    Column("nullable", FLAG, "Whether it can be NULL."),
    Column("primary_key_position", SMALL_NUMBER, "Its place in the primary key, from 1; NULL: it is not part of it."),
    Column("partition_position", SMALL_NUMBER, "Its place among the partition columns, from 1; NULL: it is none."),
    Column("default", TEXT, "What a write that leaves it out stores; NULL: NULL."),
    Column("comment", TEXT, "What the column is for; NULL: there is no comment."),
)
_ORIGIN: Final = (
    Column(
        "created_at", TIME, "When this version was made, by the metastore's clock; NULL: it was not stored yet then."
    ),
    Column(
        "created_by", TEXT, "The caller that made it; NULL: the metastore identified no callers, or did not store it."
    ),
)


def describe_columns(schema: TableSchema) -> pa.Table:
    """One row for each column of one version of a schema, in the columns' order. Pure."""
    rows = []
    for field in schema.arrow:
        comment = (field.metadata or {}).get(b"comment")
        rows.append(
            {
                "schema_id": schema.schema_id,
                "field_id": schema.field_ids[field.name],
                "column": field.name,
                "type": to_sql_type(field.type),
                "nullable": field.nullable,
                "primary_key_position": _position(field.name, schema.primary_key),
                "partition_position": _position(field.name, schema.partition_by),
                "default": show_default(field),
                "comment": comment.decode() if comment else None,
            }
        )
    return pa.Table.from_pylist(rows, schema=pa.schema(list(SCHEMAS.to_schema(None))[: len(_PROPERTIES)]))


def _position(name: str, names: tuple[str, ...]) -> int | None:
    return names.index(name) + 1 if name in names else None


def _read_schemas(context: Context, info: TableInfo, wanted: Wanted) -> pa.Table:
    versions = context.metastore.list_schemas(info.table_uuid)
    first, last = wanted.bounds_of("schema_id")
    return pa.concat_tables(
        [
            SCHEMAS.to_schema(None).empty_table(),
            *(
                _with_origin(describe_columns(schema), schema, info)
                for schema in versions
                if (first is None or schema.schema_id >= first) and (last is None or schema.schema_id <= last)
            ),
        ]
    )


def _with_origin(columns: pa.Table, schema: TableSchema, info: TableInfo) -> pa.Table:
    # The first version is as old as its table, also where its time was not stored.
    made_ms = info.created_at_ms if schema.schema_id == 0 else schema.created_at_ms
    times = to_times([made_ms] * len(columns))
    names = pa.array([schema.created_by or None] * len(columns), TEXT)
    return columns.append_column("created_at", times).append_column("created_by", names)


def _read_options(context: Context, info: TableInfo, wanted: Wanted) -> pa.Table:
    keys = sorted(info.options)
    values = [info.options[key] for key in keys]
    return pa.table({"key": pa.array(keys, TEXT), "value": pa.array(values, TEXT)})


SCHEMAS: Final = OfTable(
    "schemas",
    "All versions of the schema, a row for each column: for people who ask what a column was called or when it was "
    "added, and programs that read old snapshots.",
    (*_PROPERTIES, *_ORIGIN),
    read=_read_schemas,
)
OPTIONS: Final = OfTable(
    "options",
    "The options that were set. Those that are missing have the default of [Options](options.md).",
    (Column("key", TEXT, "The option."), Column("value", TEXT, "Its value, as text.")),
    read=_read_options,
)
