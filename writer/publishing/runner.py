"""One table's publisher in its own thread: steps, and the handling of errors.

Nothing that happens to one table ends another's publishing. A temporary failure is tried again soon. A problem that a
person must solve is reported to the metastore, where `lakelog log status` and metrics show it, and is tried again now
and then, because it may have been solved.
"""

from __future__ import annotations

import threading
from typing import Final

from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import Clock
from lakelog.errors import Fenced, HistoryDiverged, InternalError, LakelogError, NotFound
from lakelog.format.log.state import LogInfo, PublishReport
from lakelog.serving.lease import LeaseRenewer
from lakelog.serving.logging_setup import Logger

from .metrics import PublisherMetrics
from .publisher import Step, TablePublisher
from .watchdog import Watchdog

IDLE_S: Final = 1.0
"""How long a step waits for a snapshot; a stop takes effect after it."""

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 5.0
_REPORT_AFTER_S: Final = 10.0
"""A temporary failure is reported once it has lasted this long."""

_MEND_S: Final = 5.0
"""Between two tries after a problem that a person must solve."""

_LONGEST_PROBLEM: Final = 2000
_LONGEST_REASON: Final = 64
"""Characters."""

_SURE_AFTER: Final = 2
"""A divergence is believed when it was found this often in a row: a publisher that starts just now can look like
one."""


class TableRunner:
    """Publishes one table until it is stopped, or must stop.

    Args:
        name: The table's name, for people.
        table_uuid: The table.
        publisher: The table's publisher.
        lease: The table's lease, which is held.
        metastore: Receives the problems.
        clock: For the time.
        watchdog: Ends the process when a step does not come back (R6).
        metrics: The measurements.
        log: The service's log.
    """

    def __init__(
        self,
        name: str,
        table_uuid: str,
        publisher: TablePublisher,
        lease: LeaseRenewer,
        metastore: Metastore,
        clock: Clock,
        watchdog: Watchdog,
        metrics: PublisherMetrics,
        log: Logger,
    ) -> None:
        self.table: Final = name
        """Its name."""
        self._table_uuid: Final = table_uuid
        self._publisher = publisher
        self._lease = lease
        self._metastore = metastore
        self._clock = clock
        self._watchdog = watchdog
        self._metrics = metrics
        self._log = log.bind(table=name)
        self._stop = threading.Event()
        self._failures = 0
        self._diverged = 0
        self._failing_since_s: float | None = None
        self._reported = ""
        self._thread = threading.Thread(target=self._run, name=f"publish {name}", daemon=True)

    @property
    def is_running(self) -> bool:
        """Whether it still publishes."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begins, in its own thread."""
        self._thread.start()

    def see(self, info: LogInfo) -> None:
        """Gets the present state of the log; from any thread."""
        self._publisher.see(info)

    def stop(self) -> None:
        """Ends it after the current step; does not wait. From any thread, idempotent."""
        self._stop.set()

    def join(self, timeout_s: float) -> None:
        """Waits for its end."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                pause_s = self.step(IDLE_S)
                if pause_s is None:
                    return
                self._stop.wait(pause_s)
        finally:
            try:
                self._publisher.forget()
            except Exception:
                # A lease without a holder at work would keep all others from the table.
                self._log.exception("a defect of the publisher")
            self._lease.release()
            self._metrics.forget(self.table)
            self._log.info("stopped publishing", published=vars(self._publisher.published))

    def step(self, wait_s: float) -> float | None:
        """Does one step; returns how many seconds to wait before the next, or None if there is to be none."""
        self._watchdog.begin(self.table)
        try:
            done = self._publisher.step(wait_s)
        except LakelogError as error:
            return self._fail(error)
        except Exception as defect:
            # A thread that ended by it would be started again and again, without any report.
            self._log.exception("a defect of the publisher")
            return self._fail(InternalError(f"The publisher has failed: {type(defect).__name__}: {defect}"))
        finally:
            self._watchdog.end(self.table)
        self._succeed(done)
        return 0.0

    def _succeed(self, done: Step) -> None:
        self._diverged = 0
        self._metrics.show(self.table, self._publisher)
        if done is Step.STARTED:
            # A restart alone solves nothing: a producer can start even if brokers take no records. But what a restart
            # reports
            # replaces the reported problem, so the problem must be reported again.
            self._reported = ""
            self._log.info("fresh start", position=self._publisher.position.snapshot_id)
            return
        if self._failures:
            self._log.info("publishing goes on", failures=self._failures)
        self._failures, self._failing_since_s, self._reported = 0, None, ""

    def _fail(self, error: LakelogError) -> float | None:
        self._failures += 1
        self._metrics.failed(self.table, error.reason)
        now_s = self._clock.monotonic_s()
        self._failing_since_s = now_s if self._failing_since_s is None else self._failing_since_s
        lasts_s = now_s - self._failing_since_s
        if isinstance(error, NotFound) and error.reason in ("TABLE_NOT_FOUND", "LOG_NOT_FOUND"):
            self._log.info("nothing more to publish", reason=error.message)
            return None
        # A publisher that brokers or the metastore fence may have lost the table: only its lease can say.
        if isinstance(error, Fenced) and not self._is_ours():
            return None
        if isinstance(error, HistoryDiverged):
            self._diverged += 1
        else:
            self._diverged = 0
        passing = error.retryable or isinstance(error, Fenced) or 0 < self._diverged < _SURE_AFTER
        if not passing or lasts_s >= _REPORT_AFTER_S:
            self._report(error)
        self._log.warning("not published, trying again", error=error.message, reason=error.reason, tries=self._failures)
        return min(_FIRST_PAUSE_S * 2 ** min(self._failures - 1, 10), _LONGEST_PAUSE_S) if passing else _MEND_S

    def _is_ours(self) -> bool:
        try:
            self._lease.check()
        except Fenced as error:
            self._log.info("another publishes the table now", reason=error.message)
            return False
        except LakelogError:
            # The metastore does not answer: nothing is published either until it does.
            return True
        return True

    def _report(self, error: LakelogError) -> None:
        if self._reported == error.message:
            return
        try:
            state = self._metastore.get_publish_state(self._table_uuid)
            # The reported position stays as it was.
            self._metastore.report_published(
                PublishReport(
                    self._table_uuid,
                    state.generation,
                    self._lease.epoch,
                    next_index=state.next_index,
                    next_uuid=state.next_uuid,
                    problem=error.message[:_LONGEST_PROBLEM],
                    problem_reason=error.reason[:_LONGEST_REASON],
                )
            )
        except LakelogError as failure:
            self._log.warning("the problem could not be reported", error=failure.message)
            return
        self._reported = error.message
        self._log.error("publishing stands still until this is mended", error=error.message)
