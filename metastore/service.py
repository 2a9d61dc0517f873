"""The metastore without its network shell: one facade over the use cases, with the names of the client's protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from lakelog.client.metastore.metastore import LatestSnapshot, SnapshotPage, WatchEvent, WatchPosition
from lakelog.clock import Clock, Ids, RandomIds, SystemClock
from lakelog.format.commit.attachment import AttachRequest, AttachResult
from lakelog.format.commit.request import CommitRequest, CommitResult, StagedAttempt, WriterProgress
from lakelog.format.jobs.job import Job, JobState
from lakelog.format.jobs.queue import JobQueue, PlannedTable
from lakelog.format.jobs.work import LeaseGrant, Pipeline
from lakelog.format.retention.consumer import Consumer, ConsumerPosition
from lakelog.format.retention.dropped import RestoredTable
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.tables.table import DatabaseInfo, TableInfo, TableName
from lakelog.format.types.schema import TableSchema

from .commits.gate import CommitGate
from .commits.pending_changelogs import PendingChangelogs
from .commits.staging import Staging
from .commits.writers import Writers
from .jobs.cleaning import Cleaning
from .jobs.dedicated import plan_dedicated_table
from .jobs.due_compactions import plan_compactions
from .jobs.due_deletion_vectors import plan_deletion_vector_jobs
from .jobs.due_full import plan_full_compactions
from .jobs.due_work import DueWork, WorkPlanner
from .jobs.jobs import Jobs
from .jobs.leases import Leases
from .jobs.partition_expiry import plan_partition_expiry
from .jobs.pipelines import Pipelines
from .jobs.services import Services
from .logs.brokers import Brokers
from .logs.lag import LogLags
from .logs.log_calls import LogCalls
from .logs.publish_calls import PublishCalls
from .logs.publishing import Publishing
from .logs.topics import LogTopics
from .metrics import Metrics, NoMetrics
from .plans.packing import Packer
from .plans.planning import Planner, PlanStream
from .retention.expiry import Expiry, plan_expiry_work
from .retention.overdue import Overdue
from .retention.retention_service import RetentionCalls
from .retention.snapshot_leases import SnapshotLeases
from .snapshots.consumers import Consumers
from .snapshots.listing import list_latest, list_snapshots
from .snapshots.tags import Tags
from .snapshots.watching import WatchHub
from .store.limits import Limits
from .store.transaction import Store, run_transaction
from .tables.catalog import Catalog
from .tables.dropped import DroppedTables
from .tables.partitions import PartitionRules
from .tables.table_files import TableFiles
from .tables.upkeep_calls import UpkeepCalls

PLANNERS: Final[tuple[WorkPlanner, ...]] = (
    plan_compactions,
    plan_full_compactions,
    plan_deletion_vector_jobs,
    plan_expiry_work,
    plan_partition_expiry,
)
"""Who tells what is due at a table, in the order in which they are asked."""


class MetastoreService(RetentionCalls, UpkeepCalls, LogCalls, PublishCalls):
    """All that the metastore does. Runs on one event loop; methods raise only errors of `lakelog.errors`.

    The names, parameters and results are those of `lakelog.client.metastore.metastore.Metastore`, whose docstrings hold
    here too. What is to be run beside it stands in `metastore.background`.

    Args:
        store: Where everything is kept; not closed by the service.
        clock: For measuring; the times of commits and leases are the store's.
        ids: Names of tables, snapshots and attempts.
        warehouse: Absolute URI under which tables get their locations.
        limits: Bounds of single requests and of all together.
        metrics: Where measurements go.
        dropped_retention_ms: For how long dropped tables can be restored; 0: not at all.
        brokers: Those that tables may name for their logs; by default there are none.
        planners: Who tells what commits make due.
    """

    def __init__(
        self,
        store: Store,
        warehouse: str,
        *,
        clock: Clock | None = None,
        ids: Ids | None = None,
        limits: Limits | None = None,
        metrics: Metrics | None = None,
        dropped_retention_ms: int = 86_400_000,
        brokers: Brokers | None = None,
        planners: Sequence[WorkPlanner] = PLANNERS,
    ) -> None:
        clock = clock or SystemClock()
        ids = ids or RandomIds()
        limits = limits or Limits()
        metrics = metrics or NoMetrics()
        self._store = store
        self.watches = WatchHub(store, limits, metrics)
        self.packer = Packer(store)
        self.due_work = DueWork(store, clock, planners, self._jobs_due)
        self.cleaning = Cleaning(store, self._jobs_due)
        self.jobs = Jobs(store, clock, self.watches, limits, self.due_work.touch)
        partitions = PartitionRules()
        self._gate = CommitGate(
            store,
            ids,
            clock,
            limits,
            metrics,
            self._committed,
            self._uncertain,
            partitions,
            self.jobs.due,
        )
        self._pending_changelogs = PendingChangelogs(store, limits, self.watches, partitions)
        self._metrics = metrics
        self.log_lags = LogLags(store, metrics)
        self.overdue = Overdue(store, metrics)
        self.log_topics = LogTopics(store, brokers or Brokers())
        self._publishing = Publishing(store)
        self._catalog = Catalog(store, ids, warehouse, self.log_topics, self._table_dropped, dropped_retention_ms)
        self._dropped_tables = DroppedTables(store, self.log_topics.wake)
        self._table_files = TableFiles(store)
        self._planner = Planner(store, clock, limits, metrics)
        self._staging = Staging(store, ids, limits)
        self._writers = Writers(store)
        self._leases = Leases(store)
        self._pipelines = Pipelines(store)
        self._consumers = Consumers(store)
        self._expiry = Expiry(store, self.packer, self._jobs_due)
        self._snapshot_leases = SnapshotLeases(store)
        self.tags = Tags(store)
        self.services = Services(store, limits)

    async def create_database(self, name: str, *, if_not_exists: bool = False, comment: str = "") -> bool:
        """Makes a database; False when it existed and that was no error."""
        return await self._catalog.create_database(name, if_not_exists=if_not_exists, comment=comment)

    async def list_databases(self) -> list[DatabaseInfo]:
        """All databases by name."""
        return await self._catalog.list_databases()

    async def drop_database(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> bool:
        """Removes a database; False when there was none and that was no error."""
        return await self._catalog.drop_database(name, if_exists=if_exists, cascade=cascade)

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
    ) -> tuple[TableInfo, bool]:
        """Makes a table; the flag is False when it existed and that was no error."""
        return await self._catalog.create_table(
            name,
            schema,
            primary_key=primary_key,
            partition_by=partition_by,
            options=options,
            if_not_exists=if_not_exists,
            comment=comment,
        )

    async def get_table(self, name: TableName) -> TableInfo:
        """A table by name; NotFound names the nearest ones."""
        return await self._catalog.get_table(name)

    async def get_table_by_uuid(self, table_uuid: str) -> TableInfo:
        """A table by uuid; NotFound when it was dropped."""
        return await self._catalog.get_table_by_uuid(table_uuid)

    async def list_tables(self, database: str) -> list[str]:
        """Names of a database's tables, sorted."""
        return await self._catalog.list_tables(database)

    async def alter_table(
        self, table_uuid: str, *, set_options: Mapping[str, str], unset_options: Sequence[str]
    ) -> TableInfo:
        """Changes options that may be changed."""
        altered = await self._catalog.alter_table(table_uuid, set_options=set_options, unset_options=unset_options)
        self.due_work.touch(table_uuid)
        return altered

    async def drop_table(self, name: TableName, *, if_exists: bool = False) -> bool:
        """Removes a table from the catalog; False when there was none and that was no error."""
        return await self._catalog.drop_table(name, if_exists=if_exists)

    async def restore_table(
        self, name: TableName, *, table_uuid: str = "", new_name: TableName | None = None
    ) -> RestoredTable:
        """Makes a dropped table live again, the one dropped last where no uuid is given."""
        restored = await self._dropped_tables.restore_table(name, table_uuid=table_uuid, new_name=new_name)
        self.due_work.touch(restored.table.table_uuid)
        self.jobs.due()
        return restored

    async def list_schemas(self, table_uuid: str) -> list[TableSchema]:
        """All versions of a table's schema by id."""
        return await self._catalog.list_schemas(table_uuid)

    async def stage_attempt(
        self, table_uuids: Sequence[str], writer: str, *, attempt_id: str = "", count: int = 1
    ) -> StagedAttempt:
        """Opens an attempt, or `count` of them; with `attempt_id` lets further tables join that open one instead."""
        return await self._staging.stage_attempt(table_uuids, writer, attempt_id=attempt_id, count=count)

    async def abandon_attempt(self, attempt_id: str) -> None:
        """Gives up an open attempt for good; raises CommitConflict when it is committed. Idempotent."""
        await self._writers.abandon_attempt(attempt_id)

    async def register_writer(self, writer: str) -> int:
        """Takes a writer's identity and returns its new epoch."""
        return await self._writers.register_writer(writer)

    async def get_writer_progress(self, writer: str, table_uuid: str) -> WriterProgress:
        """What a writer has committed last to a table."""
        return await self._writers.get_writer_progress(writer, table_uuid)

    async def commit(self, request: CommitRequest) -> CommitResult:
        """Commits, all or nothing, idempotent; OutcomeUnknown: repeat the same request.

        The request takes its place in the order before this first waits for anything.
        """
        return await self._gate.commit(request)

    async def list_snapshots(
        self, table_uuid: str, *, after: int = 0, until: int = 0, limit: int = 0, newest: bool = False
    ) -> SnapshotPage:
        """Snapshots behind `after` up to `until` (0: no end), at most `limit` (0: 1000)."""
        return await list_snapshots(self._store, table_uuid, after=after, until=until, limit=limit, newest=newest)

    async def list_latest(self, table_uuids: Sequence[str]) -> list[LatestSnapshot]:
        """The newest snapshots of tables, in their order, all at one moment."""
        return await list_latest(self._store, table_uuids)

    async def plan(self, request: PlanRequest) -> PlanStream:
        """The files a read must look at."""
        return await self._planner.plan(request)

    async def attach_changelogs(self, request: AttachRequest) -> AttachResult:
        """Attaches changelogs to the lowest open snapshots, all or none; idempotent."""
        return await self._pending_changelogs.attach_changelogs(request)

    def watch(self, positions: Sequence[WatchPosition], *, complete: bool = False) -> AsyncIterator[WatchEvent]:
        """Tells of each new snapshot, none left out, beginning behind the positions."""
        return self.watches.watch(positions, complete=complete)

    async def lease_job(
        self,
        kinds: Sequence[str],
        table_uuids: Sequence[str],
        holder: str,
        *,
        duration_ms: int,
        wait_ms: int = 0,
        gone: asyncio.Event | None = None,
    ) -> Job | None:
        """Takes a job that is due; None: none was due within the wait. Set `gone` when nobody waits any more."""
        return await self.jobs.lease_job(
            kinds, table_uuids, holder, duration_ms=duration_ms, wait_ms=wait_ms, gone=gone
        )

    def stop_waiting(self) -> None:
        """Lets all who wait for a job go without one; idempotent."""
        self.jobs.close()

    async def heartbeat_job(self, job_id: int, epoch: int, duration_ms: int) -> int:
        """Keeps a job; returns the milliseconds that remain; Fenced when another does it."""
        return await self.jobs.heartbeat_job(job_id, epoch, duration_ms)

    async def finish_job(self, job_id: int, epoch: int, outcome: str = "", *, work_left: bool = False) -> bool:
        """Ends a job that went well, or gives it back; whether it is due again. Fenced when another does it."""
        return await self.jobs.finish_job(job_id, epoch, outcome, work_left=work_left)

    async def fail_job(
        self, job_id: int, epoch: int, reason: str, *, final: bool = False, passing: bool = False
    ) -> JobState:
        """Ends a job that failed; where it is now: due after a pause, or failed. Fenced when another does it."""
        return await self.jobs.fail_job(job_id, epoch, reason, final=final, passing=passing)

    async def list_jobs(self, table_uuids: Sequence[str] = ()) -> list[Job]:
        """All jobs, or those of some tables, by table, kind and scope."""
        return await self.jobs.list_jobs(table_uuids)

    async def retry_job(self, job_id: int) -> None:
        """Makes a job that failed or rests due at once; NotFound when there is none."""
        await self.jobs.retry_job(job_id)

    async def request_jobs(
        self, table_uuid: str, kind: str, scopes: Sequence[str], payload: Mapping[str, str], *, priority: int = 0
    ) -> list[Job]:
        """Makes jobs of a table due at once, those that are being done behind their end; NotFound: no such table."""
        return await self.jobs.request_jobs(table_uuid, kind, scopes, payload, priority=priority)

    async def acquire_lease(self, name: str, holder: str, duration_ms: int) -> LeaseGrant:
        """Takes a lease that is free or over."""
        return await self._leases.acquire_lease(name, holder, duration_ms)

    async def renew_lease(self, name: str, epoch: int, duration_ms: int) -> int:
        """Keeps a lease; returns the milliseconds that remain; Fenced when another holds it."""
        return await self._leases.renew_lease(name, epoch, duration_ms)

    async def release_lease(self, name: str, epoch: int) -> None:
        """Gives a lease back. Idempotent."""
        await self._leases.release_lease(name, epoch)

    async def report_pipeline(self, pipeline: Pipeline, epoch: int) -> None:
        """Writes down where a pipeline is; Fenced when its lease has another epoch."""
        await self._pipelines.report_pipeline(pipeline, epoch)

    async def list_pipelines(self) -> list[Pipeline]:
        """All pipelines that ever reported, by name."""
        return await self._pipelines.list_pipelines()

    async def forget_pipeline(self, name: str) -> None:
        """Takes a pipeline that has ended out of the list."""
        await self._pipelines.forget_pipeline(name)

    async def plan_compactions(self, table_uuid: str, after: int = 0) -> PlannedTable:
        """Makes compactions of a table due as its commits need them, write-only or not."""
        planned = await plan_dedicated_table(self._store, self.due_work, table_uuid, after)
        if planned.job_count:
            self.jobs.due()
        return planned

    async def describe_queue(self) -> list[JobQueue]:
        """How many jobs there are that are not done, by kind."""
        return await run_transaction(self._store, lambda tx: tx.describe_queue())

    async def open_consumer(self, consumer_id: str, table_uuids: Sequence[str], holder: str) -> list[Consumer]:
        """Begins to read as a consumer, in the order of the tables; fences whoever read under its name before."""
        return await self._consumers.open_consumer(consumer_id, table_uuids, holder)

    async def advance_consumer(self, consumer_id: str, positions: Sequence[ConsumerPosition]) -> None:
        """Moves a consumer's positions, all or none; Fenced when another reader has opened it since."""
        await self._consumers.advance_consumer(consumer_id, positions)

    async def renew_consumer(self, consumer_id: str, epochs: Mapping[str, int], holder: str) -> None:
        """Says that a consumer's reader is there, or, with an empty holder, that it has closed; Fenced as above."""
        await self._consumers.renew_consumer(consumer_id, epochs, holder)

    async def list_consumers(self, table_uuid: str) -> list[Consumer]:
        """A table's consumers by id, those that expired among them."""
        return await self._consumers.list_consumers(table_uuid)

    async def reset_consumer(self, table_uuid: str, consumer_id: str, snapshot_id: int) -> None:
        """Sets a consumer's position, back or forth; NotFound when there is none."""
        await self._consumers.reset_consumer(table_uuid, consumer_id, snapshot_id)

    async def delete_consumer(self, table_uuid: str, consumer_id: str) -> None:
        """Forgets a consumer; NotFound when there is none."""
        await self._consumers.delete_consumer(table_uuid, consumer_id)

    def _committed(self, table_uuid: str, snapshots: Sequence[Snapshot], complete_until: int) -> None:
        self.watches.committed(table_uuid, snapshots, complete_until)
        self.due_work.touch(table_uuid)

    def _uncertain(self, table_uuid: str) -> None:
        self.watches.uncertain(table_uuid)
        self.due_work.touch(table_uuid)

    def _jobs_due(self) -> None:
        self.jobs.due()

    def _table_dropped(self, table_uuid: str, name: str) -> None:
        self.watches.dropped(table_uuid)
        self._metrics.forget("live_files", name)
        # It may be purged at once, or earlier than whoever waits would look again.
        self.jobs.due()
        self.log_topics.wake()

    async def close(self) -> None:
        """Ends watches, lets commits that run come to their end and refuses those that wait; idempotent."""
        self.jobs.close()
        self.watches.close()
        await self.log_topics.close()
        await self._gate.close()
