"""The command over a metastore and a table that remember what was asked of them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pyarrow as pa

from lakelog.cli.app import run
from lakelog.cli.invocation import Invocation
from lakelog.cli.output.output_format import OutputFormat
from lakelog.cli.output.printer import Printer
from lakelog.client.metastore.metastore import SnapshotPage, WatchEvent
from lakelog.errors import AlreadyExists, NotFound
from lakelog.format.jobs.job import Job, JobPage, JobStatus
from lakelog.format.jobs.work import Pipeline
from lakelog.format.log.state import SnapshotOffsets
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.tables.table import DatabaseInfo, TableInfo, TableName
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.sdk.catalog import Catalog
from tests.support.snapshots import CREATED_MS


@dataclass
class FakeMetastore:
    """Holds what the commands ask for, and remembers what they did."""

    databases: dict[str, DatabaseInfo] = field(default_factory=dict)
    tables: dict[str, TableInfo] = field(default_factory=dict)
    snapshots: list[Snapshot] = field(default_factory=list)
    pipelines: list[Pipeline] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    retried: list[int] = field(default_factory=list)
    events: list[WatchEvent | Exception] = field(default_factory=list)
    closed: bool = False
    forgotten: list[str] = field(default_factory=list)
    writer_owners: dict[str, str] = field(default_factory=dict)

    def create_database(self, name: str, *, if_not_exists: bool = False, comment: str = "") -> bool:
        if name in self.databases:
            if if_not_exists:
                return False
            raise AlreadyExists(f"Database {name} exists already.")
        self.databases[name] = DatabaseInfo(name, comment, 0)
        return True

    def list_databases(self) -> list[DatabaseInfo]:
        return list(self.databases.values())

    def drop_database(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> bool:
        return self.databases.pop(name, None) is not None

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
        if str(name) in self.tables and if_not_exists:
            return self.tables[str(name)], False
        table_schema = TableSchema(0, assign_field_ids(schema), tuple(primary_key), tuple(partition_by))
        info = TableInfo("a" * 32, name, "file:///w/a/", table_schema, dict(options or {}), 0, CREATED_MS, comment)
        self.tables[str(name)] = info
        return info, True

    def get_table(self, name: TableName) -> TableInfo:
        if str(name) not in self.tables:
            raise NotFound(f"Table {name} does not exist.", reason="TABLE_NOT_FOUND")
        info = self.tables[str(name)]
        return replace(info, latest_snapshot_id=self.snapshots[-1].snapshot_id if self.snapshots else 0)

    def get_table_by_uuid(self, table_uuid: str) -> TableInfo:
        found = [info for info in self.tables.values() if info.table_uuid == table_uuid]
        if not found:
            raise NotFound(f"Table {table_uuid} does not exist.", reason="TABLE_NOT_FOUND")
        return found[0]

    def list_tables(self, database: str) -> list[str]:
        return [info.name.name for info in self.tables.values() if info.name.database == database]

    def alter_table(
        self, table_uuid: str, *, set_options: Mapping[str, str], unset_options: Sequence[str]
    ) -> TableInfo:
        (info,) = (info for info in self.tables.values() if info.table_uuid == table_uuid)
        kept = {key: value for key, value in info.options.items() if key not in unset_options}
        self.tables[str(info.name)] = replace(info, options={**kept, **set_options})
        return self.tables[str(info.name)]

    def drop_table(self, name: TableName, *, if_exists: bool = False) -> bool:
        return self.tables.pop(str(name), None) is not None

    def list_snapshots(
        self, table_uuid: str, *, after: int = 0, until: int = 0, limit: int = 0, newest: bool = False
    ) -> SnapshotPage:
        found = [s for s in self.snapshots if s.snapshot_id > after and (not until or s.snapshot_id <= until)]
        found = found[-limit:] if newest else found[:limit]
        ids = [s.snapshot_id for s in self.snapshots] or [0]
        return SnapshotPage(tuple(found), ids[-1], ids[0], ids[0])

    def list_log_offsets(self, table_uuid: str, **_: int) -> list[SnapshotOffsets]:
        raise NotFound(f"Table {table_uuid} has no log.", reason="LOG_NOT_FOUND")

    def list_pipelines(self) -> list[Pipeline]:
        return self.pipelines

    def forget_pipeline(self, name: str) -> None:
        self.forgotten.append(name)

    def release_writer(self, writer: str) -> str:
        return self.writer_owners.pop(writer, "")

    def list_job_page(
        self,
        table_uuids: Sequence[str] = (),
        *,
        job_ids: Sequence[int] = (),
        kinds: Sequence[str] = (),
        statuses: Sequence[JobStatus] = (),
        cursor: str = "",
        limit: int = 1000,
    ) -> JobPage:
        found = [
            job
            for job in self.jobs
            if (not table_uuids or job.table_uuid in table_uuids)
            and (not job_ids or job.job_id in job_ids)
            and (not kinds or job.kind in kinds)
            and (not statuses or job.status in statuses)
        ]
        start = int(cursor or 0)
        end = start + limit
        return JobPage(tuple(found[start:end]), str(end) if end < len(found) else "")

    def retry_job(self, job_id: int) -> None:
        self.retried.append(job_id)

    def watch(self, positions: Sequence[Any], *, complete: bool = False) -> FakeWatch:
        return FakeWatch(self.events)


class FakeWatch:
    def __init__(self, events: list[WatchEvent | Exception]) -> None:
        self._events = events

    def __iter__(self) -> Iterator[WatchEvent]:
        while self._events:
            event = self._events.pop(0)
            if isinstance(event, Exception):
                raise event
            yield event
        raise KeyboardInterrupt

    def close(self) -> None:
        pass


@dataclass
class FakeRows:
    rows: pa.Table
    skipped_snapshots: tuple[int, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        return iter(self.rows.to_batches())

    @property
    def files(self) -> tuple[()]:
        return ()

    def count(self) -> int:
        return self.rows.num_rows


@dataclass
class FakeTable:
    rows: pa.Table
    calls: list[dict[str, Any]] = field(default_factory=list)
    written: pa.Table | None = None
    file_rows: pa.Table | None = None
    overwrites: tuple[int, ...] = ()
    uuid: str = "a" * 32

    def scan(self, **arguments: Any) -> FakeRows:
        self.calls.append(arguments)
        rows = self.rows.select(arguments["columns"]) if arguments["columns"] else self.rows
        return FakeRows(rows.slice(0, arguments["limit"]) if arguments["limit"] else rows)

    def changes(self, **arguments: Any) -> FakeRows:
        self.calls.append(arguments)
        if "until" not in arguments:
            raise NotFound(f"Snapshot {arguments['after']} of shop.orders does not exist.", reason="SNAPSHOT_NOT_FOUND")
        ids = self.rows["_snapshot_id"]
        keep = [arguments["after"] < number.as_py() <= arguments["until"] for number in ids]
        skipped = tuple(n for n in self.overwrites if arguments["after"] < n <= arguments["until"])
        return FakeRows(self.rows.filter(pa.array(keep)), skipped)

    def upsert(self, data: Any, **arguments: Any) -> FakeResult:
        return self._write("upsert", data, arguments)

    def append(self, data: Any, **arguments: Any) -> FakeResult:
        return self._write("append", data, arguments)

    def delete(self, data: Any, **arguments: Any) -> FakeResult:
        return self._write("delete", data, arguments)

    def write(self, data: Any, **arguments: Any) -> FakeResult:
        return self._write("write", data, arguments)

    def _write(self, mode: str, data: Any, arguments: dict[str, Any]) -> FakeResult:
        self.calls.append({"mode": mode, **arguments})
        self.written = pa.Table.from_batches(list(data))
        return FakeResult(8 if self.written.num_rows else None)

    def files(self, *, snapshot_id: int | None = None) -> pa.Table:
        assert self.file_rows is not None
        return self.file_rows


@dataclass
class FakeResult:
    snapshot_id: int | None
    already_applied: bool = False


@dataclass
class FakeCatalog:
    metastore: FakeMetastore
    the_table: FakeTable
    closed: bool = False

    def create_database(self, name: str, *, if_not_exists: bool = False, comment: str = "") -> bool:
        return self.metastore.create_database(name, if_not_exists=if_not_exists, comment=comment)

    def drop_database(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> bool:
        return self.metastore.drop_database(name, if_exists=if_exists, cascade=cascade)

    def table(self, name: str) -> FakeTable:
        return self.the_table

    def close(self) -> None:
        self.closed = True


@dataclass
class Outcome:
    code: int
    out: str
    err: str


@dataclass
class Lake:
    """The command over fakes."""

    catalog: FakeCatalog
    capture: Callable[[], tuple[str, str]]
    width: int | None = 100

    @property
    def metastore(self) -> FakeMetastore:
        return self.catalog.metastore

    @property
    def table(self) -> FakeTable:
        return self.catalog.the_table

    def run(self, *arguments: str, width: int | None = None) -> Outcome:
        out, err = io.StringIO(), io.StringIO()

        def make_printer(output: OutputFormat) -> Printer:
            return Printer(output, out, err, width or self.width)

        open_catalog = cast(Callable[[Invocation], Catalog], lambda _: self.catalog)
        invocation = Invocation(open_catalog=open_catalog, make_printer=make_printer)
        code = run(arguments, invocation)
        captured_out, captured_err = self.capture()
        return Outcome(code, captured_out + out.getvalue(), err.getvalue() + captured_err)
