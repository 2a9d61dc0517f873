"""Databases, tables and schemas in Postgres."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from lakelog.format.commit.epochs import EPOCH_STEP
from lakelog.format.jobs.overview import Overview
from lakelog.format.tables.table import DatabaseInfo, TableInfo, TableName
from lakelog.format.types.schema import TableSchema

from ..store.limits import MAX_INT64
from ..store.records import NewTable, TableRecord
from ..store.transaction import CatalogTransaction
from .connection import arrays
from .connection.session import InSession, Row, Statement

NOW_MS: Final = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
"""Postgres's time in milliseconds; not the time at which the transaction began, which may have waited for a lock
since."""


def is_ahead(column: str) -> str:
    """The condition that a time, which was now when it was stored, is in the future: the clock has gone back since.

    What was planned from that time on is then due: no one knows how much of it has passed, and epochs fence off any
    process that was only slow. A second is left for clocks that are adjusted slowly. The times are in milliseconds; the
    subquery takes the clock's time once for all rows.
    """
    return f"{column} > (SELECT {NOW_MS} + 1000)"


_NOW_US: Final = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"


def epoch_after(last: str) -> str:
    """SQL of the epoch after the last one, as `lakelog.format.commit.epochs.make_epoch`.

    Args:
        last: SQL of the last epoch of that name; `0`: there was none.
    """
    return f"(greatest({last} + {EPOCH_STEP}, {_NOW_US}) + floor(random() * {EPOCH_STEP})::bigint)"


_INSERT_DATABASE: Final = (
    "INSERT INTO database (name, comment) VALUES (%s, %s) ON CONFLICT (name) DO NOTHING RETURNING name"
)

_LOCK_DATABASE: Final = "SELECT name FROM database WHERE name = %s FOR UPDATE"

_LIST_DATABASES: Final = """
SELECT d.name, d.comment, count(t.table_id), least(coalesce(sum(h.total_bytes), 0), 9223372036854775807)::bigint
FROM database d LEFT JOIN catalog_table t ON t.database = d.name AND t.dropped_at_ms IS NULL
LEFT JOIN table_head h ON h.table_id = t.table_id
GROUP BY d.name, d.comment ORDER BY d.name
"""


def _sum(column: str) -> str:
    return f"least(coalesce(sum(h.{column}), 0), {MAX_INT64})::bigint"


_SUMS: Final = f"""
count(*), {_sum("latest_snapshot_id")}, {_sum("total_rows")}, {_sum("total_files")}, {_sum("total_bytes")},
    coalesce(max(h.committed_at_ms), 0), {NOW_MS}
FROM catalog_table t JOIN table_head h ON h.table_id = t.table_id WHERE t.dropped_at_ms IS NULL
"""

_SUM_ALL: Final = f"SELECT (SELECT count(*) FROM database), {_SUMS}"

_SUM_SOME: Final = f"""
SELECT cardinality(%s::text[]) + count(DISTINCT t.database) FILTER (WHERE t.database <> ALL(%s::text[])), {_SUMS}
    AND (t.database = ANY(%s::text[]) OR t.table_uuid = ANY(%s::uuid[]))
"""

_DELETE_DATABASE: Final = "DELETE FROM database WHERE name = %s"

_DELETE_GRANTS: Final = "DELETE FROM access_grant WHERE table_id = 0 AND database = %s"

# A later database of this name has no claim on the tables that were dropped in this one.
_ORPHAN: Final = "UPDATE catalog_table SET database_gone = true WHERE database = %s AND dropped_at_ms IS NOT NULL"

_INSERT_TABLE: Final = f"""
INSERT INTO catalog_table (table_uuid, database, name, location, options, comment, created_at_ms)
VALUES (%s, %s, %s, %s, %s::jsonb, %s, {NOW_MS})
RETURNING table_id, created_at_ms
"""

_INSERT_SCHEMA: Final = f"""
INSERT INTO schema_version (table_id, schema_id, arrow_schema, primary_key, partition_by, created_by, created_at_ms)
VALUES (%s, %s, %s, %s::text[], %s::text[], %s, coalesce(%s::bigint, {NOW_MS}))
"""

_INSERT_HEAD: Final = """
INSERT INTO table_head (table_id, table_uuid, name, schema_id, bucket_count, partitioned, latest_snapshot_id,
    earliest_snapshot_id, committed_at_ms, total_rows, total_files, total_bytes, next_file_id)
VALUES (%s, %s, %s, %s, %s, %s, 0, 1, 0, 0, 0, 0, 1)
"""

_INSERT_PACKING: Final = (
    "INSERT INTO packing (table_id, packed_until, packed_added, packed_removed) VALUES (%s, 0, 0, 0)"
)

_SCHEMA: Final = "v.schema_id, v.arrow_schema, v.primary_key, v.partition_by, v.created_at_ms, v.created_by"

# A table with its head and current schema.
_SELECT_TABLE: Final = f"""
SELECT t.table_id, replace(t.table_uuid::text, '-', ''), t.database, t.name, t.location, t.options, t.comment,
    t.created_at_ms, h.latest_snapshot_id, h.bucket_count, {_SCHEMA}
FROM catalog_table t
JOIN table_head h ON h.table_id = t.table_id
JOIN schema_version v ON v.table_id = h.table_id AND v.schema_id = h.schema_id
"""

_FIND_TABLE: Final = _SELECT_TABLE + "WHERE t.database = %s AND t.name = %s AND t.dropped_at_ms IS NULL"

_FIND_TABLE_BY_UUID: Final = _SELECT_TABLE + "WHERE t.table_uuid = %s AND t.dropped_at_ms IS NULL"

_LIST_TABLES: Final = "SELECT name FROM catalog_table WHERE database = %s AND dropped_at_ms IS NULL ORDER BY name"

_SET_OPTIONS: Final = "UPDATE catalog_table SET options = %s::jsonb WHERE table_id = %s"

_SET_COMMENT: Final = "UPDATE catalog_table SET comment = %s WHERE table_id = %s"

_SET_SCHEMA: Final = "UPDATE table_head SET schema_id = %s WHERE table_id = %s"

_LIST_SCHEMAS: Final = f"SELECT {_SCHEMA} FROM schema_version v WHERE v.table_id = %s ORDER BY v.schema_id"


_MEASURE_SCHEMAS: Final = """
SELECT coalesce(sum(length(arrow_schema)), 0)::bigint FROM schema_version WHERE table_id = %s
"""


_FIND_SCHEMAS: Final = f"""
SELECT {_SCHEMA} FROM schema_version v WHERE v.table_id = %s AND v.schema_id = ANY(%s::int[])
"""


class PostgresCatalog(InSession, CatalogTransaction):
    """See `metastore.store.transaction.CatalogTransaction`."""

    async def insert_database(self, name: str, comment: str) -> bool:
        return bool(await self._session.write(_INSERT_DATABASE, (name, comment)))

    async def lock_database(self, name: str) -> bool:
        return bool(await self._session.write(_LOCK_DATABASE, (name,)))

    async def list_databases(self) -> list[DatabaseInfo]:
        return [DatabaseInfo(*row) for row in await self._session.read(_LIST_DATABASES)]

    async def sum_tables(self, databases: Sequence[str] | None = None, table_uuids: Sequence[str] = ()) -> Overview:
        if databases is None:
            (row,) = await self._session.read(_SUM_ALL)
        else:
            names = arrays.texts(databases)
            (row,) = await self._session.read(_SUM_SOME, (names, names, names, arrays.words(table_uuids)))
        return Overview(*row)

    async def delete_database(self, name: str) -> None:
        await self._session.write_all([Statement(sql, (name,)) for sql in (_DELETE_DATABASE, _DELETE_GRANTS, _ORPHAN)])

    async def insert_table(self, table: NewTable) -> TableRecord:
        rows = await self._session.write(
            _INSERT_TABLE,
            (
                table.table_uuid,
                table.name.database,
                table.name.name,
                table.location,
                json.dumps(dict(table.options)),
                table.comment,
            ),
        )
        table_id, created_at_ms = rows[0]
        schema = replace(table.schema, created_at_ms=created_at_ms)
        partitioned = bool(schema.partition_by)
        head = (table_id, table.table_uuid, str(table.name), schema.schema_id, table.bucket_count, partitioned)
        await self._session.write_all(
            [
                Statement(_INSERT_SCHEMA, _schema_values(table_id, schema)),
                Statement(_INSERT_HEAD, head),
                Statement(_INSERT_PACKING, (table_id,)),
            ]
        )
        info = TableInfo(
            table_uuid=table.table_uuid,
            name=table.name,
            location=table.location,
            schema=schema,
            options=dict(table.options),
            latest_snapshot_id=0,
            created_at_ms=created_at_ms,
            comment=table.comment,
        )
        return TableRecord(table_id, info, table.bucket_count)

    async def find_table(self, name: TableName) -> TableRecord | None:
        return await self._session.find(_FIND_TABLE, (name.database, name.name), _record)

    async def find_table_by_uuid(self, table_uuid: str) -> TableRecord | None:
        return await self._session.find(_FIND_TABLE_BY_UUID, (table_uuid,), _record)

    async def list_tables(self, database: str) -> list[str]:
        return [row[0] for row in await self._session.read(_LIST_TABLES, (database,))]

    async def set_options(self, table_id: int, options: Mapping[str, str]) -> None:
        await self._session.write(_SET_OPTIONS, (json.dumps(dict(options)), table_id))

    async def set_comment(self, table_id: int, comment: str) -> None:
        await self._session.write(_SET_COMMENT, (comment, table_id))

    async def add_schema(self, table_id: int, schema: TableSchema) -> None:
        await self._session.write_all(
            [
                Statement(_INSERT_SCHEMA, _schema_values(table_id, schema)),
                Statement(_SET_SCHEMA, (schema.schema_id, table_id)),
            ]
        )

    async def list_schemas(self, table_id: int) -> list[TableSchema]:
        return [_schema(row) for row in await self._session.read(_LIST_SCHEMAS, (table_id,))]

    async def measure_schemas(self, table_id: int) -> int:
        ((size_bytes,),) = await self._session.read(_MEASURE_SCHEMAS, (table_id,))
        return int(size_bytes)

    async def find_schemas(self, table_id: int, schema_ids: Sequence[int]) -> dict[int, TableSchema]:
        rows = await self._session.read(_FIND_SCHEMAS, (table_id, arrays.integers(schema_ids)))
        return {schema.schema_id: schema for schema in map(_schema, rows)}


def _record(row: Row) -> TableRecord:
    table_id, table_uuid, database, name, location, options, comment, created_at_ms, latest, bucket_count, *schema = row
    info = TableInfo(
        table_uuid=table_uuid,
        name=TableName(database, name),
        location=location,
        schema=_schema(tuple(schema)),
        options=options,
        latest_snapshot_id=latest,
        created_at_ms=created_at_ms,
        comment=comment,
    )
    return TableRecord(table_id, info, bucket_count)


def _schema_values(table_id: int, schema: TableSchema) -> tuple[str | int | bytes | None, ...]:
    keys = (arrays.texts(schema.primary_key), arrays.texts(schema.partition_by))
    return (table_id, schema.schema_id, schema.to_ipc(), *keys, schema.created_by, schema.created_at_ms)


def _schema(row: Row) -> TableSchema:
    schema_id, ipc, primary_key, partition_by, created_at_ms, created_by = row
    schema = TableSchema.from_ipc(schema_id, ipc, tuple(primary_key), tuple(partition_by))
    return replace(schema, created_at_ms=created_at_ms, created_by=created_by or "")
