"""The metastore as its callers see it: one protocol for all implementations.

Implementations: `lakelog.client.grpc.metastore.GrpcMetastore` over the wire and, for tests, `metastore.testing` over
the use cases in this process. One contract suite (`tests/contract/metastore`) runs over both of them. All methods
block, may be called from several threads at once, and raise only errors of `lakelog.errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from lakelog.client.metastore.catalog import Catalog
from lakelog.client.metastore.consumers import Consumers
from lakelog.client.metastore.credentials import Credentials
from lakelog.client.metastore.dropped import DroppedTables
from lakelog.client.metastore.due_work import DueWork
from lakelog.client.metastore.grants import Grants
from lakelog.client.metastore.jobs import Jobs
from lakelog.client.metastore.logs import Logs
from lakelog.client.metastore.presence import Presence
from lakelog.client.metastore.retention import Retention
from lakelog.client.metastore.table_files import TableFiles
from lakelog.client.metastore.tags import Tags
from lakelog.format.commit.attachment import AttachRequest, AttachResult
from lakelog.format.commit.request import CommitRequest, CommitResult, StagedAttempt, WriterProgress
from lakelog.format.tables.plan import Plan, PlanRequest
from lakelog.format.tables.snapshot import Snapshot


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
    """New snapshots of a table, in rising order without gaps; or the report that it was dropped.

    `more`: there may be others after them, or any if there are none here. `Metastore.list_snapshots` has them.
    """

    table_uuid: str
    snapshots: tuple[Snapshot, ...]
    dropped: bool = False
    more: bool = False


class Watch(Protocol):
    """An open watch: iterate for events; `close` ends it from any thread."""

    def __iter__(self) -> Iterator[WatchEvent]:
        """Blocks for the next event; ends when closed; raises what ended the watch otherwise."""
        ...

    def close(self) -> None:
        """Ends the watch; idempotent."""
        ...


class ReadyWatch(Protocol):
    """An open watch whose reader never waits."""

    def __iter__(self) -> Iterator[WatchEvent | None]:
        """Yields what has come, and None while nothing has; ends when closed."""
        ...

    def close(self) -> None:
        """Ends the watch; idempotent."""
        ...


class ReadyWatches(Protocol):
    """Opens watches whose readers never wait."""

    def open(self, table_uuids: Sequence[str], *, complete: bool, notify: Callable[[], None]) -> ReadyWatch:
        """Opens a watch of tables, which first says that there may be more snapshots of each. Does not block.

        Args:
            table_uuids: The tables.
            complete: As of `Metastore.watch`.
            notify: Called, from any thread, when something has come.
        """
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


class Metastore(
    Catalog,
    Jobs,
    DueWork,
    Consumers,
    Tags,
    DroppedTables,
    Retention,
    TableFiles,
    Logs,
    Presence,
    Grants,
    Credentials,
    Protocol,
):
    """All that the metastore does."""

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

    def close(self) -> None:
        """Ends all connections; idempotent."""
        ...
