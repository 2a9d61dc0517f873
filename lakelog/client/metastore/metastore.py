"""The metastore as its callers see it: one protocol for all implementations.

Implementations: `lakelog.client.grpc.metastore.GrpcMetastore` over the wire and, for tests, `metastore.testing` over
the use cases in this process. One contract suite (`tests/contract/metastore`) runs over both of them. All methods
block, may be called from several threads at once, and raise only errors of `lakelog.errors`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from lakelog.client.metastore.dropped import DroppedTables
from lakelog.client.metastore.logs import Logs
from lakelog.client.metastore.presence import Presence
from lakelog.client.metastore.retention import Retention
from lakelog.client.metastore.table_files import TableFiles
from lakelog.format.commit.attachment import AttachRequest, AttachResult
from lakelog.format.commit.request import CommitRequest, CommitResult, StagedAttempt, WriterProgress
from lakelog.format.jobs.job import Job, JobState
from lakelog.format.jobs.queue import JobQueue, PlannedTable
from lakelog.format.jobs.work import LeaseGrant, Pipeline
from lakelog.format.retention.consumer import Consumer, ConsumerPosition
from lakelog.format.retention.tag import Tag
from lakelog.format.tables.plan import Plan, PlanRequest
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.tables.table import DatabaseInfo, TableInfo, TableName
from lakelog.format.types.schema import TableSchema


@dataclass(frozen=True)
class SnapshotPage:
    """Snapshots in rising order, and the table's newest, oldest retained, and lowest pending ones (0: there is none).

    Of snapshots before the oldest retained one only the changes can still be read (semantics 3.8).
    """

    snapshots: tuple[Snapshot, ...]
    latest_snapshot_id: int
    earliest_snapshot_id: int
    earliest_change_id: int
    first_pending_snapshot_id: int = 0

    @property
    def complete_until(self) -> int:
        """Up to and with this snapshot no changelog is pending: so far a stream can show the table's changes."""
        return self.first_pending_snapshot_id - 1 if self.first_pending_snapshot_id else self.latest_snapshot_id


@dataclass(frozen=True)
class LatestSnapshot:
    """A table's newest snapshot, the id of the oldest retained one, and of the oldest one whose changes are retained.

    They are 0 and empty when there is none. `last_full_snapshot_id` is the newest one that compacted a bucket as a
    whole, retained or not; 0: there is none.
    """

    table_uuid: str
    snapshot_id: int
    snapshot_uuid: str
    earliest_snapshot_id: int
    earliest_change_id: int
    last_full_snapshot_id: int = 0


@dataclass(frozen=True)
class WatchPosition:
    """Where the watch of a table begins: the first reported snapshot is the one after `after`."""

    table_uuid: str
    after: int
    after_uuid: str = ""


@dataclass(frozen=True)
class WatchEvent:
    """New snapshots of a table, in rising order without gaps; or the report that it was dropped."""

    table_uuid: str
    snapshots: tuple[Snapshot, ...]
    dropped: bool = False


class Watch(Protocol):
    """An open watch: iterate for events; `close` ends it from any thread."""

    def __iter__(self) -> Iterator[WatchEvent]:
        """Blocks for the next event; ends when closed; raises what ended the watch otherwise."""
        ...

    def close(self) -> None:
        """Ends the watch; idempotent."""
        ...


class CommitPipeline(Protocol):
    """Commits in flight, one after the other, on one stream.

    Commits to the same tables take effect in the order of `submit`. After a broken stream every open future fails with
    `OutcomeUnknown`; it is safe to repeat those requests in order on a new pipeline, since commits are idempotent.
    """

    def submit(self, request: CommitRequest) -> Future[CommitResult]:
        """Sends a commit; blocks only while too many are in flight."""
        ...

    def close(self) -> None:
        """Waits for all answers, then ends the stream; idempotent."""
        ...


class Metastore(DroppedTables, Retention, TableFiles, Logs, Presence, Protocol):
    """All that the metastore does."""

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

    def drop_table(self, name: TableName, *, if_exists: bool = False) -> bool:
        """Removes a table from the catalog; False when there was none and that was no error."""
        ...

    def list_schemas(self, table_uuid: str) -> list[TableSchema]:
        """All versions of a table's schema by id."""
        ...

    def stage_attempt(
        self,
        table_uuids: Sequence[str],
        writer: str,
        *,
        attempt_id: str = "",
        count: int = 1,
        identifier: int | None = None,
        epoch: int = 0,
    ) -> StagedAttempt:
        """Opens an attempt, or `count` of them; with `attempt_id` lets further tables join that open one instead.

        Only joining is idempotent: an attempt that is never committed costs a clean-up.

        Args:
            table_uuids: The tables that the attempts will write to.
            writer: The writer's name.
            attempt_id: An open attempt; empty: a new one.
            count: How many; at most 16.
            identifier: The writer's number of the commit that the attempt is for. With several attempts it is the
                number of the first, and the others are for the numbers after it. Once another attempt has applied this
                commit, the attempt is aborted. None: not known yet.
            epoch: With `identifier`: the writer's epoch. Once the writer gets a higher one, the attempt is aborted.

        Raises:
            PermissionDenied: The attempt or the writer's name belongs to another principal.
            NotFound: A table or the attempt does not exist.
            CommitConflict: The attempt has ended, but not because its commit was applied by another one.
            ResourceExhausted: Too many wait.
        """
        ...

    def abandon_attempt(self, attempt_id: str) -> None:
        """Gives up an open attempt for good. Idempotent.

        Raises:
            PermissionDenied: It belongs to another principal.
            CommitConflict: It is committed: its files are in use.
            NotFound: There is none.
        """
        ...

    def register_writer(self, writer: str) -> int:
        """Registers a writer and returns its new epoch; attempts with a lower one are aborted.

        Raises:
            PermissionDenied: The name belongs to another principal.
            InvalidArgument: It is the name of a job.
        """
        ...

    def release_writer(self, writer: str) -> str:
        """Takes a writer's name from its owner and returns the owner (empty: none); its next user owns it.

        Epoch and commits stay. Idempotent.
        """
        ...

    def get_writer_progress(self, writer: str, table_uuid: str) -> WriterProgress:
        """The last commit of a writer to a table."""
        ...

    def commit(self, request: CommitRequest) -> CommitResult:
        """Commits, all or nothing, idempotent; after OutcomeUnknown repeat the same request."""
        ...

    def open_commit_pipeline(self, *, max_in_flight: int = 256) -> CommitPipeline:
        """Opens a stream of commits."""
        ...

    def list_snapshots(
        self, table_uuid: str, *, after: int = 0, until: int = 0, limit: int = 0, newest: bool = False
    ) -> SnapshotPage:
        """Snapshots after `after` up to `until` (0: no end), at most `limit` (0: 1000), the oldest or newest."""
        ...

    def list_latest(self, table_uuids: Sequence[str]) -> list[LatestSnapshot]:
        """The newest snapshots of tables, in the order of the tables, all at one moment.

        No commit to several of them is only partly included.
        """
        ...

    def plan(self, request: PlanRequest) -> Plan:
        """The files that a read needs."""
        ...

    def attach_changelogs(self, request: AttachRequest) -> AttachResult:
        """Attaches changelogs to the lowest snapshots with pending ones, all or none; idempotent.

        Raises:
            PermissionDenied: Another principal owns the attempt or holds the job.
        """
        ...

    def watch(self, positions: Sequence[WatchPosition], *, complete: bool = False) -> Watch:
        """Reports each new snapshot after the positions, without gaps.

        With `complete` it reports a snapshot only once no changelog up to and with its own is pending.

        Raises:
            NotFound: A table does not exist.
            HistoryDiverged: A position is not in the history of its table.
            SnapshotExpired: The next snapshot is no longer retained.
            ResourceExhausted: The caller was up to date, then read too slowly; it may continue from its position.
        """
        ...

    def acquire_lease(self, name: str, holder: str, duration_ms: int) -> LeaseGrant:
        """Acquires a lease that is free or over."""
        ...

    def renew_lease(self, name: str, epoch: int, duration_ms: int) -> int:
        """Renews a lease, also an expired one that no one took; returns the milliseconds that remain.

        Raises:
            Fenced: Another took it, or it was released.
            PermissionDenied: Another principal holds it.
        """
        ...

    def release_lease(self, name: str, epoch: int) -> None:
        """Releases a lease. Idempotent; a lease that has another epoch by now stays as it is.

        Raises:
            PermissionDenied: Another principal holds it.
        """
        ...

    def report_pipeline(self, pipeline: Pipeline, epoch: int) -> None:
        """Stores where a pipeline is.

        Raises:
            Fenced: Its lease `pipeline/<name>` has another epoch.
            PermissionDenied: Another principal holds the lease.
        """
        ...

    def list_pipelines(self) -> list[Pipeline]:
        """All pipelines that ever reported, by name."""
        ...

    def forget_pipeline(self, name: str) -> None:
        """Removes a pipeline that has ended from the list; its table, checkpoint and lease's epoch stay.

        Raises:
            NotFound: No pipeline of this name has reported.
            InvalidArgument: Its lease is held.
        """
        ...

    def lease_job(
        self, kinds: Sequence[str], table_uuids: Sequence[str], holder: str, *, duration_ms: int, wait_ms: int = 0
    ) -> Job | None:
        """Leases a job that is due, of any table if none is named; None: none was due within the wait."""
        ...

    def heartbeat_job(self, job_id: int, epoch: int, duration_ms: int) -> int:
        """Renews a job, also after its deadline if no one took it; returns the milliseconds that remain.

        Raises:
            NotFound: There is no such job; its table was dropped.
            Fenced: Another does it, or it was given back.
            PermissionDenied: Another principal holds it.
        """
        ...

    def finish_job(self, job_id: int, epoch: int, outcome: str = "", *, work_left: bool = False) -> bool:
        """Ends a job that succeeded, or gives it back; returns whether it is due again.

        Args:
            job_id: The job.
            epoch: The caller's.
            outcome: What was done, for people.
            work_left: It is given back before its end: what was requested is still to be done.

        Raises:
            NotFound: There is no such job; its table was dropped.
            Fenced: Another does it, or it was given back.
            PermissionDenied: Another principal holds it.
        """
        ...

    def fail_job(self, job_id: int, epoch: int, reason: str, *, final: bool = False, passing: bool = False) -> JobState:
        """Ends a job that failed; returns its state: due after a pause that grows, or failed.

        Args:
            job_id: The job.
            epoch: The caller's.
            reason: For people.
            final: Another try would fail in the same way.
            passing: The cause may pass by itself, so that the number of tries is not limited.

        Raises:
            NotFound: There is no such job; its table was dropped.
            Fenced: Another does it, or it was given back.
            PermissionDenied: Another principal holds it.
        """
        ...

    def list_jobs(self, table_uuids: Sequence[str] = ()) -> list[Job]:
        """All jobs, or those of some tables, by table, kind and scope."""
        ...

    def retry_job(self, job_id: int) -> None:
        """Makes a job that failed or rests due at once.

        Not idempotent: once a process has leased the job that the first call made due, a repeat is refused.

        Raises:
            NotFound: There is none.
            InvalidArgument: It is being done, or has nothing to do.
        """
        ...

    def request_jobs(
        self, table_uuid: str, kind: str, scopes: Sequence[str], payload: Mapping[str, str], *, priority: int = 0
    ) -> list[Job]:
        """Makes jobs of a table due at once, and running ones due again after their end; NotFound: no such table.

        The request is fulfilled once a job's `done_epoch` is above its `epoch` in the answer.

        Args:
            table_uuid: The table.
            kind: Only `compact`.
            scopes: Which parts, each once, 1 to 4000: those of `lakelog.format.jobs.job.to_bucket_scope`.
            payload: `strategy`: `minor` or `full`. A job that already waits for the stronger strategy keeps it.
            priority: Jobs with a higher one come first.

        Returns:
            One job for each scope, in their order.

        Raises:
            NotFound: There is no such table (any more).
        """
        ...

    def plan_compactions(self, table_uuid: str, after: int = 0) -> PlannedTable:
        """Makes compactions of a table due as its commits need them, write-only or not: for dedicated compaction.

        Args:
            table_uuid: The table.
            after: The value from the last answer; 0: there was none, and the whole table is examined.

        Raises:
            NotFound: The table does not exist, or no longer.
            InvalidArgument: The request is malformed.
        """
        ...

    def describe_queue(self) -> list[JobQueue]:
        """The number of jobs that are not done, by kind."""
        ...

    def open_consumer(self, consumer_id: str, table_uuids: Sequence[str], holder: str) -> list[Consumer]:
        """Begins to read as a consumer, in the order of the tables; fences any earlier reader of the same name.

        An expired one continues from its position. It belongs to the principal that opens it first.

        Raises:
            PermissionDenied: It belongs to another principal.
        """
        ...

    def advance_consumer(self, consumer_id: str, positions: Sequence[ConsumerPosition]) -> None:
        """Moves a consumer's positions, all or none.

        Raises:
            Fenced: Another reader has opened it since, or it was reset or deleted.
            PermissionDenied: It belongs to another principal.
            InvalidArgument: A position lies before the one that was reached, or beyond the newest snapshot.
            HistoryDiverged: The table's history has another snapshot of this number.
        """
        ...

    def renew_consumer(self, consumer_id: str, epochs: Mapping[str, int], holder: str) -> None:
        """Reports that a consumer's reader is there, or, with an empty holder, that it has closed.

        Args:
            consumer_id: The consumer.
            epochs: The epochs from opening it, by table uuid.
            holder: The reader.

        Raises:
            Fenced: Another reader has opened it since, or it was reset or deleted.
            PermissionDenied: It belongs to another principal.
        """
        ...

    def list_consumers(self, table_uuid: str) -> list[Consumer]:
        """A table's consumers by id, expired ones included."""
        ...

    def reset_consumer(self, table_uuid: str, consumer_id: str, snapshot_id: int) -> None:
        """Sets a consumer's position, back or forth.

        If an admin calls this, the principal that opens the consumer next owns it.

        Raises:
            PermissionDenied: It belongs to another principal.
            NotFound: The table has none of this id.
            InvalidArgument: The position is not one that the table has.
        """
        ...

    def delete_consumer(self, table_uuid: str, consumer_id: str) -> None:
        """Forgets a consumer.

        Raises:
            PermissionDenied: It belongs to another principal.
            NotFound: The table has none of this id.
        """
        ...

    def create_tag(self, table_uuid: str, name: str, snapshot_id: int = 0) -> Tag:
        """Gives a snapshot a name; 0: the newest.

        Raises:
            AlreadyExists: The table has a tag of this name.
            InvalidArgument: The name is not valid for a tag.
            NotFound: There is no such table or snapshot.
            SnapshotExpired: The snapshot is no longer retained.
            ResourceExhausted: The table has as many tags as it may have.
        """
        ...

    def list_tags(self, table_uuid: str) -> list[Tag]:
        """A table's tags by name."""
        ...

    def delete_tag(self, table_uuid: str, name: str) -> None:
        """Deletes a tag.

        Raises:
            NotFound: The table has none of this name; names the nearest ones.
        """
        ...

    def close(self) -> None:
        """Ends all connections; idempotent."""
        ...
