"""The client's blocking protocol over the service in this process: its event loop runs in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

import pyarrow as pa

from lakelog.client.connection.plan_assembly import assemble_files
from lakelog.client.metastore.metastore import LatestSnapshot, SnapshotPage, WatchEvent, WatchPosition
from lakelog.format.commit.attachment import AttachRequest, AttachResult
from lakelog.format.commit.request import CommitRequest, CommitResult, StagedAttempt, WriterProgress
from lakelog.format.jobs.job import Job, JobState
from lakelog.format.jobs.queue import JobQueue, PlannedTable
from lakelog.format.jobs.work import LeaseGrant, Pipeline
from lakelog.format.retention.consumer import Consumer, ConsumerPosition
from lakelog.format.retention.tag import Tag
from lakelog.format.tables.plan import Plan, PlanRequest
from lakelog.format.tables.table import DatabaseInfo, TableInfo, TableName
from lakelog.format.types.schema import TableSchema

from .background import Background
from .inprocess_dropped import InProcessDropped
from .inprocess_logs import InProcessLogs
from .inprocess_presence import InProcessPresence
from .inprocess_publishing import InProcessPublishing
from .inprocess_retention import InProcessRetention
from .inprocess_table_files import InProcessTableFiles
from .service import MetastoreService
from .store.transaction import Store

T = TypeVar("T")


class InProcessMetastore(
    InProcessDropped, InProcessLogs, InProcessPresence, InProcessPublishing, InProcessRetention, InProcessTableFiles
):
    """Implements `lakelog.client.metastore.metastore.Metastore`.

    Args:
        open_store: Makes the store, on the event loop that will use it.
        make_service: Makes the service over it.
    """

    def __init__(
        self, open_store: Callable[[], Awaitable[Store]], make_service: Callable[[Store], MetastoreService]
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="metastore", daemon=True)
        self._thread.start()
        try:
            self.store, self.service, self._background = self.run(_open(open_store, make_service))
        except BaseException:
            self._stop()
            raise

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the service's event loop and waits for it."""
        return self.start(work).result()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Starts a coroutine on the service's event loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def stop_background(self) -> None:
        """Ends what runs beside the requests, so that a test alone decides when its steps are done."""
        self.run(self._background.stop())

    def create_database(self, name: str, *, if_not_exists: bool = False, comment: str = "") -> bool:
        """Makes a database; False when it existed and that was no error."""
        return self.run(self.service.create_database(name, if_not_exists=if_not_exists, comment=comment))

    def list_databases(self) -> list[DatabaseInfo]:
        """All databases by name."""
        return self.run(self.service.list_databases())

    def drop_database(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> bool:
        """Removes a database; False when there was none and that was no error."""
        return self.run(self.service.drop_database(name, if_exists=if_exists, cascade=cascade))

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
        return self.run(
            self.service.create_table(
                name,
                schema,
                primary_key=primary_key,
                partition_by=partition_by,
                options=options,
                if_not_exists=if_not_exists,
                comment=comment,
            )
        )

    def get_table(self, name: TableName) -> TableInfo:
        """A table by name; NotFound names the nearest ones."""
        return self.run(self.service.get_table(name))

    def get_table_by_uuid(self, table_uuid: str) -> TableInfo:
        """A table by uuid; NotFound when it was dropped."""
        return self.run(self.service.get_table_by_uuid(table_uuid))

    def list_tables(self, database: str) -> list[str]:
        """Names of a database's tables, sorted."""
        return self.run(self.service.list_tables(database))

    def alter_table(
        self, table_uuid: str, *, set_options: Mapping[str, str], unset_options: Sequence[str]
    ) -> TableInfo:
        """Changes options that may be changed."""
        return self.run(self.service.alter_table(table_uuid, set_options=set_options, unset_options=unset_options))

    def drop_table(self, name: TableName, *, if_exists: bool = False) -> bool:
        """Removes a table from the catalog; False when there was none and that was no error."""
        return self.run(self.service.drop_table(name, if_exists=if_exists))

    def list_schemas(self, table_uuid: str) -> list[TableSchema]:
        """All versions of a table's schema by id."""
        return self.run(self.service.list_schemas(table_uuid))

    def stage_attempt(
        self, table_uuids: Sequence[str], writer: str, *, attempt_id: str = "", count: int = 1
    ) -> StagedAttempt:
        """Opens an attempt, or `count` of them; with `attempt_id` lets further tables join that open one instead."""
        return self.run(self.service.stage_attempt(table_uuids, writer, attempt_id=attempt_id, count=count))

    def abandon_attempt(self, attempt_id: str) -> None:
        """Gives up an open attempt for good; raises CommitConflict when it is committed. Idempotent."""
        self.run(self.service.abandon_attempt(attempt_id))

    def register_writer(self, writer: str) -> int:
        """Takes a writer's identity and returns its new epoch."""
        return self.run(self.service.register_writer(writer))

    def get_writer_progress(self, writer: str, table_uuid: str) -> WriterProgress:
        """What a writer has committed last to a table."""
        return self.run(self.service.get_writer_progress(writer, table_uuid))

    def commit(self, request: CommitRequest) -> CommitResult:
        """Commits, all or nothing, idempotent; OutcomeUnknown: repeat the same request."""
        return self.run(self.service.commit(request))

    def open_commit_pipeline(self, *, max_in_flight: int = 256) -> InProcessPipeline:
        """Opens a stream of commits."""
        return InProcessPipeline(self, max_in_flight)

    def list_snapshots(
        self, table_uuid: str, *, after: int = 0, until: int = 0, limit: int = 0, newest: bool = False
    ) -> SnapshotPage:
        """Snapshots behind `after` up to `until` (0: no end), at most `limit` (0: 1000)."""
        return self.run(self.service.list_snapshots(table_uuid, after=after, until=until, limit=limit, newest=newest))

    def list_latest(self, table_uuids: Sequence[str]) -> list[LatestSnapshot]:
        """The newest snapshots of tables, in their order, all at one moment."""
        return self.run(self.service.list_latest(table_uuids))

    def plan(self, request: PlanRequest) -> Plan:
        """The files a read must look at."""
        return self.run(collect_plan(self.service, request))

    def attach_changelogs(self, request: AttachRequest) -> AttachResult:
        """Attaches changelogs to the lowest open snapshots, all or none; idempotent."""
        return self.run(self.service.attach_changelogs(request))

    def watch(self, positions: Sequence[WatchPosition], *, complete: bool = False) -> InProcessWatch:
        """Tells of each new snapshot, none left out, beginning behind the positions."""
        return InProcessWatch(self, positions, complete)

    def acquire_lease(self, name: str, holder: str, duration_ms: int) -> LeaseGrant:
        """Takes a lease that is free or over."""
        return self.run(self.service.acquire_lease(name, holder, duration_ms))

    def renew_lease(self, name: str, epoch: int, duration_ms: int) -> int:
        """Keeps a lease; returns the milliseconds that remain; Fenced when another holds it."""
        return self.run(self.service.renew_lease(name, epoch, duration_ms))

    def release_lease(self, name: str, epoch: int) -> None:
        """Gives a lease back. Idempotent."""
        self.run(self.service.release_lease(name, epoch))

    def report_pipeline(self, pipeline: Pipeline, epoch: int) -> None:
        """Writes down where a pipeline is; Fenced when its lease has another epoch."""
        self.run(self.service.report_pipeline(pipeline, epoch))

    def list_pipelines(self) -> list[Pipeline]:
        """All pipelines that ever reported, by name."""
        return self.run(self.service.list_pipelines())

    def forget_pipeline(self, name: str) -> None:
        """Takes a pipeline that has ended out of the list."""
        self.run(self.service.forget_pipeline(name))

    def lease_job(
        self, kinds: Sequence[str], table_uuids: Sequence[str], holder: str, *, duration_ms: int, wait_ms: int = 0
    ) -> Job | None:
        """Takes a job that is due; None: none was due within the wait."""
        return self.run(self.service.lease_job(kinds, table_uuids, holder, duration_ms=duration_ms, wait_ms=wait_ms))

    def heartbeat_job(self, job_id: int, epoch: int, duration_ms: int) -> int:
        """Keeps a job; returns the milliseconds that remain; Fenced when another does it."""
        return self.run(self.service.heartbeat_job(job_id, epoch, duration_ms))

    def finish_job(self, job_id: int, epoch: int, outcome: str = "", *, work_left: bool = False) -> bool:
        """Ends a job that went well, or gives it back; whether it is due again. Fenced when another does it."""
        return self.run(self.service.finish_job(job_id, epoch, outcome, work_left=work_left))

    def fail_job(self, job_id: int, epoch: int, reason: str, *, final: bool = False, passing: bool = False) -> JobState:
        """Ends a job that failed; where it is now: due after a pause, or failed. Fenced when another does it."""
        return self.run(self.service.fail_job(job_id, epoch, reason, final=final, passing=passing))

    def list_jobs(self, table_uuids: Sequence[str] = ()) -> list[Job]:
        """All jobs, or those of some tables, by table, kind and scope."""
        return self.run(self.service.list_jobs(table_uuids))

    def retry_job(self, job_id: int) -> None:
        """Makes a job that failed or rests due at once; NotFound when there is none."""
        self.run(self.service.retry_job(job_id))

    def request_jobs(
        self, table_uuid: str, kind: str, scopes: Sequence[str], payload: Mapping[str, str], *, priority: int = 0
    ) -> list[Job]:
        """Makes jobs of a table due at once, those that are being done behind their end; NotFound: no such table."""
        return self.run(self.service.request_jobs(table_uuid, kind, scopes, payload, priority=priority))

    def plan_compactions(self, table_uuid: str, after: int = 0) -> PlannedTable:
        """Makes compactions of a table due as its commits need them, write-only or not."""
        return self.run(self.service.plan_compactions(table_uuid, after))

    def describe_queue(self) -> list[JobQueue]:
        """How many jobs there are that are not done, by kind."""
        return self.run(self.service.describe_queue())

    def open_consumer(self, consumer_id: str, table_uuids: Sequence[str], holder: str) -> list[Consumer]:
        """Begins to read as a consumer, in the order of the tables; fences whoever read under its name before."""
        return self.run(self.service.open_consumer(consumer_id, table_uuids, holder))

    def advance_consumer(self, consumer_id: str, positions: Sequence[ConsumerPosition]) -> None:
        """Moves a consumer's positions, all or none; Fenced when another reader has opened it since."""
        self.run(self.service.advance_consumer(consumer_id, positions))

    def renew_consumer(self, consumer_id: str, epochs: Mapping[str, int], holder: str) -> None:
        """Says that a consumer's reader is there, or, with an empty holder, that it has closed; Fenced as above."""
        self.run(self.service.renew_consumer(consumer_id, epochs, holder))

    def list_consumers(self, table_uuid: str) -> list[Consumer]:
        """A table's consumers by id, those that expired among them."""
        return self.run(self.service.list_consumers(table_uuid))

    def reset_consumer(self, table_uuid: str, consumer_id: str, snapshot_id: int) -> None:
        """Sets a consumer's position, back or forth; NotFound when there is none."""
        self.run(self.service.reset_consumer(table_uuid, consumer_id, snapshot_id))

    def delete_consumer(self, table_uuid: str, consumer_id: str) -> None:
        """Forgets a consumer; NotFound when there is none."""
        self.run(self.service.delete_consumer(table_uuid, consumer_id))

    def create_tag(self, table_uuid: str, name: str, snapshot_id: int = 0) -> Tag:
        """Gives a snapshot a name, 0: the newest; AlreadyExists where the name is taken."""
        return self.run(self.service.tags.create_tag(table_uuid, name, snapshot_id))

    def list_tags(self, table_uuid: str) -> list[Tag]:
        """A table's tags by name."""
        return self.run(self.service.tags.list_tags(table_uuid))

    def delete_tag(self, table_uuid: str, name: str) -> None:
        """Takes a name away; NotFound when there is none."""
        self.run(self.service.tags.delete_tag(table_uuid, name))

    def close(self) -> None:
        """Ends everything; idempotent."""
        if self._thread.is_alive():
            self.run(_close(self.service, self._background, self.store))
            self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class InProcessPipeline:
    """Commits in flight one behind the other."""

    def __init__(self, metastore: InProcessMetastore, max_in_flight: int) -> None:
        self._metastore = metastore
        self._free = threading.BoundedSemaphore(max_in_flight)
        self._open: set[Future[CommitResult]] = set()

    def submit(self, request: CommitRequest) -> Future[CommitResult]:
        """Sends a commit; blocks only while too many are in flight."""
        self._free.acquire()
        future = self._metastore.start(self._metastore.service.commit(request))
        self._open.add(future)
        future.add_done_callback(self._finished)
        return future

    def close(self) -> None:
        """Waits for all answers; idempotent."""
        for future in list(self._open):
            future.exception()

    def _finished(self, future: Future[CommitResult]) -> None:
        self._open.discard(future)
        self._free.release()


class InProcessWatch:
    """An open watch."""

    def __init__(self, metastore: InProcessMetastore, positions: Sequence[WatchPosition], complete: bool) -> None:
        self._metastore = metastore
        self._events = metastore.service.watch(positions, complete=complete)
        self._next: Future[WatchEvent | None] | None = None
        self._closed = False

    def __iter__(self) -> Iterator[WatchEvent]:
        """Blocks for the next event; ends when closed; raises what ended the watch otherwise."""
        while not self._closed:
            self._next = self._metastore.start(self._advance())
            if self._closed:
                self._next.cancel()
            try:
                event = self._next.result()
            except CancelledError:
                return
            if event is None:
                return
            yield event

    async def _advance(self) -> WatchEvent | None:
        return await anext(self._events, None)

    def close(self) -> None:
        """Ends the watch from any thread; idempotent."""
        self._closed = True
        if self._next is not None:
            self._next.cancel()


async def _open(
    open_store: Callable[[], Awaitable[Store]], make_service: Callable[[Store], MetastoreService]
) -> tuple[Store, MetastoreService, Background]:
    store = await open_store()
    service = make_service(store)
    background = Background(service)
    background.start()
    return store, service, background


async def _close(service: MetastoreService, background: Background, store: Store) -> None:
    await service.close()
    await background.stop()
    # Watches that were closed a moment ago still end their queries, for which they need the store's connections.
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await store.close()


async def collect_plan(service: MetastoreService, request: PlanRequest) -> Plan:
    """A plan whose chunks are put together, as every client does it."""
    stream = await service.plan(request)
    chunks = [(chunk.entries, chunk.without_file_ids) async for chunk in stream.chunks]
    return Plan(
        table=stream.table,
        schema=stream.schema,
        file_schemas=stream.file_schemas,
        snapshot=stream.snapshot,
        files=assemble_files(chunks),
        range_snapshots=stream.range_snapshots,
    )
