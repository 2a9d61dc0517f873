"""The publisher service: which tables this process publishes.

Each table with a log has a lease; its holder publishes the table. Replicas with the same tables share them evenly: one
that holds more than its share gives some back, one that holds less takes free ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import Clock
from lakelog.errors import Fenced, LakelogError, NotFound, PermissionDenied
from lakelog.format.log.state import LogInfo
from lakelog.format.tables.table import TableName
from lakelog.serving.lease import LEASE_HELD, LeaseRenewer
from lakelog.serving.logging_setup import Logger

from .metrics import PublisherMetrics
from .runner import TableRunner
from .topics.membership import PublisherMembership, fair_share

POLL_EVERY_S: Final = 1.0
"""How late a new table, or a table without a publisher, is noticed."""

IDLE_POLL_EVERY_S: Final = 5.0
"""How late the first table with a log is noticed. Most metastores have none, and a look wakes two processes and the
database."""

_STOP_WITHIN_S: Final = 30.0


class PublisherService:
    """Publishes tables until it is stopped.

    Args:
        metastore: Knows the tables.
        make_lease: Makes the lease of a table's publisher, not yet taken, with a callback for its loss.
        make_runner: Makes the runner of a table, under a lease that is held.
        membership: Counts the replicas.
        tables: Only these; empty: all.
        max_unavailable_s: How long the metastore may be away.
        clock: For the time.
        metrics: The measurements.
        log: The service's log.
    """

    def __init__(
        self,
        metastore: Metastore,
        *,
        make_lease: Callable[[LogInfo, Callable[[LakelogError], None]], LeaseRenewer],
        make_runner: Callable[[LogInfo, LeaseRenewer], TableRunner],
        membership: PublisherMembership,
        tables: frozenset[TableName],
        max_unavailable_s: float,
        clock: Clock,
        metrics: PublisherMetrics,
        log: Logger,
    ) -> None:
        self._metastore = metastore
        self._make_lease = make_lease
        self._make_runner = make_runner
        self._membership = membership
        self._tables = tables
        self._max_unavailable_s = max_unavailable_s
        self._clock = clock
        self._metrics = metrics
        self._log = log
        self._runners: dict[str, TableRunner] = {}
        self._stop = threading.Event()
        self._replicas = 1
        self._missing: frozenset[TableName] = frozenset()
        self._has_logs = False
        self._answered_s = clock.monotonic_s()
        self._has_answered = False

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to stop."""
        return self._stop.is_set()

    @property
    def tables(self) -> list[str]:
        """The tables that it publishes now; any thread may call this."""
        return sorted(runner.table for runner in list(self._runners.values()))

    @property
    def is_healthy(self) -> bool:
        """Whether the metastore has answered recently."""
        return self._clock.monotonic_s() - self._answered_s < self._max_unavailable_s

    @property
    def is_ready(self) -> bool:
        """Whether it publishes: the metastore has answered, lately too, and the service is not ending."""
        return self._has_answered and self.is_healthy and not self.is_stopping

    def stop(self) -> None:
        """Ends it after the current transactions; from any thread."""
        self._stop.set()

    def run(self) -> None:
        """Publishes until it is stopped.

        Raises:
            PermissionDenied: The metastore refuses us.
            LakelogError: The metastore was away for too long.
        """
        try:
            while not self._stop.is_set():
                self._poll()
                is_idle = self._has_answered and not self._has_logs
                self._stop.wait(IDLE_POLL_EVERY_S if is_idle else POLL_EVERY_S)
        finally:
            self._end()

    def _poll(self) -> None:
        try:
            self.step()
            self._answered_s = self._clock.monotonic_s()
            self._has_answered = True
        except PermissionDenied:
            raise
        except LakelogError as error:
            silent_s = self._clock.monotonic_s() - self._answered_s
            if not error.retryable or silent_s > self._max_unavailable_s:
                raise
            self._log.warning("metastore not reachable, trying again", silent_s=round(silent_s), error=error.message)

    def step(self) -> None:
        """Checks once which tables exist, and takes or gives back some.

        Raises:
            LakelogError: The metastore does not answer, or refuses us.
        """
        logs = {
            info.table_uuid: info
            for info in self._metastore.list_logs()
            if not self._tables or info.name in self._tables
        }
        self._report_missing(self._tables - {info.name for info in logs.values()})
        self._has_logs = bool(logs)
        if logs:
            # Each time: a dead replica counts only as long as its tables are leased, so they are taken over at once.
            self._replicas = self._membership.count()
        else:
            # There is nothing to share, and four calls a second for nothing keep an idle metastore busy.
            self._membership.leave()
            self._replicas = 1
        for table_uuid, runner in list(self._runners.items()):
            if not runner.is_running:
                del self._runners[table_uuid]
            elif table_uuid not in logs:
                runner.stop()
            else:
                runner.see(logs[table_uuid])
        share = fair_share(len(logs), self._replicas)
        # The runners of dropped tables end in any case: no other table is given back for them.
        for table_uuid in sorted(self._runners.keys() & logs.keys())[share:]:
            self._runners[table_uuid].stop()
        # No runner delays another, although its last step may wait for brokers.
        free = share - len(self._runners.keys() & logs.keys())
        for table_uuid, info in logs.items():
            if free <= 0 or self._stop.is_set():
                break
            if table_uuid not in self._runners:
                self._take(info)
                free -= table_uuid in self._runners
        self._metrics.tables.set(len(self._runners))
        self._metrics.replicas.set(self._replicas)

    def _report_missing(self, missing: frozenset[TableName]) -> None:
        """Logs which of the named tables have no log; once, since they may be made later."""
        if missing - self._missing:
            self._log.warning("tables of --tables do not exist, or have no log", tables=sorted(map(str, missing)))
        self._missing = missing

    def _take(self, info: LogInfo) -> None:
        runner: TableRunner | None = None

        def lose(error: LakelogError) -> None:
            self._log.warning("the table is another's now", table=str(info.name), error=error.message)
            if runner is not None:
                runner.stop()

        lease = self._make_lease(info, lose)
        try:
            lease.acquire(wait=False, stopping=self._stop)
        except (NotFound, Fenced):
            return
        except LakelogError as error:
            if error.reason == LEASE_HELD:
                return
            raise
        if not lease.epoch:
            return
        runner = self._make_runner(info, lease)
        self._runners[info.table_uuid] = runner
        runner.start()

    def _end(self) -> None:
        for runner in self._runners.values():
            runner.stop()
        until_s = self._clock.monotonic_s() + _STOP_WITHIN_S
        for runner in self._runners.values():
            runner.join(max(0.0, until_s - self._clock.monotonic_s()))
        self._membership.leave()
