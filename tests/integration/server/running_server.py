"""A real gRPC server on a thread, over use cases that a test scripts."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry

from lakelog.client.metastore.metastore import SnapshotPage, WatchEvent, WatchPosition
from lakelog.clock import RandomIds, SystemClock
from lakelog.embedded.ports import free_port
from lakelog.errors import AlreadyExists, NotFound, Unavailable
from lakelog.format.commit.request import ChangeResult, CommitRequest, CommitResult, StagedAttempt, WriterProgress
from lakelog.format.jobs.work import LeaseGrant, Pipeline
from lakelog.format.tables.files import FILE_SCHEMA
from lakelog.format.tables.plan import PlanHeader, PlanRequest
from lakelog.format.tables.snapshot import Snapshot, SnapshotKind
from lakelog.format.tables.table import DatabaseInfo, TableInfo, TableName
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.serving.access import Access
from metastore.heavy_work import HeavyWork
from metastore.memory.store import MemoryStore
from metastore.ownership import Principal
from metastore.plans.parts import PlanChunkData
from metastore.plans.planning import PlanStream
from metastore.server.edge.call_limits import CallLimits
from metastore.server.grpc_server import MetastoreServer, ServerSettings
from metastore.server.rpc_metrics import RpcMetrics
from metastore.use_cases import UseCases

SCHEMA = TableSchema(0, assign_field_ids(pa.schema([pa.field("id", pa.int64(), nullable=False)])), ("id",))
TABLE = TableInfo("a" * 32, TableName("shop", "orders"), "file:///w/a/", SCHEMA, {"bucket": "2"}, 0, 1)


def snapshot(number: int) -> Snapshot:
    return Snapshot(number, f"{number:032x}", "", SnapshotKind.APPEND, 0, number, None, 1, 1, 1, 1, 1, 0, "w", number)


@dataclass
class ScriptedUseCases:
    """Remembers little, does what the test says: `before[name]` is awaited when a call of that name begins.

    It is each of the use cases.
    """

    before: dict[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    databases: dict[str, str] = field(default_factory=dict)
    committed: dict[tuple[str, int], CommitResult] = field(default_factory=dict)
    commit_order: list[int] = field(default_factory=list)
    commit_delay_s: Callable[[CommitRequest], float] = lambda request: 0.0
    plan_chunks: list[tuple[pa.Table, tuple[int, ...]]] = field(default_factory=list)
    events: asyncio.Queue[WatchEvent | Exception] | None = None
    watched: list[list[WatchPosition]] = field(default_factory=list)

    def __post_init__(self) -> None:
        real = UseCases(MemoryStore(SystemClock()), "file:///w")
        for name in vars(real):
            if not name.startswith("_"):
                setattr(self, name, self)
        # No caller has a grant.
        self.grant_checks = real.grant_checks
        self.work = HeavyWork()

    async def _enter(self, name: str) -> None:
        self.calls.append(name)
        if name in self.before:
            await self.before[name]()
        self.finished.append(name)

    async def create_database(self, name: str, *, if_not_exists: bool = False, comment: str = "") -> bool:
        if name in self.databases and not if_not_exists:
            raise AlreadyExists(f"Database {name} exists.")
        created = name not in self.databases
        self.databases.setdefault(name, comment)
        await self._enter("create_database")
        return created

    async def list_databases(self) -> list[DatabaseInfo]:
        await self._enter("list_databases")
        return [DatabaseInfo(name, comment, 0) for name, comment in sorted(self.databases.items())]

    async def drop_database(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> bool:
        found = self.databases.pop(name, None) is not None
        await self._enter("drop_database")
        if not found and not if_exists:
            raise NotFound(f"Database {name} does not exist.")
        return found

    async def create_table(
        self,
        name: TableName,
        schema: pa.Schema,
        *,
        primary_key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
        comment: str = "",
        by: Principal,
    ) -> tuple[TableInfo, bool]:
        await self._enter("create_table")
        made = TableSchema(0, assign_field_ids(schema), tuple(primary_key), tuple(partition_by))
        return dataclasses.replace(TABLE, name=name, schema=made, options=dict(options or {}), comment=comment), True

    async def get_table(self, name: TableName) -> TableInfo:
        await self._enter("get_table")
        if name != TABLE.name:
            raise NotFound(f"Table {name} does not exist.")
        return TABLE

    async def get_table_by_uuid(self, table_uuid: str) -> TableInfo:
        await self._enter("get_table_by_uuid")
        return dataclasses.replace(TABLE, table_uuid=table_uuid)

    async def list_tables(self, database: str) -> list[str]:
        await self._enter("list_tables")
        return ["orders"]

    async def alter_table(
        self, table_uuid: str, *, set_options: Mapping[str, str], unset_options: Sequence[str], by: Principal
    ) -> TableInfo:
        await self._enter("alter_table")
        return dataclasses.replace(TABLE, options=dict(set_options))

    async def drop_table(self, name: TableName, *, if_exists: bool = False) -> bool:
        await self._enter("drop_table")
        return True

    async def list_schemas(self, table_uuid: str) -> list[TableSchema]:
        await self._enter("list_schemas")
        return [SCHEMA]

    async def stage_attempt(
        self,
        table_uuids: Sequence[str],
        writer: str,
        *,
        attempt_id: str = "",
        count: int = 1,
        identifier: int | None = None,
        epoch: int = 0,
        by: Principal,
    ) -> StagedAttempt:
        await self._enter("stage_attempt")
        return StagedAttempt(attempt_id or "b" * 32, ())

    async def abandon_attempt(self, attempt_id: str, *, by: Principal) -> None:
        await self._enter("abandon_attempt")

    async def register_writer(self, writer: str, *, by: Principal) -> int:
        await self._enter("register_writer")
        return self.calls.count("register_writer")

    async def get_writer_progress(self, writer: str, table_uuid: str) -> WriterProgress:
        await self._enter("get_writer_progress")
        return WriterProgress(None, None, {}, 0)

    async def commit(self, request: CommitRequest, *, by: Principal) -> CommitResult:
        self.commit_order.append(request.identifier)
        key = (request.writer, request.identifier)
        if key not in self.committed:
            results = [
                ChangeResult(change.table_uuid, len(self.committed) + 1, "c" * 32, 1) for change in request.changes
            ]
            self.committed[key] = CommitResult(request.attempt_id, tuple(results))
        await self._enter("commit")
        await asyncio.sleep(self.commit_delay_s(request))
        return self.committed[key]

    async def list_snapshots(
        self, table_uuid: str, *, after: int = 0, until: int = 0, limit: int = 0, newest: bool = False
    ) -> SnapshotPage:
        await self._enter("list_snapshots")
        found = tuple(snapshot(number) for number in range(after + 1, (until or 10) + 1))
        return SnapshotPage(found[: limit or 1000], 10, 1, 1)

    async def plan(self, request: PlanRequest) -> PlanStream:
        await self._enter("plan")

        async def chunks() -> AsyncIterator[PlanChunkData]:
            for table, without in self.plan_chunks:
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, FILE_SCHEMA) as writer:
                    writer.write_table(table)
                await self._enter("plan_chunk")
                yield PlanChunkData(sink.getvalue().to_pybytes(), without)
            await self._enter("plan_end")

        return PlanStream(PlanHeader(TABLE, SCHEMA, {0: SCHEMA}, snapshot(3)), chunks())

    def close(self) -> None:
        """Nobody waits for a job here."""

    async def watch(self, positions: Sequence[WatchPosition], *, complete: bool = False) -> AsyncIterator[WatchEvent]:
        self.watched.append(list(positions))
        await self._enter("watch")
        assert self.events is not None
        while True:
            event = await self.events.get()
            if isinstance(event, Exception):
                raise event
            yield event

    async def acquire_lease(self, name: str, holder: str, duration_ms: int, *, by: Principal) -> LeaseGrant:
        await self._enter("acquire_lease")
        return LeaseGrant(True, 1, holder, duration_ms)

    async def renew_lease(self, name: str, epoch: int, duration_ms: int, *, by: Principal) -> int:
        await self._enter("renew_lease")
        return duration_ms

    async def release_lease(self, name: str, epoch: int, *, by: Principal) -> None:
        await self._enter("release_lease")

    async def report_pipeline(self, pipeline: Pipeline, epoch: int, *, by: Principal) -> None:
        await self._enter("report_pipeline")

    async def list_pipelines(self) -> list[Pipeline]:
        await self._enter("list_pipelines")
        return []


def failure_of(
    target: str, method: str, request: bytes = b"", *, timeout_s: float = 10, options: Any = None, metadata: Any = None
) -> tuple[grpc.StatusCode, str]:
    """The status and its text that a call from any gRPC client fails with.

    Args:
        target: Whom to call.
        method: `Service/Method` of lakelog.rpc.v1.
        request: The message's bytes.
        timeout_s: Of the call.
        options: Of the channel.
        metadata: Of the call.
    """
    with grpc.insecure_channel(target, options=options) as channel:
        call: Any = channel.unary_unary(f"/lakelog.rpc.v1.{method}")
        with pytest.raises(grpc.RpcError) as caught:
            call(request, timeout=timeout_s, metadata=metadata)
        return caught.value.code(), caught.value.details() or ""


class RunningServer:
    """A server on a thread with an event loop of its own."""

    def __init__(
        self,
        use_cases: Any,
        *,
        access: Access | None = None,
        limits: CallLimits | None = None,
        **settings: Any,
    ) -> None:
        self.use_cases = use_cases
        self.registry = CollectorRegistry()
        self.database_error: Exception | None = None
        self._settings = ServerSettings(
            host="127.0.0.1",
            port=settings.pop("port", None) or free_port(),
            tls=settings.pop("tls", None),
            access=access or Access(open=True),
            limits=limits or CallLimits(),
            health_interval_s=0.05,
            **settings,
        )
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.server: MetastoreServer = self.run(self._start())
        self.port = self.server.port
        self.target = f"127.0.0.1:{self.port}"
        self._stopped = False

    async def _start(self) -> MetastoreServer:
        if isinstance(self.use_cases, ScriptedUseCases):
            self.use_cases.events = asyncio.Queue()
        metrics = RpcMetrics(self.registry)
        server = MetastoreServer(self.use_cases, self, self._settings, metrics, RandomIds())
        await server.start()
        return server

    async def ping(self) -> None:
        """As of the server's probe."""
        if self.database_error is not None:
            raise self.database_error

    async def pause(self, seconds: float) -> None:
        """As of the server's probe; short, as nothing wakes it."""
        await asyncio.sleep(min(seconds, 0.05))

    def lose_database(self) -> None:
        self.database_error = Unavailable("gone")

    def run(self, work: Any, timeout_s: float = 30) -> Any:
        """Runs a coroutine on the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout_s)

    def push(self, event: WatchEvent | Exception) -> None:
        assert isinstance(self.use_cases, ScriptedUseCases)
        assert self.use_cases.events is not None
        self.loop.call_soon_threadsafe(self.use_cases.events.put_nowait, event)

    def stop(self) -> None:
        """Drains the server; idempotent."""
        if not self._stopped:
            self._stopped = True
            self.run(self.server.drain())
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()
