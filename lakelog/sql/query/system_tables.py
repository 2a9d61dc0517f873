"""System tables: lakelog's metadata of a table, read as `table$snapshots` and the like (semantics 7.7)."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidArgument, NotFound
from lakelog.format.types.defaults import show_default
from lakelog.format.types.schema import TableSchema
from lakelog.format.types.sql_types import to_sql_type

if TYPE_CHECKING:
    from lakelog.sdk.catalog_tables import CatalogTables
    from lakelog.sdk.tables.table import Table

_SCHEMA_COLUMNS: Final = pa.schema(
    [
        pa.field("schema_id", pa.int32(), nullable=False),
        pa.field("field_id", pa.int32(), nullable=False),
        pa.field("column", pa.string(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("nullable", pa.bool_(), nullable=False),
        pa.field("primary_key_position", pa.int32()),
        pa.field("partition_position", pa.int32()),
        pa.field("default", pa.string()),
        pa.field("comment", pa.string()),
    ]
)


def read_system_table(catalog: CatalogTables, table: Table, kind: str, snapshot_id: int | None) -> pa.Table:
    """Return a system table of a table.

    Args:
        catalog: The catalog of the table.
        table: The table.
        kind: The part after the `$`.
        snapshot_id: The snapshot that it shows; None: the current state. Only `files` and `partitions` have a past.

    Raises:
        NotFound: There is no such system table.
        InvalidArgument: It has no past.
    """
    read = _SYSTEM_TABLES.get(kind.lower())
    if read is None:
        nearest = difflib.get_close_matches(kind.lower(), _SYSTEM_TABLES, n=3, cutoff=0.5) or list(_SYSTEM_TABLES)
        raise NotFound(
            f"There is no system table '{table.name}${kind}'. Nearest are {', '.join('$' + name for name in nearest)}.",
            reason="TABLE_NOT_FOUND",
            metadata={"table": f"{table.name}${kind}"},
        )
    if snapshot_id is not None and kind.lower() not in _WITH_PAST:
        raise InvalidArgument(
            f"'{table.name}${kind}' shows only the present state. Leave AS OF out, or read "
            f"{' or '.join('$' + name for name in _WITH_PAST)}."
        )
    return read(catalog, table, snapshot_id)


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
    return pa.Table.from_pylist(rows, schema=_SCHEMA_COLUMNS)


def _position(name: str, names: tuple[str, ...]) -> int | None:
    return names.index(name) + 1 if name in names else None


def _snapshots(catalog: CatalogTables, table: Table, snapshot_id: int | None) -> pa.Table:
    return table.snapshots()


def _files(catalog: CatalogTables, table: Table, snapshot_id: int | None) -> pa.Table:
    return table.files(snapshot_id)


def _partitions(catalog: CatalogTables, table: Table, snapshot_id: int | None) -> pa.Table:
    files = table.files(snapshot_id)
    partition = files["partition"].combine_chunks()
    # A struct cannot be grouped by, but its fields can. A table without partitions counts as one partition.
    fields = partition.flatten() if pa.types.is_struct(partition.type) else [pa.repeat(0, files.num_rows)]
    numbered = files.drop_columns(["partition"]).append_column("place", pa.array(np.arange(files.num_rows)))
    for number, values in enumerate(fields):
        numbered = numbered.append_column(f"field {number}", values)
    grouped = (
        numbered.group_by([f"field {number}" for number in range(len(fields))], use_threads=False)
        .aggregate(
            [
                ("place", "min"),
                ("path", "count"),
                ("bucket", "count_distinct"),
                ("rows", "sum"),
                ("bytes", "sum"),
                ("added_snapshot", "max"),
            ]
        )
        .sort_by("place_min")
    )
    return pa.table(
        {
            "partition": files["partition"].take(grouped["place_min"]),
            "files": grouped["path_count"],
            "buckets": grouped["bucket_count_distinct"],
            "rows": pc.cast(grouped["rows_sum"], pa.int64()),
            "bytes": pc.cast(grouped["bytes_sum"], pa.int64()),
            "last_snapshot": grouped["added_snapshot_max"],
        }
    )


def _options(catalog: CatalogTables, table: Table, snapshot_id: int | None) -> pa.Table:
    options = catalog.table(table.name).options
    keys = sorted(options)
    return pa.table(
        {"key": pa.array(keys, pa.string()), "value": pa.array([options[key] for key in keys], pa.string())}
    )


def _tags(catalog: CatalogTables, table: Table, snapshot_id: int | None) -> pa.Table:
    return table.tags.list()


def _consumers(catalog: CatalogTables, table: Table, snapshot_id: int | None) -> pa.Table:
    return table.consumers.list()


def _schemas(catalog: CatalogTables, table: Table, snapshot_id: int | None) -> pa.Table:
    return pa.concat_tables([describe_columns(schema) for schema in catalog.metastore.list_schemas(table.uuid)])


_SYSTEM_TABLES: Final[dict[str, Callable[[CatalogTables, Table, int | None], pa.Table]]] = {
    "snapshots": _snapshots,
    "files": _files,
    "partitions": _partitions,
    "options": _options,
    "schemas": _schemas,
    "tags": _tags,
    "consumers": _consumers,
}
_WITH_PAST: Final = ("files", "partitions")
