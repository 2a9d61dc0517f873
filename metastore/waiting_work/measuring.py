"""Measures what waits: once for all metastores, and for a small share of the database's time.

The measurement is a row in the store. A metastore that finds it too old locks it and measures; the others read it, also
while it is locked. So replicas add nothing but the read of one row, and if one dies while it measures, the lock ends
with its connection.
"""

from __future__ import annotations

from typing import Final

from lakelog.clock import Clock
from lakelog.format.jobs.waiting_work import WaitingWork

from ..alarm import Alarm
from ..metrics import Metrics
from ..store.transaction import Store, Transaction, run_transaction
from ..store.waiting_work import MeasuredWork
from .showing import WorkLevels

MEASURE_EVERY_MS: Final = 10_000
"""About as often as Prometheus scrapes."""

PAUSES: Final = 200
"""The pause is at least so many times as long as the measurement took, so that it costs at most half a percent of a
core, up to the longest pause."""

LONGEST_PAUSE_MS: Final = 120_000
"""Scalers must not decide on older figures. It bounds the pause from a measurement of 0.6 seconds on."""

REST_S: Final = 60.0
"""While nothing waits and nothing happens, another measurement would find the same. A metastore is not notified of what
makes a lag at another one without a commit (a consumer is reset, a log switched on) and shows it so much later."""

STALE_S: Final = 60.0
"""Figures that could not be read again for so long are shown no more: a scaler then holds the number of replicas. It
counts from the first failure, because none are read during a rest."""


def is_old(measured: MeasuredWork) -> bool:
    """Whether it is time for another measurement. Pure."""
    pause_ms = min(max(MEASURE_EVERY_MS, PAUSES * measured.took_ms), LONGEST_PAUSE_MS)
    return measured.work is None or not 0 <= measured.age_ms < pause_ms


class WorkMeasuring:
    """Keeps the metrics of waiting work up to date."""

    def __init__(self, store: Store, clock: Clock, metrics: Metrics) -> None:
        self._store = store
        self._clock = clock
        self._levels = WorkLevels(metrics)
        self._failing_from_s: float | None = None
        self._alarm = Alarm(clock)

    def touch(self) -> None:
        """Notes that something may wait now."""
        self._alarm.notify()

    async def wait(self) -> None:
        """Returns once a measurement may find something new."""
        await self._alarm.wait()

    async def step(self) -> None:
        """Measures, if no metastore has done so lately, and shows the result.

        Raises:
            Unavailable, OutcomeUnknown: The store is lost.
        """
        is_notified = self._alarm.is_notified
        self._alarm.set(REST_S)
        try:
            measured = await run_transaction(self._store, self._measure)
            if measured.work is not None:
                self._levels.show(measured.work, measured.age_ms)
        except BaseException:
            self._alarm.notify()
            self._clear_if_stale()
            raise
        self._failing_from_s = None
        # What it was notified of may be newer than the measurement of another.
        if measured.work is None or measured.work.has_any or (is_notified and measured.age_ms > 0):
            self._alarm.notify()

    def _clear_if_stale(self) -> None:
        now_s = self._clock.monotonic_s()
        if self._failing_from_s is None:
            self._failing_from_s = now_s
        if now_s - self._failing_from_s >= STALE_S:
            self._levels.clear()

    async def _measure(self, tx: Transaction) -> MeasuredWork:
        found = await tx.find_measured_work()
        if not is_old(found):
            return found
        locked = await tx.lock_measured_work()
        if locked is None or not is_old(locked):
            return locked or found
        began_s = self._clock.monotonic_s()
        queues = await tx.describe_queue()
        failed_jobs = await tx.list_failed_jobs()
        logs = await tx.measure_logs()
        consumers = await tx.measure_consumers()
        work = WaitingWork(tuple(queues), tuple(failed_jobs), logs, tuple(consumers))
        took_ms = round((self._clock.monotonic_s() - began_s) * 1000)
        await tx.put_measured_work(took_ms, work)
        return MeasuredWork(0, took_ms, work)
