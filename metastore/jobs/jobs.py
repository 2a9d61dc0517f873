"""Jobs: given to compactors under a lease with an epoch, ended with success or failure, made due again.

Objectives, which pull against each other: compactors do not poll for work; a waiting compactor gets a job as soon as
one is due; a lost notice only costs time. So a call that finds no job waits here until something may have become due: a
commit made it so, a pause ended, a deadline passed. The truth is always the store's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from lakelog.clock import Clock
from lakelog.format.commit.attachment import check_holder, job_not_found
from lakelog.format.jobs.due_job import is_requested, take_delay
from lakelog.format.jobs.job import (
    CHANGELOG,
    CHANGELOG_PRIORITY,
    CHANGELOGS_IN_ROW,
    COMPACT,
    MAX_ATTEMPTS,
    PURGE,
    Job,
    JobState,
    plan_pause_ms,
    take_requested,
)
from lakelog.format.jobs.job_run import RunResult
from lakelog.format.jobs.queue import JobQueue

from ..ownership import Principal, check_job_owner
from ..snapshots.watching import WatchHub
from ..store.jobs import RunEnd
from ..store.limits import Limits
from ..store.transaction import Store, Transaction, run_transaction
from ..store.validation import check_number, check_table_uuids, check_text, invalid
from ..tables.dropped import end_purge, explain_gone
from .leases import MAX_DURATION_MS, MIN_DURATION_MS
from .listing import MAX_KINDS, check_kinds
from .requests import check_job_request, request_jobs, retry_job

MAX_WAIT_MS: Final = 30_000
MAX_TEXT: Final = 4096

ANNOUNCED: Final = "jobs"
"""The name that metastores on one store announce to each other when jobs may be due."""

_POLL_EVERY_S: Final = 30.0
"""How often a waiting call asks the store at least, and as long as one waits at most. A lost announcement of another
metastore costs no more. It is lost if that one dies in the moment after a commit, or while the connection that listens
has gone silent."""

_SHORTEST_PAUSE_S: Final = 0.01
"""A job that is due at this moment but could not be taken is locked by a process that is about to take it, or that
makes it due once more."""

_LOCKED_S: Final = 1.0
"""How long a call that does not wait tries such a job: else a compactor that ends when nothing is due would end
although a job has just been requested."""

_REPORT_EVERY_S: Final = 0.05
"""Commits that make jobs due shortly after each other are announced together: each time all waiting calls ask the
store."""


class Jobs:
    """The use cases of jobs. Runs on one event loop.

    Args:
        store: Where everything is stored.
        clock: Measures how long a call has waited; deadlines and pauses are the store's.
        watches: Notifies other metastores.
        limits: How many tables may be named.
        touched: Called with tables for which more may be due because a job has ended.
        changed: Called when jobs may have become due.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        watches: WatchHub,
        limits: Limits,
        touched: Callable[[str], None],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._watches = watches
        self._limits = limits
        self._touched = touched
        self._changed = changed
        self._waiting: set[asyncio.Event] = set()
        self._changelogs_in_row = 0
        # Until it ends, jobs that became due were announced a moment ago.
        self._pause: asyncio.TimerHandle | None = None
        self._is_unreported = False
        self._closed = False
        watches.listeners.append(self._receive)

    def due(self) -> None:
        """Announces that jobs may be due, at once or with others in a moment."""
        if self._pause is None:
            self._notify()
        else:
            self._is_unreported = True

    def close(self) -> None:
        """Ends all waiting calls without a job; idempotent."""
        self._closed = True
        if self._pause is not None:
            self._pause.cancel()
        self._wake()

    async def lease_job(
        self,
        kinds: Sequence[str],
        table_uuids: Sequence[str],
        holder: str,
        *,
        duration_ms: int,
        wait_ms: int = 0,
        gone: asyncio.Event | None = None,
        check_right: Callable[[], Awaitable[None]] | None = None,
        by: Principal,
    ) -> Job | None:
        """Takes a job that is due, of any table if none is named; None: none was due within the wait.

        Args:
            kinds: Of these kinds.
            table_uuids: Of these tables; empty: of all.
            holder: The caller.
            duration_ms: How long it holds the job without a heartbeat.
            wait_ms: How long to wait if none is due.
            gone: Set when the caller no longer waits for the answer: no job is taken then.
            check_right: Called before each try; raises if the caller has lost the right to the tables while it waited.
            by: The caller; the job belongs to it until the job ends or another principal takes it.
        """
        self._check_lease(kinds, table_uuids, holder, duration_ms, wait_ms)
        give_up_s = self._clock.monotonic_s() + wait_ms / 1000
        event = gone or asyncio.Event()
        woken = asyncio.Event()
        self._waiting.add(woken)
        try:
            while not event.is_set():
                woken.clear()
                if check_right is not None:
                    await check_right()
                changelogs_last = self._changelogs_in_row >= CHANGELOGS_IN_ROW
                job, next_ms = await run_transaction(
                    self._store,
                    partial(_take, kinds=kinds, tables=table_uuids, holder=holder, duration_ms=duration_ms,
                            owner=by.name, changelogs_last=changelogs_last),
                )  # fmt: skip
                if job is not None:
                    self._changelogs_in_row = self._changelogs_in_row + 1 if job.priority >= CHANGELOG_PRIORITY else 0
                left_s = give_up_s - self._clock.monotonic_s()
                if next_ms == 0:
                    left_s += _LOCKED_S
                if job is not None or left_s <= 0 or self._closed:
                    return job
                next_s = _POLL_EVERY_S if next_ms is None else max(next_ms / 1000, _SHORTEST_PAUSE_S)
                pause_s = min(left_s, next_s, _POLL_EVERY_S)
                await _wait_for_either(woken, event, pause_s)
        finally:
            self._waiting.discard(woken)
        return None

    async def heartbeat_job(self, job_id: int, epoch: int, duration_ms: int, *, by: Principal) -> int:
        _check_holder_fields(job_id, epoch)
        check_number("duration_ms", duration_ms, MIN_DURATION_MS, MAX_DURATION_MS)

        async def renew(tx: Transaction) -> int:
            check_job_owner(check_holder(await tx.lock_job(job_id), job_id, epoch), by)
            await tx.renew_job(job_id, duration_ms)
            return duration_ms

        return await run_transaction(self._store, renew)

    async def finish_job(
        self, job_id: int, epoch: int, outcome: str = "", *, work_left: bool = False, by: Principal
    ) -> bool:
        _check_holder_fields(job_id, epoch)
        check_text("outcome", outcome, 0, MAX_TEXT)

        async def finish(tx: Transaction) -> tuple[Job, bool]:
            found = await _find(tx, job_id)
            if found.kind == PURGE:
                return found, await end_purge(tx, found, epoch, by, work_left=work_left)
            # Before the job: commits lock in this order. While the lock is held no one can make the job due unseen.
            heads = await tx.lock_heads([found.table_uuid])
            job = check_holder(await tx.lock_job(job_id), job_id, epoch)
            check_job_owner(job, by)
            head = heads.get(job.table_uuid)
            if head is None:
                raise await explain_gone(tx, job.table_uuid)
            is_due = work_left or bool(job.requested) or (job.kind == CHANGELOG and head.first_pending_snapshot > 0)
            ended = replace(
                job,
                state=JobState.DUE if is_due else JobState.DONE,
                attempts=0,
                reason="",
                outcome=outcome or job.outcome,
            )
            pause_ms = 0
            if work_left:
                ended = take_requested(ended)
            else:
                payload, pause_ms = take_delay(job.requested, await tx.now_ms() if job.requested else 0)
                ended = replace(ended, payload=payload or job.payload, requested={}, done_epoch=epoch)
            # A run that found nothing to do is none that a person looks for.
            result = RunResult.GIVEN_BACK if work_left else RunResult.DONE
            await tx.put_job(ended, pause_ms, RunEnd(result, outcome) if outcome or work_left else None)
            # What is due next, and when, may depend on what the job has done.
            await tx.request_planning(head.table_id)
            return job, is_due

        job, is_due = await run_transaction(self._store, finish)
        self._touched(job.table_uuid)
        # When a compaction ends, another one of its table may be taken, if as many ran as may run.
        if is_due or job.kind == COMPACT:
            self.due()
        return is_due

    async def fail_job(
        self, job_id: int, epoch: int, reason: str, *, final: bool = False, passing: bool = False, by: Principal
    ) -> JobState:
        _check_holder_fields(job_id, epoch)
        check_text("reason", reason, 1, MAX_TEXT)

        async def fail(tx: Transaction) -> JobState:
            job = check_holder(await tx.lock_job(job_id), job_id, epoch)
            check_job_owner(job, by)
            is_last = final or (job.attempts >= MAX_ATTEMPTS and not passing)
            # What was requested since it was taken is tried on its own; what became due without a request is not, else
            # each
            # commit to a damaged bucket would have it read again.
            by_request = is_requested(job.requested)
            state = JobState.FAILED if is_last and not by_request else JobState.DUE
            attempts = 0 if by_request else job.attempts
            ended = replace(take_requested(job), state=state, attempts=attempts, reason=reason)
            await tx.put_job(ended, plan_pause_ms(job.attempts), RunEnd(RunResult.FAILED, reason))
            return state

        state = await run_transaction(self._store, fail)
        # Waiting calls must learn when the pause ends.
        self.due()
        return state

    async def describe_queue(self) -> list[JobQueue]:
        return await run_transaction(self._store, lambda tx: tx.describe_queue())

    async def retry_job(self, job_id: int) -> None:
        check_number("job_id", job_id, 1)
        await run_transaction(self._store, lambda tx: retry_job(tx, job_id))
        self.due()

    async def request_jobs(
        self, table_uuid: str, kind: str, scopes: Sequence[str], payload: Mapping[str, str], *, priority: int = 0
    ) -> list[Job]:
        check_job_request(table_uuid, kind, scopes, payload, priority, self._limits)
        jobs = await run_transaction(
            self._store, lambda tx: request_jobs(tx, table_uuid, kind, scopes, payload, priority)
        )
        self.due()
        return jobs

    def _check_lease(
        self, kinds: Sequence[str], table_uuids: Sequence[str], holder: str, duration_ms: int, wait_ms: int
    ) -> None:
        if not kinds:
            raise invalid("kinds", "0 kinds", f"Name 1 to {MAX_KINDS} kinds of jobs.")
        check_kinds(kinds)
        if table_uuids:
            check_table_uuids("table_uuids", table_uuids, self._limits.max_watched_tables)
        check_text("holder", holder, 1, 256)
        check_number("duration_ms", duration_ms, MIN_DURATION_MS, MAX_DURATION_MS)
        check_number("wait_ms", wait_ms, 0, MAX_WAIT_MS)

    def _receive(self, announced: frozenset[str]) -> None:
        if not announced or ANNOUNCED in announced:
            self._wake()

    def _notify(self) -> None:
        self._wake()
        self._changed()
        self._watches.announce(ANNOUNCED)
        self._is_unreported = False
        self._pause = asyncio.get_running_loop().call_later(_REPORT_EVERY_S, self._end_pause)

    def _end_pause(self) -> None:
        self._pause = None
        if self._is_unreported:
            self._notify()

    def _wake(self) -> None:
        for each in self._waiting:
            each.set()


async def _take(
    tx: Transaction,
    *,
    kinds: Sequence[str],
    tables: Sequence[str],
    holder: str,
    duration_ms: int,
    owner: str,
    changelogs_last: bool,
) -> tuple[Job | None, int | None]:
    """A job; or None, and in how many milliseconds to ask again, if that is known."""
    taken = await tx.lease_job(kinds, tables, holder, duration_ms, owner=owner, changelogs_last=changelogs_last)
    if taken is None:
        return None, await tx.next_due_ms(kinds, tables)
    job, was_over = taken
    if was_over and job.attempts > MAX_ATTEMPTS and not is_requested(job.requested):
        # Its holder never reported why it ended: the job may be what kills its holders.
        reason = f"It was taken {job.attempts - 1} times, and each time its holder stopped reporting."
        await tx.put_job(replace(job, state=JobState.FAILED, reason=reason), plan_pause_ms(job.attempts))
        return None, 0
    if job.requested:
        # Its holder is gone, and did not do what was requested since.
        job = take_requested(job)
        await tx.set_payload(job)
    # From now on no earlier holder can commit anything: the files they wrote may be deleted.
    return replace(job, aborted_attempts=tuple(await tx.abort_attempts(job.lease))), None


async def _find(tx: Transaction, job_id: int) -> Job:
    found = await tx.find_job(job_id)
    if found is None:
        raise job_not_found(job_id)
    return found


async def _wait_for_either(first: asyncio.Event, second: asyncio.Event, timeout_s: float) -> None:
    waits = [asyncio.ensure_future(each.wait()) for each in (first, second)]
    try:
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()


def _check_holder_fields(job_id: int, epoch: int) -> None:
    check_number("job_id", job_id, 1)
    check_number("epoch", epoch, 1)
