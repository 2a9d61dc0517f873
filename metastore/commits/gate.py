"""The commit gate: everything that becomes visible passes here, in one transaction of the store.

Commits that wait for the same tables form a group and share a transaction, each with its own snapshot and verdict.
`lakelog.format.commit.rules` decides, `group_queue` says which commits go together, and this module reads, applies and
answers. Threads beside the event loop do the long work for a large commit.

Why repeating is safe: a transaction that the database aborted changed nothing, so its group is decided again from fresh
facts. A group that failed for a reason that may concern only one commit is repeated commit by commit, so that one
request that the store refuses never fails its neighbours.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass, field

from lakelog.clock import Clock, Ids
from lakelog.errors import InternalError, LakelogError, OutcomeUnknown, ResourceExhausted, Unavailable
from lakelog.format.commit.facts import TableHead
from lakelog.format.commit.request import Change, CommitRequest, CommitResult, count_files, count_items
from lakelog.format.commit.writer_names import is_of_job
from lakelog.format.tables.snapshot import Snapshot
from lakelog.serving.edge.origin import COMMITS, origin
from lakelog.tracing import spans
from lakelog.tracing.tracer import PastSpan

from ..heavy_work import LIGHT, HeavyWork
from ..logs.validation import check_logs
from ..metrics import Metrics
from ..ownership import Principal
from ..store.limits import Limits
from ..store.records import GroupKeys, ResultKey
from ..store.transaction import Store, run_transaction
from ..store.validation import check_commit_request
from ..tables.partitions import PartitionRules
from .compactions import check_compactions
from .group import Asked, GroupState, decide
from .group_queue import GroupQueue
from .guards import check_guard_request
from .restoring import check_restores

log = logging.getLogger(__name__)

Committed = Callable[[str, Sequence[Snapshot], int], None]
"""Called with a table's new snapshots, in order, once durable, and the last snapshot up to which no changelog is
pending then."""

JobsDue = Callable[[], None]
"""Called when commits have made jobs due."""

Uncertain = Callable[[str], None]
"""Called with a table that may have new snapshots."""


@dataclass(eq=False)
class _Waiting:
    """A commit at the gate."""

    request: CommitRequest
    by: Principal
    origin: str
    tables: frozenset[str]
    alone: bool
    file_count: int
    property_bytes: int
    arrived_s: float
    ready: bool
    traceparent: str
    answer: asyncio.Future[CommitResult] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def given_up(self) -> bool:
        return self.answer.done()


class CommitGate:
    """Groups, decides and answers commits.

    Args:
        store: Where everything is stored.
        ids: Generates the uuids of new snapshots.
        clock: Measures latency only; the time of a commit is the store's.
        limits: How many commits may wait and share.
        metrics: Gets latency, group sizes and conflicts.
        committed: Called with new snapshots.
        uncertain: Called with tables that may have new snapshots.
        partitions: Checks encoded partitions.
        jobs_due: Called when jobs have become due.
        work: Its threads check and decide large commits.
    """

    def __init__(
        self,
        store: Store,
        ids: Ids,
        clock: Clock,
        limits: Limits,
        metrics: Metrics,
        committed: Committed,
        uncertain: Uncertain,
        partitions: PartitionRules,
        jobs_due: JobsDue,
        work: HeavyWork,
    ) -> None:
        self._jobs_due = jobs_due
        self._work = work
        self._store = store
        self._ids = ids
        self._clock = clock
        self._limits = limits
        self._metrics = metrics
        self._committed = committed
        self._uncertain = uncertain
        self._partitions = partitions
        # A group is left for others.
        of_caller = max(1, limits.max_parallel_groups - 1)
        self._queue: GroupQueue[_Waiting] = GroupQueue(limits.max_group_commits, limits.max_group_files, of_caller)
        self._running: set[asyncio.Task[None]] = set()
        self._closed = False

    async def commit(self, request: CommitRequest, *, by: Principal) -> CommitResult:
        """Commits, all or nothing.

        The request takes its place in the order before this first waits for anything, a large one even before it is
        checked. So if a caller creates several of these coroutines as tasks, one after the other, they are applied in
        that order. Cancelling the caller does not withdraw a commit that is being processed.

        Args:
            request: What to commit.
            by: The caller.

        Raises:
            PermissionDenied: The attempt or the writer's name belongs to another principal.
            LakelogError: As `lakelog.format.commit.rules.check_commit`; ResourceExhausted when too many wait;
                Unavailable or OutcomeUnknown when the store is lost.
        """
        if not spans.is_on():
            return await self._commit(request, by)
        # On a stream of commits each one has its own trace.
        with spans.span("commit gate", parent=_find_trace(request)):
            return await self._commit(request, by)

    async def _commit(self, request: CommitRequest, by: Principal) -> CommitResult:
        size = sum(count_items(change) for change in request.changes)
        is_large = size > LIGHT
        if not is_large:
            self._check(request)
        waiting = _Waiting(
            request=request,
            by=by,
            origin=origin.get(),
            tables=frozenset(request.table_uuids),
            alone=request.assumes,
            file_count=sum(count_files(change) for change in request.changes),
            property_bytes=sum(map(_count_property_bytes, request.changes)),
            arrived_s=self._clock.monotonic_s(),
            ready=not is_large,
            traceparent=spans.traceparent(),
        )
        self._admit(waiting)
        try:
            if is_large:
                await self._check_beside(waiting, size)
            else:
                self._start_groups()
            return await waiting.answer
        finally:
            if is_large:
                self._free(request)
            self._metrics.observe_seconds("commit_latency_seconds", self._clock.monotonic_s() - waiting.arrived_s)

    def _check(self, request: CommitRequest) -> None:
        check_commit_request(request, self._limits)
        check_compactions(request, self._limits.max_commit_files)
        check_restores(request)
        check_logs(request)
        check_guard_request(request, self._limits)

    def _free(self, request: CommitRequest) -> None:
        for change in request.changes:
            for files in (change.add_files, change.changelog_files, change.log_files):
                self._work.free_later([*files])

    async def _check_beside(self, waiting: _Waiting, size: int) -> None:
        """Checks a large commit while it already has its place in the order."""
        try:
            await self._work.commits.run(size, self._check, waiting.request)
        except BaseException:
            waiting.answer.cancel()
            raise
        finally:
            waiting.ready = True
            self._queue.look_again(waiting.tables)
            self._start_groups()

    async def close(self) -> None:
        """Lets running groups finish and refuses the commits that wait; idempotent."""
        self._closed = True
        for waiting in self._queue.drain():
            if not waiting.answer.done():
                waiting.answer.set_exception(_closing())
        while self._running:
            await asyncio.wait(self._running)

    def _admit(self, waiting: _Waiting) -> None:
        if self._closed:
            raise _closing()
        limits, queue = self._limits, self._queue
        if queue.commit_count >= limits.max_waiting_commits:
            raise ResourceExhausted(
                f"{queue.commit_count} commits wait at the gate, which is the limit. Send less at once, and try again "
                "after a moment.",
                reason="TOO_MANY_COMMITS",
                metadata={"limit": str(limits.max_waiting_commits)},
            )
        if queue.commit_count and queue.file_count + waiting.file_count > limits.max_waiting_files:
            raise ResourceExhausted(
                f"Commits with {queue.file_count} files wait at the gate; {limits.max_waiting_files} is the limit. "
                "Write larger files, and try again after a moment.",
                reason="TOO_MANY_FILES",
                metadata={"limit": str(limits.max_waiting_files)},
            )
        queue.add(waiting)

    def _start_groups(self) -> None:
        while len(self._running) < self._limits.max_parallel_groups and (group := self._queue.take()):
            # It belongs to all commits of the group alike, and not to the call that starts it.
            task = asyncio.create_task(self._run_group(group), name="commit group", context=Context())
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        self._metrics.set_level("waiting_commits", self._queue.commit_count)

    async def _run_group(self, group: list[_Waiting]) -> None:
        origin.set(COMMITS)
        try:
            await self._answer_group(group)
        finally:
            self._queue.finish(group[0].tables)
            # This task still counts as running here; its slot is given to the next group.
            task = asyncio.current_task()
            if task is not None:
                self._running.discard(task)
            self._start_groups()

    async def _answer_group(self, group: list[_Waiting]) -> None:
        self._metrics.observe_size("group_size_commits", len(group))
        began_s = self._clock.monotonic_s()
        try:
            state = await self._commit_group([Asked(waiting.request, waiting.by) for waiting in group])
        except LakelogError as error:
            self._metrics.count("group_failures_total", error.reason)
            if len(group) > 1 and not isinstance(error, Unavailable | OutcomeUnknown):
                await self._answer_one_by_one(group)
                return
            if isinstance(error, OutcomeUnknown):
                for table in group[0].tables:
                    self._uncertain(table)
            for waiting in group:
                _fail(waiting, error)
        except Exception as error:
            log.exception("a group of %d commits failed", len(group))
            self._metrics.count("group_failures_total", "INTERNAL")
            if len(group) > 1:
                await self._answer_one_by_one(group)
                return
            _fail(group[0], InternalError(f"The commit failed: {type(error).__name__}: {error}"))
        else:
            took_s = self._clock.monotonic_s() - began_s
            self._metrics.observe_seconds("commit_transaction_seconds", took_s)
            if spans.is_on():
                self._trace(group, took_s)
            self._answer_each(group, state)
            for rows in (state.records.files, state.records.moved_files, state.records.changelog_files):
                self._work.free_later(rows)

    def _trace(self, group: list[_Waiting], took_s: float) -> None:
        ended_ms = self._clock.now_ms()
        for waiting in group:
            if waiting.traceparent:
                began_ms, shared = ended_ms - took_s * 1000, {"commits": len(group)}
                spans.record(PastSpan("transaction", waiting.traceparent, began_ms, ended_ms, attributes=shared))

    async def _answer_one_by_one(self, group: list[_Waiting]) -> None:
        for waiting in group:
            await self._answer_group([waiting])

    async def _commit_group(self, requests: list[Asked]) -> GroupState:
        keys = _group_keys(requests)
        return await run_transaction(
            self._store,
            lambda transaction: decide(transaction, requests, keys, self._ids, self._partitions, self._work.commits),
        )

    def _show_table(self, head: TableHead, snapshots: Sequence[Snapshot]) -> None:
        metrics = self._metrics
        metrics.set_level("live_files", head.total_files, head.name)
        metrics.set_level("live_rows", head.total_rows, head.name)
        metrics.set_level("live_bytes", head.total_bytes, head.name)
        metrics.set_level("last_commit_timestamp_seconds", head.committed_at_ms / 1000, head.name)
        for snapshot in snapshots:
            kind = snapshot.kind.name.lower()
            metrics.count("snapshots_total", kind)
            metrics.count("added_rows_total", kind, snapshot.added_rows)

    def _answer_each(self, group: list[_Waiting], state: GroupState) -> None:
        if state.records.jobs:
            self._jobs_due()
        for table_uuid, snapshots in state.new_snapshots.items():
            head = state.facts.heads[table_uuid]
            self._committed(table_uuid, snapshots, head.complete_until)
            self._show_table(head, snapshots)
        for waiting, verdict in zip(group, state.verdicts, strict=True):
            if isinstance(verdict, LakelogError):
                self._metrics.count("commits_total", "refused")
                self._metrics.count("conflicts_total", verdict.reason)
                _fail(waiting, verdict)
                continue
            self._metrics.count("commits_total", verdict.outcome)
            if verdict.outcome != "already_applied":
                for dropped in (each for result in verdict.result.results for each in result.dropped):
                    self._metrics.count("dropped_groups_total", dropped.reason)
            if not waiting.answer.done():
                waiting.answer.set_result(verdict.result)


def _find_trace(request: CommitRequest) -> str:
    return next((each.properties.get(spans.TRACE_PROPERTY, "") for each in request.changes), "")


def _count_property_bytes(change: Change) -> int:
    return sum(len(key) + len(value) for key, value in change.properties.items())


def _group_keys(group: Sequence[Asked]) -> GroupKeys:
    requests = [asked.request for asked in group]
    leases = {fence.lease: None for request in requests for fence in request.fences}
    leases |= {request.writer: None for request in requests if is_of_job(request.writer)}
    return GroupKeys(
        table_uuids=tuple({table_uuid: None for request in requests for table_uuid in request.table_uuids}),
        results=tuple(
            {
                ResultKey(change.table_uuid, request.writer, request.identifier): None
                for request in requests
                for change in request.changes
            }
        ),
        writers=tuple({request.writer: None for request in requests}),
        attempts=tuple({request.attempt_id: None for request in requests if request.attempt_id}),
        leases=tuple(leases),
    )


def _fail(waiting: _Waiting, error: LakelogError) -> None:
    if not waiting.answer.done():
        # Each caller gets its own error object: one that is raised twice would collect both tracebacks.
        waiting.answer.set_exception(type(error)(error.message, reason=error.reason, metadata=error.metadata))


def _closing() -> Unavailable:
    return Unavailable("The metastore is shutting down; try again, on another one.", reason="SHUTTING_DOWN")
