"""The catalog's record of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakelog.format.types.schema import TableSchema


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
