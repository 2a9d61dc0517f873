"""Takes jobs and does them, one after the other; more at once takes more replicas.

    wait for a job -> delete files of aborted earlier attempts -> executor, under heartbeats -> finish or fail
     ^                                                                                              |
     +----------------------------------------------------------------------------------------------+

A signal ends it after the current step; the job is given back, so that another compactor continues with it at once.
After a crash this happens when the job's deadline passes. An error of an executor ends the job, and never the service.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import Clock
from lakelog.errors import (
    DataCorrupted,
    Fenced,
    HistoryDiverged,
    InvalidArgument,
    LakelogError,
    NotFound,
    OutcomeUnknown,
    Unavailable,
)
from lakelog.format.jobs.job import Job
from lakelog.serving.logging_setup import Logger
from lakelog.serving.streams.pipeline_report import to_line
from lakelog.storage.objects.stores import Stores
from lakelog.tracing import spans
from lakelog.tracing.request_ids import request_id

from .compactions.dedicated import REQUEST_EVERY_S, DedicatedCompaction
from .executor import Control, JobExecutor
from .exit_status import ExitStatus, may_job_pass, may_pass, to_exit_status
from .job_renewer import JobRenewer
from .metrics import Metrics
from .queue_watch import QueueWatch
from .retention.orphans import delete_aborted

_WAIT_S: Final = 25.0
"""How long a call to the metastore waits for a job, before the next call."""

_POLL_AGAIN_S: Final = 5.0
"""How long to wait before the next poll if none of the requested tables exists."""

_LAST_ANSWER_S: Final = 1.0
"""How long an end waits for a pending request for a job: a job that it brings is given back."""

_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0


class Service:
    """Runs until stopped.

    Args:
        metastore: Has the jobs.
        waiting: The same over a separate connection, which waits for jobs: closing it ends a wait.
        find_tables: The tables whose jobs are done; empty: all; None: there is none at the moment, poll again later.
        executors: The executor of each kind.
        stores: Where the tables' files are.
        holder: Our name, for others.
        lease_s: How long a job is held without a heartbeat.
        max_unavailable_s: How long the metastore may be away.
        once: End when nothing is due.
        clock: For the time.
        metrics: What is measured.
        log: The service's log.
        dedicated_compaction: Makes jobs of named tables due.
        queue: Measures how many jobs wait.
    """

    def __init__(
        self,
        metastore: Metastore,
        *,
        waiting: Metastore,
        find_tables: Callable[[], Sequence[str] | None],
        executors: Mapping[str, JobExecutor],
        stores: Stores,
        holder: str,
        lease_s: float,
        max_unavailable_s: float,
        once: bool,
        clock: Clock,
        metrics: Metrics,
        log: Logger,
        dedicated_compaction: DedicatedCompaction,
        queue: QueueWatch,
    ) -> None:
        self._metastore = metastore
        self._waiting = waiting
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="lease")
        self._find_tables = find_tables
        self._executors = executors
        self._stores = stores
        self._holder = holder
        self._lease_s = lease_s
        self._max_unavailable_s = max_unavailable_s
        self._once = once
        self._clock = clock
        self._metrics = metrics
        self._log = log
        self._dedicated_compaction = dedicated_compaction
        self._queue = queue
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._answered_s = clock.monotonic_s()
        self._job: Job | None = None

    @property
    def job(self) -> Job | None:
        """The current job; None: it waits. Any thread may call this."""
        return self._job

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to stop."""
        return self._stopping.is_set()

    @property
    def is_healthy(self) -> bool:
        """Whether the metastore has answered recently."""
        return self._clock.monotonic_s() - self._answered_s <= self._lease_s + _WAIT_S

    @property
    def is_ready(self) -> bool:
        """Whether it takes jobs: the metastore has answered, lately too, and the service is not ending."""
        return self._queue.has_answered and self.is_healthy and not self.is_stopping

    def stop(self) -> None:
        """Ends it after the current step; from a signal handler or any thread."""
        self._stopping.set()
        self._wake.set()

    def run(self) -> ExitStatus:
        """Runs until the end; errors are logged, never raised."""
        pause_s = _FIRST_PAUSE_S
        self._receive()
        while not self.is_stopping:
            try:
                did_one = self.step()
                self._receive()
                pause_s = _FIRST_PAUSE_S
                if self._once and not did_one:
                    break
            except Exception as error:
                silent_s = self._clock.monotonic_s() - self._answered_s
                if not may_pass(error) or silent_s > self._max_unavailable_s:
                    return self._fail(error)
                self._log.warning("metastore not reachable, trying again", error=str(error), in_s=pause_s)
                self._stopping.wait(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        self._log.info("stopped")
        return ExitStatus.FINE

    def step(self) -> bool:
        """Waits for a job and does it; False: there was none."""
        job = self._take()
        if job is None:
            return False
        if self.is_stopping:
            self._release(job, "")
        else:
            # The lines of the metastore about its calls name the job.
            with request_id(f"job-{job.job_id}-{job.epoch}"), spans.root_span(f"job {job.kind}", table=job.table):
                self._do(job)
        return True

    def _receive(self) -> None:
        self._answered_s = self._clock.monotonic_s()

    def _hear_at_work(self) -> None:
        self._receive()
        # Separately: a heartbeat that waited for this answer could come too late.
        threading.Thread(target=self._queue.poll, name="queue", daemon=True).start()

    def _fail(self, error: Exception) -> ExitStatus:
        exit_status = to_exit_status(error)
        known = isinstance(error, LakelogError)
        self._log.error("failed", exit_code=int(exit_status), exit_status=exit_status.name, error=str(error),
                        **({} if known else {"exc_info": error}))  # fmt: skip
        return exit_status

    def _take(self) -> Job | None:
        """Waits for a job, in a thread, so that a signal ends the wait."""
        tables = self._find_tables()
        if tables is None:
            # SUBTLE: a request for jobs of no table would be a request for those of all tables.
            self._stopping.wait(0 if self._once else _POLL_AGAIN_S)
            return None
        if tables:
            self._dedicated_compaction.plan(tables)
        self._queue.poll()
        wait_s = REQUEST_EVERY_S if tables else _WAIT_S
        self._wake.clear()
        call: Future[Job | None] = self._pool.submit(
            self._waiting.lease_job,
            tuple(self._executors),
            tables,
            self._holder,
            duration_ms=int(self._lease_s * 1000),
            wait_ms=0 if self._once else int(wait_s * 1000),
        )
        call.add_done_callback(lambda _: self._wake.set())
        while not call.done() and not self.is_stopping:
            self._wake.wait()
        try:
            if not call.done():
                # The metastore notices that no one waits any more, and takes no job for us.
                self._waiting.close()
            return call.result(_LAST_ANSWER_S)
        except (LakelogError, TimeoutError):
            if self.is_stopping:
                return None
            raise

    def _do(self, job: Job) -> None:
        log = self._log.bind(job_id=job.job_id, kind=job.kind, table=job.table, epoch=job.epoch)
        began_s = self._clock.monotonic_s()
        self._metrics.working.set(1)
        self._job = job
        control = Control(self._stopping)
        outcome = "failed"
        try:
            with JobRenewer(self._metastore, job, self._lease_s, control, self._hear_at_work, log):
                if job.aborted_attempts:
                    self._metrics.takeovers.labels(job.kind).inc()
                    self._clear(job, log)
                outcome = self._executors[job.kind].do(job, control)
            due_again = self._release(job, outcome)
            outcome = "finished"
            took_s = round(self._clock.monotonic_s() - began_s, 3)
            log.debug("job finished", outcome=outcome, due_again=due_again, seconds=took_s)
        except (Fenced, HistoryDiverged) as error:
            outcome = "lost"
            log.warning("job lost", error=error.message)
        except NotFound as error:
            if error.reason not in ("JOB_NOT_FOUND", "TABLE_NOT_FOUND"):
                self._report(job, error, log)
                return
            outcome = "lost"
            log.info("job gone with its table", error=error.message)
        except (Unavailable, OutcomeUnknown) as error:
            outcome = "unanswered"
            self._report(job, error, log)
        except Exception as error:
            self._report(job, error, log)
        finally:
            self._metrics.working.set(0)
            self._job = None
            self._metrics.jobs.labels(job.kind, outcome).inc()
            self._metrics.job_seconds.labels(job.kind).observe(self._clock.monotonic_s() - began_s)

    def _clear(self, job: Job, log: Logger) -> None:
        """Deletes files that earlier holders of the job have written and can no longer commit."""
        info = self._metastore.get_table_by_uuid(job.table_uuid)
        count = delete_aborted(self._stores.open(info.location), job.aborted_attempts)
        log.info("taken over", attempts=len(job.aborted_attempts), deleted_files=count)

    def _release(self, job: Job, outcome: str) -> bool:
        # When stopped, an executor ends after the current step, and does not say whether that was its last one.
        return self._metastore.finish_job(job.job_id, job.epoch, outcome, work_left=self.is_stopping)

    def _report(self, job: Job, error: Exception, log: Logger) -> None:
        """Reports to the metastore that a job failed; a lost report costs time only, until the deadline."""
        known = isinstance(error, LakelogError)
        # A damaged file stays damaged, and a mismatch stays a mismatch; all else may pass.
        final = isinstance(error, DataCorrupted | InvalidArgument)
        log.error("job failed", error=str(error), final=final, **({} if known else {"exc_info": error}))
        try:
            self._metastore.fail_job(job.job_id, job.epoch, to_reason(error), final=final, passing=may_job_pass(error))
        except LakelogError as failure:
            log.warning("the failure was not reported", error=failure.message)


def to_reason(error: Exception) -> str:
    """An error in one line that the metastore accepts. Pure."""
    known = isinstance(error, LakelogError)
    said = str(error) if known else f"{type(error).__name__}: {error}"
    return to_line(said) or type(error).__name__
