"""Databases and tables in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from lakelog.clock import Clock
from lakelog.format.commit.epochs import EPOCH_STEP, make_epoch
from lakelog.format.commit.facts import TableHead
from lakelog.format.jobs.overview import Overview
from lakelog.format.tables.table import DatabaseInfo, TableInfo, TableName
from lakelog.format.types.schema import TableSchema

from ..store.grants import GrantScope
from ..store.limits import MAX_INT64
from ..store.records import NewTable, TableRecord
from ..store.transaction import CatalogTransaction
from .journal import Journal
from .state import State, StoredTable


class MemoryCatalog(CatalogTransaction):
    """Databases, tables and schemas; see `metastore.store.transaction.CatalogTransaction`."""

    def __init__(self, state: State, journal: Journal, clock: Clock, draws: Iterator[int]) -> None:
        self._state = state
        self._journal = journal
        self._clock = clock
        self._draws = draws

    def _make_epoch(self, last: int) -> int:
        return make_epoch(last, self._clock.now_ms() * 1000, next(self._draws) % EPOCH_STEP)

    async def insert_database(self, name: str, comment: str) -> bool:
        if name in self._state.databases:
            return False
        self._journal.put(self._state.databases, name, comment)
        return True

    async def lock_database(self, name: str) -> bool:
        return name in self._state.databases

    async def list_databases(self) -> list[DatabaseInfo]:
        sizes: dict[str, list[int]] = {name: [] for name in self._state.databases}
        for table in self._live():
            sizes[table.new.name.database].append(table.snapshots[-1].total_bytes if table.snapshots else 0)
        return [
            DatabaseInfo(name, self._state.databases[name], len(found), min(sum(found), MAX_INT64))
            for name, found in sorted(sizes.items())
        ]

    async def sum_tables(self, databases: Sequence[str] | None = None, table_uuids: Sequence[str] = ()) -> Overview:
        tables = [
            table
            for table in self._live()
            if databases is None or table.new.name.database in databases or table.new.table_uuid in table_uuids
        ]
        named = set(self._state.databases if databases is None else databases)
        newest = [table.snapshots[-1] for table in tables if table.snapshots]
        return Overview(
            database_count=len(named | {table.new.name.database for table in tables}),
            table_count=len(tables),
            snapshot_count=sum(each.snapshot_id for each in newest),
            total_rows=min(sum(each.total_rows for each in newest), MAX_INT64),
            total_files=sum(each.total_files for each in newest),
            total_bytes=min(sum(each.total_bytes for each in newest), MAX_INT64),
            committed_at_ms=max((each.committed_at_ms for each in newest), default=0),
            now_ms=self._clock.now_ms(),
        )

    async def delete_database(self, name: str) -> None:
        self._journal.pop(self._state.databases, name)
        for key in [each for each in self._state.grants if each[1] == GrantScope(name, 0)]:
            self._journal.pop(self._state.grants, key)
        for table in self._state.tables:
            if table.new.name.database == name and table.dropped_at_ms is not None:
                self._journal.set(table, "database_gone", True)

    async def insert_table(self, table: NewTable) -> TableRecord:
        table_id = len(self._state.tables) + 1
        created_at_ms = self._clock.now_ms()
        stored = StoredTable(
            table_id=table_id,
            new=table,
            options=dict(table.options),
            created_at_ms=created_at_ms,
            head=TableHead(
                table_id=table_id,
                table_uuid=table.table_uuid,
                name=str(table.name),
                schema_id=table.schema.schema_id,
                bucket_count=table.bucket_count,
                partitioned=bool(table.schema.partition_by),
            ),
            schemas=[replace(table.schema, created_at_ms=created_at_ms)],
        )
        self._journal.append(self._state.tables, stored)
        return _record(stored)

    async def find_table(self, name: TableName) -> TableRecord | None:
        return next((_record(table) for table in self._live() if table.new.name == name), None)

    async def find_table_by_uuid(self, table_uuid: str) -> TableRecord | None:
        return next((_record(table) for table in self._live() if table.new.table_uuid == table_uuid), None)

    async def list_tables(self, database: str) -> list[str]:
        return sorted(table.new.name.name for table in self._live() if table.new.name.database == database)

    async def set_options(self, table_id: int, options: Mapping[str, str]) -> None:
        self._journal.set(self._table(table_id), "options", dict(options))

    async def set_comment(self, table_id: int, comment: str) -> None:
        table = self._table(table_id)
        self._journal.set(table, "new", replace(table.new, comment=comment))

    async def add_schema(self, table_id: int, schema: TableSchema) -> None:
        table = self._table(table_id)
        self._journal.append(table.schemas, replace(schema, created_at_ms=self._clock.now_ms()))
        self._journal.set(table, "head", replace(table.head, schema_id=schema.schema_id))

    async def list_schemas(self, table_id: int) -> list[TableSchema]:
        return list(self._table(table_id).schemas)

    async def measure_schemas(self, table_id: int) -> int:
        return sum(len(each.to_ipc()) for each in self._table(table_id).schemas)

    async def find_schemas(self, table_id: int, schema_ids: Sequence[int]) -> dict[int, TableSchema]:
        wanted = set(schema_ids)
        return {each.schema_id: each for each in self._table(table_id).schemas if each.schema_id in wanted}

    def _live(self) -> list[StoredTable]:
        return [table for table in self._state.tables if table.dropped_at_ms is None]

    def _table(self, table_id: int) -> StoredTable:
        return self._state.tables[table_id - 1]


def _record(table: StoredTable) -> TableRecord:
    info = TableInfo(
        table_uuid=table.new.table_uuid,
        name=table.new.name,
        location=table.new.location,
        schema=table.schemas[-1],
        options=dict(table.options),
        latest_snapshot_id=table.head.latest_snapshot_id,
        created_at_ms=table.created_at_ms,
        comment=table.new.comment,
    )
    return TableRecord(table.table_id, info, table.head.bucket_count)
