"""Jobs in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from lakelog.format.commit.facts import AttemptState
from lakelog.format.jobs.due_job import FAILED_REST_MS
from lakelog.format.jobs.job import (
    CHANGELOG_PRIORITY,
    COMPACT,
    DELETION_VECTORS,
    REQUEST_PRIORITY,
    DueJob,
    Job,
    JobState,
)
from lakelog.format.jobs.job_run import JobRun, RunResult
from lakelog.format.jobs.queue import JobQueue
from lakelog.options.declared.tables import MAX_JOBS

from ...store.jobs import RunEnd
from ..catalog import MemoryCatalog
from ..state import StoredJob

_WAITING = (JobState.DUE, JobState.LEASED)


class MemoryJobs(MemoryCatalog):
    """See `metastore.store.jobs.JobTransaction`."""

    async def lease_job(
        self,
        kinds: Sequence[str],
        table_uuids: Sequence[str],
        holder: str,
        duration_ms: int,
        *,
        owner: str = "",
        changelogs_last: bool = False,
    ) -> tuple[Job, bool] | None:
        now_ms = self._clock.now_ms()
        busy = self._count_leased(now_ms)
        due = [
            each
            for each in self._find_waiting(kinds, table_uuids)
            if each.due_at_ms <= now_ms and not self._is_too_much(each, now_ms)
        ]
        if not due:
            return None
        first = min(
            due,
            key=lambda each: (
                changelogs_last and each.job.priority >= CHANGELOG_PRIORITY,
                -_find_priority(each, now_ms),
                busy.get(each.table_id, 0),
                each.due_at_ms,
                each.job.job_id,
            ),
        )
        job = replace(
            first.job,
            state=JobState.LEASED,
            attempts=first.job.attempts + 1,
            epoch=self._make_epoch(first.job.epoch),
            holder=holder,
            owner=owner,
            updated_at_ms=now_ms,
        )
        if first.job.state is JobState.LEASED:
            self._record_run(first, RunEnd(RunResult.LOST, ""), first.due_at_ms)
        taken = self._show(self._keep(StoredJob(job, first.table_id, now_ms + duration_ms, now_ms)))
        return taken, first.job.state is JobState.LEASED

    async def next_due_ms(self, kinds: Sequence[str], table_uuids: Sequence[str]) -> int | None:
        now_ms = self._clock.now_ms()
        waiting = [
            each.due_at_ms
            for each in self._find_waiting(kinds, table_uuids)
            if each.job.state is JobState.LEASED or not self._is_too_much(each, now_ms)
        ]
        return max(min(waiting) - now_ms, 0) if waiting else None

    async def abort_attempts(self, writer: str) -> list[str]:
        attempts = self._state.attempts
        found = [
            each.attempt_id for each in attempts.values() if each.state is AttemptState.OPEN and each.writer == writer
        ]
        for attempt_id in found:
            self._journal.put(attempts, attempt_id, replace(attempts[attempt_id], state=AttemptState.ABORTED))
        return found

    async def find_job(self, job_id: int) -> Job | None:
        return await self.lock_job(job_id)

    async def lock_job(self, job_id: int) -> Job | None:
        found = self._state.jobs.get(job_id)
        return None if found is None else self._show(found)

    async def renew_job(self, job_id: int, duration_ms: int) -> None:
        self._keep(replace(self._state.jobs[job_id], due_at_ms=self._clock.now_ms() + duration_ms))

    async def put_job(self, job: Job, pause_ms: int, run: RunEnd | None = None) -> None:
        now_ms = self._clock.now_ms()
        stored = self._state.jobs[job.job_id]
        if run is not None:
            self._record_run(stored, run, now_ms)
        self._keep(
            StoredJob(replace(job, holder="", owner="", updated_at_ms=now_ms), stored.table_id, now_ms + pause_ms)
        )

    async def set_payload(self, job: Job) -> None:
        stored = self._state.jobs[job.job_id]
        changed = replace(stored.job, payload=dict(job.payload), requested=dict(job.requested))
        self._keep(replace(stored, job=changed))

    async def lock_jobs(self, table_id: int, kind: str, scopes: Sequence[str]) -> list[Job]:
        wanted = set(scopes)
        return [
            self._show(each)
            for each in self._state.jobs.values()
            if each.table_id == table_id and each.job.kind == kind and each.job.scope in wanted
        ]

    async def list_waiting(self, table_id: int, kind: str, scopes: Sequence[str]) -> list[Job]:
        return [job for job in await self.lock_jobs(table_id, kind, scopes) if job.state is JobState.DUE]

    async def request_jobs(self, due: Sequence[DueJob]) -> None:
        self._make_due(due, by_request=True)

    async def count_waiting(self, table_id: int, kind: str) -> int:
        waiting = [each for each in self._state.jobs.values() if each.job.state is JobState.DUE]
        return sum((each.table_id, each.job.kind) == (table_id, kind) for each in waiting)

    async def describe_queue(self) -> list[JobQueue]:
        now_ms = self._clock.now_ms()
        kinds: dict[str, list[StoredJob]] = {}
        for stored in self._state.jobs.values():
            if stored.job.state is not JobState.DONE:
                kinds.setdefault(stored.job.kind, []).append(stored)
        return [_describe(kind, kinds[kind], now_ms) for kind in sorted(kinds)]

    async def make_due(self, due: Sequence[DueJob]) -> None:
        self._make_due(due, by_request=False)

    def _make_due(self, due: Sequence[DueJob], *, by_request: bool) -> None:
        found = self._find_by_scope()
        for each in due:
            stored = found.get((each.table_id, each.kind, each.scope))
            if stored is None:
                self._insert(each)
            elif stored.job.state is JobState.LEASED:
                priority = max(stored.job.priority, each.priority)
                requested = stored.job.requested if each.delay_ms > 0 else dict(each.payload)
                self._keep(replace(stored, job=replace(stored.job, priority=priority, requested=requested)))
            elif by_request or stored.job.state is not JobState.FAILED or self._has_rested(stored.job):
                self._keep(self._put_forward(stored, each, by_request=by_request))

    def _put_forward(self, stored: StoredJob, due: DueJob, *, by_request: bool) -> StoredJob:
        now_ms = self._clock.now_ms()
        job, due_at_ms = stored.job, now_ms + due.delay_ms
        is_done = job.state is JobState.DONE
        if not by_request and job.state is JobState.DUE:
            if job.attempts:
                due_at_ms = stored.due_at_ms
            elif job.kind != DELETION_VECTORS:
                # Only jobs for deletion vectors are put off: they are for buckets that get no more files.
                due_at_ms = min(stored.due_at_ms, due_at_ms)
        changed = replace(
            job,
            state=JobState.DUE,
            priority=due.priority if is_done else max(job.priority, due.priority),
            payload=dict(due.payload),
            attempts=0 if is_done or by_request else job.attempts,
            updated_at_ms=now_ms,
        )
        return StoredJob(changed, stored.table_id, due_at_ms)

    def _has_rested(self, job: Job) -> bool:
        return self._clock.now_ms() - job.updated_at_ms >= FAILED_REST_MS

    def _make_due_by_commit(self, due: DueJob) -> None:
        """Makes a job due that a commit leaves; a waiting job stays as it is, and a failed one rests on."""
        now_ms = self._clock.now_ms()
        stored = self._find_by_scope().get((due.table_id, due.kind, due.scope))
        if stored is None:
            self._insert(due)
        elif stored.job.state not in _WAITING:
            job = replace(
                stored.job, state=JobState.DUE, priority=due.priority, payload=dict(due.payload), updated_at_ms=now_ms
            )
            # A failed job rests as if it had been tried again.
            rests = stored.job.state is JobState.FAILED
            self._keep(StoredJob(job, due.table_id, stored.due_at_ms if rests else now_ms))

    def _find_by_scope(self) -> dict[tuple[int, str, str], StoredJob]:
        return {(each.table_id, each.job.kind, each.job.scope): each for each in self._state.jobs.values()}

    def _insert(self, due: DueJob) -> None:
        now_ms = self._clock.now_ms()
        job_id = self._state.last_job_id + 1
        self._journal.set(self._state, "last_job_id", job_id)
        new = self._table(due.table_id).new
        job = Job(
            job_id=job_id,
            table_uuid=new.table_uuid,
            table=str(new.name),
            kind=due.kind,
            scope=due.scope,
            state=JobState.DUE,
            priority=due.priority,
            payload=dict(due.payload),
            attempts=0,
            reason="",
            outcome="",
            epoch=0,
            holder="",
            remaining_ms=0,
            created_at_ms=now_ms,
            updated_at_ms=now_ms,
        )
        self._keep(StoredJob(job, due.table_id, now_ms + due.delay_ms))

    def _find_waiting(self, kinds: Sequence[str], table_uuids: Sequence[str]) -> list[StoredJob]:
        return [
            each
            for each in self._state.jobs.values()
            if each.job.state in _WAITING
            and each.job.kind in kinds
            and (not table_uuids or each.job.table_uuid in table_uuids)
        ]

    def _count_leased(self, now_ms: int, kind: str = "") -> Counter[int]:
        """How many jobs of each table are being done."""
        return Counter(
            each.table_id
            for each in self._state.jobs.values()
            if each.job.state is JobState.LEASED and each.due_at_ms > now_ms and kind in ("", each.job.kind)
        )

    def _is_too_much(self, stored: StoredJob, now_ms: int) -> bool:
        """Whether the table has as many running compactions as it may have."""
        if stored.job.kind != COMPACT:
            return False
        most = MAX_JOBS.read(self._table(stored.table_id).options)
        return self._count_leased(now_ms, COMPACT)[stored.table_id] >= most

    def _record_run(self, stored: StoredJob, run: RunEnd, ended_at_ms: int) -> None:
        run_id = self._state.last_run_id + 1
        self._journal.set(self._state, "last_run_id", run_id)
        job = stored.job
        found = JobRun(
            run_id=run_id,
            job_id=job.job_id,
            table_uuid=job.table_uuid,
            table=job.table,
            kind=job.kind,
            scope=job.scope,
            epoch=job.epoch,
            holder=job.holder,
            started_at_ms=stored.leased_at_ms,
            ended_at_ms=ended_at_ms,
            result=run.result,
            message=run.message,
        )
        self._journal.put(self._state.job_runs, run_id, (stored.table_id, found))

    def _keep(self, stored: StoredJob) -> StoredJob:
        self._journal.put(self._state.jobs, stored.job.job_id, stored)
        return stored

    def _show(self, stored: StoredJob) -> Job:
        is_waiting = stored.job.state in _WAITING
        left_ms = max(stored.due_at_ms - self._clock.now_ms(), 0) if is_waiting else 0
        return replace(stored.job, remaining_ms=left_ms)


def _find_priority(stored: StoredJob, now_ms: int) -> int:
    """A waiting job gains one step of priority a minute, so that it does not wait forever behind later jobs."""
    priority = stored.job.priority
    if priority >= REQUEST_PRIORITY:
        return priority
    return min(priority + (now_ms - stored.due_at_ms) // 60_000, REQUEST_PRIORITY - 1)


def _describe(kind: str, jobs: Sequence[StoredJob], now_ms: int) -> JobQueue:
    may = [each for each in jobs if each.job.state in _WAITING and each.due_at_ms <= now_ms]
    later = Counter(each.job.state for each in jobs if each not in may)
    oldest_ms = max((now_ms - each.due_at_ms for each in may), default=0)
    return JobQueue(kind, len(may), later[JobState.DUE], later[JobState.LEASED], later[JobState.FAILED], oldest_ms)
