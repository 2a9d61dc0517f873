"""`information_schema`: all databases and tables of the catalog, as tables of a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from sqlglot import exp

from lakelog.errors import NotFound
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.system_tables.metadata.catalog_wide import find_tables
from lakelog.system_tables.metadata.definition import describe_columns

if TYPE_CHECKING:
    from lakelog.sdk.catalog_tables import CatalogTables

INFORMATION_SCHEMA: Final = "information_schema"
_CATALOG: Final = "lakelog"
"""The name of a catalog that has none."""

_SCHEMATA: Final = pa.schema([("catalog_name", pa.string()), ("schema_name", pa.string()), ("comment", pa.string())])
_TABLES: Final = pa.schema(
    [
        ("table_catalog", pa.string()),
        ("table_schema", pa.string()),
        ("table_name", pa.string()),
        ("table_type", pa.string()),
        ("comment", pa.string()),
        ("created_at", pa.timestamp("us", "UTC")),
        ("location", pa.string()),
        ("snapshot_id", pa.int64()),
    ]
)
_COLUMNS: Final = pa.schema(
    [
        ("table_catalog", pa.string()),
        ("table_schema", pa.string()),
        ("table_name", pa.string()),
        ("column_name", pa.string()),
        ("ordinal_position", pa.int32()),
        ("column_default", pa.string()),
        ("is_nullable", pa.string()),
        ("data_type", pa.string()),
        ("primary_key_position", pa.int32()),
        ("partition_position", pa.int32()),
        ("comment", pa.string()),
    ]
)


def read_information_schema(catalog: CatalogTables, view: str, conditions: Sequence[exp.Expr]) -> pa.Table:
    """Returns one of the views.

    Args:
        catalog: The catalog that it describes.
        view: `schemata`, `tables` or `columns`.
        conditions: Conditions that all rows of the result fulfil; the catalog is asked only for databases and tables
            that may fulfil them. The rows are not filtered.

    Raises:
        NotFound: There is no such view; the message lists the existing ones.
    """
    read = _VIEWS.get(view.lower())
    if read is None:
        raise NotFound(
            f"There is no view {INFORMATION_SCHEMA}.{view}. There are {', '.join(_VIEWS)}.",
            reason="TABLE_NOT_FOUND",
            metadata={"table": f"{INFORMATION_SCHEMA}.{view}"},
        )
    return read(catalog, conditions)


def _schemata(catalog: CatalogTables, conditions: Sequence[exp.Expr]) -> pa.Table:
    known = catalog.metastore.list_databases()
    rows = [
        {"catalog_name": catalog.name or _CATALOG, "schema_name": each.name, "comment": each.comment or None}
        for each in known
    ]
    return pa.Table.from_pylist(rows, schema=_SCHEMATA)


def _tables(catalog: CatalogTables, conditions: Sequence[exp.Expr]) -> pa.Table:
    rows = [
        _named(catalog, info.name)
        | {
            "table_type": "BASE TABLE",
            "comment": info.comment or None,
            "created_at": info.created_at_ms * 1000,
            "location": info.location,
            "snapshot_id": info.latest_snapshot_id or None,
        }
        for info in _list_infos(catalog, conditions)
    ]
    return pa.Table.from_pylist(rows, schema=_TABLES)


def _columns(catalog: CatalogTables, conditions: Sequence[exp.Expr]) -> pa.Table:
    rows = []
    for info in _list_infos(catalog, conditions):
        for place, column in enumerate(describe_columns(info.schema).to_pylist(), 1):
            more = {key: column[key] for key in ("primary_key_position", "partition_position", "comment")}
            rows.append(
                _named(catalog, info.name)
                | {
                    "column_name": column["column"],
                    "ordinal_position": place,
                    "column_default": column["default"],
                    "is_nullable": "YES" if column["nullable"] else "NO",
                    "data_type": column["type"],
                }
                | more
            )
    return pa.Table.from_pylist(rows, schema=_COLUMNS)


def _named(catalog: CatalogTables, name: TableName) -> dict[str, object]:
    return {"table_catalog": catalog.name or _CATALOG, "table_schema": name.database, "table_name": name.name}


def _list_infos(catalog: CatalogTables, conditions: Sequence[exp.Expr]) -> list[TableInfo]:
    """The metastore's descriptions of the tables; one that is dropped meanwhile is left out."""
    databases, tables = _find_wanted(conditions, "table_schema"), _find_wanted(conditions, "table_name")
    return find_tables(
        catalog.metastore,
        None if databases is None else sorted(databases),
        None if tables is None else sorted(tables),
    )


def _find_wanted(conditions: Sequence[exp.Expr], column: str) -> set[str] | None:
    """The only possible values of a column, by conditions with `=` and `IN`; None: any. Pure."""
    wanted: set[str] | None = None
    for condition in conditions:
        if isinstance(condition, exp.EQ):
            left, values = condition.this, [condition.expression]
        elif isinstance(condition, exp.In) and condition.expressions:
            left, values = condition.this, condition.expressions
        else:
            continue
        texts = all(isinstance(value, exp.Literal) and value.is_string for value in values)
        if isinstance(left, exp.Column) and left.name.casefold() == column and texts:
            names = {value.name for value in values}
            wanted = names if wanted is None else wanted & names
    return wanted


_VIEWS: Final[dict[str, Callable[[CatalogTables, Sequence[exp.Expr]], pa.Table]]] = {
    "schemata": _schemata,
    "tables": _tables,
    "columns": _columns,
}
