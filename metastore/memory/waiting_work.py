"""Waiting work in memory, and its last measurement."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.format.jobs.job import JobState
from lakelog.format.jobs.waiting_work import (
    ConsumerLag,
    ConsumerLags,
    ConsumerState,
    FailedJob,
    LogLag,
    LogLags,
    WaitingWork,
)
from lakelog.format.retention.consumer import SERVED_BY, Consumer
from lakelog.format.retention.lag import measure_lag

from ..store.logs import LogTopic, TopicLife
from ..store.waiting_work import (
    MAX_COUNTED_SNAPSHOTS,
    MAX_NAMED,
    MAX_PROBLEM_CHARACTERS,
    SILENT_MS,
    MeasuredWork,
    WaitingWorkTransaction,
)
from .logs import MemoryLogs
from .state import StoredTable, StoredWork


class MemoryWaitingWork(MemoryLogs, WaitingWorkTransaction):
    """See `metastore.store.waiting_work.WaitingWorkTransaction`."""

    async def find_measured_work(self) -> MeasuredWork:
        stored = self._state.measured_work
        if stored is None:
            return MeasuredWork(self._clock.now_ms(), 0, None)
        return MeasuredWork(self._clock.now_ms() - stored.measured_at_ms, stored.took_ms, stored.work)

    async def lock_measured_work(self) -> MeasuredWork | None:
        return await self.find_measured_work()

    async def put_measured_work(self, took_ms: int, work: WaitingWork) -> None:
        self._journal.set(self._state, "measured_work", StoredWork(self._clock.now_ms(), took_ms, work))

    async def list_failed_jobs(self) -> list[FailedJob]:
        names = {table.table_id: str(table.new.name) for table in self._live()}
        failed = [
            FailedJob(
                each.job.job_id,
                names[each.table_id],
                each.job.kind,
                each.job.reason[:MAX_PROBLEM_CHARACTERS],
                max(self._clock.now_ms() - each.job.updated_at_ms, 0),
            )
            for each in self._state.jobs.values()
            if each.job.state is JobState.FAILED and each.table_id in names
        ]
        return sorted(failed, key=lambda job: (job.failed_ms, -job.job_id))[:MAX_NAMED]

    async def measure_logs(self) -> LogLags:
        lags = [self._find_log_lag(topic) for topic, _ in await self.list_log_topics()]
        lags.sort(key=lambda lag: (not lag.has_problem, -lag.behind_ms, -lag.snapshots_behind, lag.table))
        return LogLags(
            sum(lag.snapshots_behind > 0 for lag in lags),
            sum(lag.snapshots_behind for lag in lags),
            max((lag.behind_ms for lag in lags), default=0),
            tuple(lags[:MAX_NAMED]),
        )

    async def measure_consumers(self) -> list[ConsumerLags]:
        tables = {table.table_id: table for table in self._live()}
        since_ms = self._clock.now_ms() - SILENT_MS
        states: dict[ConsumerState, list[ConsumerLag]] = {}
        for (table_id, _), each in self._state.consumers.items():
            if table_id in tables and each.snapshot_id is not None:
                states.setdefault(_find_state(each, since_ms), []).append(
                    self._find_consumer_lag(tables[table_id], each, each.snapshot_id)
                )
        return [_sum(state, states[state]) for state in sorted(states)]

    def _find_log_lag(self, topic: LogTopic) -> LogLag:
        (table,) = (table for table in self._live() if table.new.table_uuid == topic.table_uuid)
        published = table.published
        if published is not None and published.generation != topic.generation:
            published = None
        done = topic.starts_after if published is None else published.snapshot_id
        problem = topic.problem or ("" if published is None else published.problem)
        has_problem = bool(problem) or topic.life is not TopicLife.LIVE
        return LogLag(str(table.new.name), *self._find_lag(table, done), has_problem, problem[:MAX_PROBLEM_CHARACTERS])

    def _find_consumer_lag(self, table: StoredTable, consumer: Consumer, done: int) -> ConsumerLag:
        first = max(done, table.head.earliest_snapshot_id - 1)
        snapshots = max(table.head.latest_snapshot_id - done, 0)
        lag = measure_lag(table.snapshots[first:], snapshots, self._clock.now_ms())
        known = lag.rows if snapshots <= MAX_COUNTED_SNAPSHOTS else None
        return ConsumerLag(str(table.new.name), consumer.consumer_id, snapshots, lag.age_ms, known)

    def _find_lag(self, table: StoredTable, done: int) -> tuple[int, int]:
        """How many snapshots follow one, and how long ago the first of them was committed."""
        snapshots = max(table.head.latest_snapshot_id - done, 0)
        if not snapshots:
            return 0, 0
        first = max(done + 1, table.head.earliest_snapshot_id)
        return snapshots, self._clock.now_ms() - table.snapshots[first - 1].committed_at_ms


def _find_state(consumer: Consumer, since_ms: int) -> ConsumerState:
    if not consumer.holder or consumer.used_at_ms <= since_ms:
        return "silent"
    return "served" if consumer.holder.startswith(SERVED_BY) else "read"


def _sum(state: ConsumerState, lags: Sequence[ConsumerLag]) -> ConsumerLags:
    most = max(lag.snapshots for lag in lags)
    named = sorted(lags, key=lambda lag: (-lag.behind_ms, -lag.snapshots, lag.table, lag.consumer_id))[:MAX_NAMED]
    longest_ms = max(lag.behind_ms for lag in lags)
    return ConsumerLags(state, len(lags), most, longest_ms, tuple(lag for lag in named if lag.snapshots))
