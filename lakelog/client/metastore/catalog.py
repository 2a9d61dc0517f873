"""What the metastore knows of databases and tables: a part of `Metastore`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from lakelog.format.tables.table import DatabaseInfo, TableInfo, TableName
from lakelog.format.types.column_changes import ColumnChange
from lakelog.format.types.schema import TableSchema


class Catalog(Protocol):
    """Databases and tables."""

    def create_database(self, name: str, *, if_not_exists: bool = False, comment: str = "") -> bool:
        """Makes a database; False when it existed and that was no error."""
        ...

    def list_databases(self) -> list[DatabaseInfo]:
        """All databases by name."""
        ...

    def drop_database(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> bool:
        """Removes a database; False when there was none and that was no error."""
        ...

    def create_table(
        self,
        name: TableName,
        schema: pa.Schema,
        *,
        primary_key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
        comment: str = "",
    ) -> tuple[TableInfo, bool]:
        """Makes a table; the flag is False when it existed and that was no error."""
        ...

    def get_table(self, name: TableName) -> TableInfo:
        """A table by name; NotFound names the nearest ones."""
        ...

    def get_table_by_uuid(self, table_uuid: str) -> TableInfo:
        """A table by uuid; NotFound when it was dropped."""
        ...

    def list_tables(self, database: str) -> list[str]:
        """Names of a database's tables, sorted."""
        ...

    def alter_table(
        self, table_uuid: str, *, set_options: Mapping[str, str], unset_options: Sequence[str]
    ) -> TableInfo:
        """Changes options that may be changed."""
        ...

    def alter_columns(
        self, table_uuid: str, *, changes: Sequence[ColumnChange], comment: str | None = None
    ) -> TableInfo:
        """Changes columns, all or none, which makes a new version of the schema; and the comment, unless it is None."""
        ...

    def drop_table(self, name: TableName, *, if_exists: bool = False) -> bool:
        """Removes a table from the catalog; False when there was none and that was no error."""
        ...

    def list_schemas(self, table_uuid: str) -> list[TableSchema]:
        """All versions of a table's schema by id."""
        ...
