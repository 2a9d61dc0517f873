"""`sys.databases`, `sys.tables`, `sys.consumers`, `sys.services`, `sys.pipelines`: all that the caller may see."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import NotFound
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.system_tables.columns import to_times
from lakelog.system_tables.declaration import NUMBER, SMALL_NUMBER, TEXT, TIME, Column, OfCatalog
from lakelog.system_tables.metadata.retention import CONSUMER_COLUMNS, to_consumer_columns

if TYPE_CHECKING:
    from lakelog.context import Context
    from lakelog.system_tables.wanted import Wanted

_REQUESTED_AT_ONCE: Final = 8

_In = TypeVar("_In")
_Out = TypeVar("_Out")


def find_tables(
    metastore: Metastore, databases: Sequence[object] | None, tables: Sequence[object] | None
) -> list[TableInfo]:
    """The tables that the caller may see, by name; one that is dropped meanwhile is left out.

    Args:
        metastore: Knows the tables.
        databases: Names of databases; None: all.
        tables: Names of tables without the database; None: all.
    """
    names = list(_list_names(metastore, databases, tables))
    return [info for info in _request_all(lambda name: _find(metastore, name), names) if info is not None]


def _list_names(
    metastore: Metastore, databases: Sequence[object] | None, tables: Sequence[object] | None
) -> Iterator[TableName]:
    for database in metastore.list_databases():
        if databases is not None and database.name not in databases:
            continue
        try:
            names = metastore.list_tables(database.name)
        except NotFound:
            continue
        yield from (TableName(database.name, name) for name in names if tables is None or name in tables)


def _find(metastore: Metastore, name: TableName) -> TableInfo | None:
    try:
        return metastore.get_table(name)
    except NotFound:
        return None


def _request_all(request: Callable[[_In], _Out], items: Sequence[_In]) -> list[_Out]:
    """The answers to some requests, in their order; several are under way at once."""
    with ThreadPoolExecutor(_REQUESTED_AT_ONCE) as threads:
        return list(threads.map(request, items))


def _read_databases(context: Context, wanted: Wanted) -> pa.Table:
    found = context.metastore.list_databases()
    return pa.table(
        {
            "name": pa.array([each.name for each in found], TEXT),
            "comment": pa.array([each.comment or None for each in found], TEXT),
            "tables": pa.array([each.table_count for each in found], NUMBER),
            "bytes": pa.array([each.size_bytes for each in found], NUMBER),
        }
    )


def _read_tables(context: Context, wanted: Wanted) -> pa.Table:
    metastore = context.metastore
    infos = find_tables(metastore, wanted.values_of("database"), wanted.values_of("name"))
    snapshots: list[Snapshot | None] = [None] * len(infos)
    if wanted.needs("committed_at", "rows", "files", "bytes"):
        snapshots = _request_all(lambda info: _find_newest(metastore, info), infos)
    texts = pa.list_(TEXT)
    return pa.table(
        {
            "database": pa.array([info.name.database for info in infos], TEXT),
            "name": pa.array([info.name.name for info in infos], TEXT),
            "uuid": pa.array([info.table_uuid for info in infos], TEXT),
            "comment": pa.array([info.comment or None for info in infos], TEXT),
            "primary_key": pa.array([list(info.schema.primary_key) for info in infos], texts),
            "partition_by": pa.array([list(info.schema.partition_by) for info in infos], texts),
            "schema_id": pa.array([info.schema.schema_id for info in infos], SMALL_NUMBER),
            "created_at": to_times(info.created_at_ms for info in infos),
            "location": pa.array([info.location for info in infos], TEXT),
            "options": pa.array([list(info.options.items()) for info in infos], pa.map_(TEXT, TEXT)),
            "snapshot_id": pa.array([info.latest_snapshot_id or None for info in infos], NUMBER),
            "committed_at": to_times(None if each is None else each.committed_at_ms for each in snapshots),
            "rows": _of_snapshots(snapshots, lambda each: each.total_rows),
            "files": _of_snapshots(snapshots, lambda each: each.total_files),
            "bytes": _of_snapshots(snapshots, lambda each: each.total_bytes),
        }
    )


def _find_newest(metastore: Metastore, info: TableInfo) -> Snapshot | None:
    try:
        page = metastore.list_snapshots(info.table_uuid, limit=1, newest=True)
    except NotFound:
        # It was dropped meanwhile.
        return None
    return page.snapshots[-1] if page.snapshots else None


def _of_snapshots(snapshots: Sequence[Snapshot | None], value: Callable[[Snapshot], int]) -> pa.Array:
    return pa.array([None if each is None else value(each) for each in snapshots], NUMBER)


def _read_consumers(context: Context, wanted: Wanted) -> pa.Table:
    metastore = context.metastore
    infos = find_tables(metastore, wanted.values_of("database"), wanted.values_of("table"))
    parts = [_CONSUMERS_SCHEMA.empty_table()]
    for info, consumers in zip(infos, _request_all(lambda info: _list_consumers(metastore, info), infos), strict=True):
        names: dict[str, Any] = {
            "database": pa.array([info.name.database] * len(consumers), TEXT),
            "table": pa.array([info.name.name] * len(consumers), TEXT),
        }
        parts.append(pa.table(names | to_consumer_columns(consumers, info.latest_snapshot_id)))
    return pa.concat_tables(parts)


def _list_consumers(metastore: Metastore, info: TableInfo) -> list[Any]:
    try:
        return list(metastore.list_consumers(info.table_uuid))
    except NotFound:
        return []


def _read_services(context: Context, wanted: Wanted) -> pa.Table:
    found = context.metastore.list_services()
    return pa.table(
        {
            "kind": pa.array([each.kind for each in found], TEXT),
            "instance": pa.array([each.instance_id for each in found], TEXT),
            "host": pa.array([each.host for each in found], TEXT),
            "pid": pa.array([each.pid for each in found], NUMBER),
            "version": pa.array([each.version for each in found], TEXT),
            "state": pa.array([each.state.value for each in found], TEXT),
            "liveness": pa.array([each.liveness.value for each in found], TEXT),
            "work": pa.array([list(each.work) for each in found], pa.list_(TEXT)),
            "metrics": pa.array([each.metrics or None for each in found], TEXT),
            "started_at": to_times(each.started_at_ms for each in found),
            "silent_ms": pa.array([each.silent_ms for each in found], NUMBER),
        }
    )


def _read_pipelines(context: Context, wanted: Wanted) -> pa.Table:
    found = context.metastore.list_pipelines()
    return pa.table(
        {
            "name": pa.array([each.name for each in found], TEXT),
            "table": pa.array([each.table for each in found], TEXT),
            "source": pa.array([each.source for each in found], TEXT),
            "state": pa.array([each.state for each in found], TEXT),
            "last_batch_id": pa.array([each.last_batch_id for each in found], NUMBER),
            "position": pa.array([each.position or None for each in found], TEXT),
            "lag": pa.array([each.lag for each in found], NUMBER),
            "rows": pa.array([each.total_rows for each in found], NUMBER),
            "dead_letter_rows": pa.array([each.dead_letter_rows for each in found], NUMBER),
            "last_error": pa.array([each.last_error or None for each in found], TEXT),
            "reported_at": to_times(each.reported_at_ms or None for each in found),
            "holder": pa.array([each.holder or None for each in found], TEXT),
        }
    )


_DATABASE: Final = Column("database", TEXT, "The table's database.")

DATABASES: Final = OfCatalog(
    "databases",
    "The databases: to see where the bytes are.",
    (
        Column("name", TEXT, "Its name."),
        Column("comment", TEXT, "What it is for; NULL: there is no comment."),
        Column("tables", NUMBER, "How many tables it has."),
        Column("bytes", NUMBER, "The size of the files of their newest snapshots."),
    ),
    read=_read_databases,
)
ALL_TABLES: Final = OfCatalog(
    "tables",
    "The tables and their sizes. Conditions on `database` and `name` are part of the request; `committed_at`, `rows`, "
    "`files` and `bytes` cost a request for each table.",
    (
        _DATABASE,
        Column("name", TEXT, "Its name."),
        Column("uuid", TEXT, "Its identity; another table of the same name has another one."),
        Column("comment", TEXT, "What it is for; NULL: there is no comment."),
        Column("primary_key", pa.list_(TEXT), "The columns of the primary key; empty for an append table."),
        Column("partition_by", pa.list_(TEXT), "The partition columns."),
        Column("schema_id", SMALL_NUMBER, "The version of its schema."),
        Column("created_at", TIME, "When it was made."),
        Column("location", TEXT, "The URI of the folder with its files."),
        Column("options", pa.map_(TEXT, TEXT), "The options that were set."),
        Column("snapshot_id", NUMBER, "Its newest snapshot; NULL: it has none."),
        Column("committed_at", TIME, "When that was committed."),
        Column("rows", NUMBER, "The rows in live files, including rows that merging hides."),
        Column("files", NUMBER, "The live files."),
        Column("bytes", NUMBER, "The bytes of the live files."),
    ),
    read=_read_tables,
)
ALL_CONSUMERS: Final = OfCatalog(
    "consumers",
    "The consumers of all tables, as of `$consumers`.",
    (_DATABASE, Column("table", TEXT, "The table's name."), *CONSUMER_COLUMNS),
    read=_read_consumers,
)
_CONSUMERS_SCHEMA: Final = ALL_CONSUMERS.to_schema(None)
SERVICES: Final = OfCatalog(
    "services",
    "The service processes that report to the metastore.",
    (
        Column("kind", TEXT, "`metastore`, `writer`, `publisher`, `compactor` or `reader`."),
        Column("instance", TEXT, "The process: 32 hexadecimal digits, new at each start."),
        Column("host", TEXT, "The machine's name."),
        Column("pid", NUMBER, "The process's number on that machine."),
        Column("version", TEXT, "The version of lakelog."),
        Column("state", TEXT, "`starting`, `running` or `draining`."),
        Column("liveness", TEXT, "`present`, `silent` (several reports are missing) or `gone`."),
        Column("work", pa.list_(TEXT), "What it works on."),
        Column("metrics", TEXT, "`host:port` of its metrics; NULL: it has none."),
        Column("started_at", TIME, "When it started."),
        Column("silent_ms", NUMBER, "How long ago it reported, in milliseconds."),
    ),
    read=_read_services,
)
PIPELINES: Final = OfCatalog(
    "pipelines",
    "The pipelines of the writer service, as they reported last.",
    (
        Column("name", TEXT, "Its name."),
        Column("table", TEXT, "The table that it writes, with its database."),
        Column("source", TEXT, "Where its rows come from."),
        Column("state", TEXT, "What it does."),
        Column("last_batch_id", NUMBER, "The last batch that was committed; NULL: none yet."),
        Column("position", TEXT, "How far it has read; NULL: nothing yet."),
        Column("lag", NUMBER, "How many records of the source are left; NULL: not known."),
        Column("rows", NUMBER, "The rows that it has written."),
        Column("dead_letter_rows", NUMBER, "The records that it could not write."),
        Column("last_error", TEXT, "Its last error; NULL: none."),
        Column("reported_at", TIME, "When it reported last."),
        Column("holder", TEXT, "The process that runs it; NULL: none."),
    ),
    read=_read_pipelines,
)
