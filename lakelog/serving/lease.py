"""Keeps a lease: one instance works, and it notices when another has taken over.

The lease only schedules. Its epoch, which every commit carries as a fence, protects the table. So a lease that was not
renewed for a while does no harm, and the work ends only when the metastore says that another instance has the lease.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from lakelog.clock import Clock
from lakelog.errors import Fenced, LakelogError, Unavailable
from lakelog.format.commit.request import Fence
from lakelog.format.jobs.work import LeaseGrant

if TYPE_CHECKING:
    # Spark's Python workers import this module for the names of errors; logs and clients would take half of the start.
    from lakelog.client.metastore.metastore import Metastore
    from lakelog.serving.logging_setup import Logger
    from lakelog.serving.streams.checkpoint_lock import CheckpointLock

LEASE_HELD: Final = "LEASE_HELD"
"""The reason of an Unavailable for a lease that another instance holds."""

_RENEWALS: Final = 3
"""Renewals in the time of one lease, so that two of them may fail."""

_RETRY_EVERY_S: Final = 2.0
"""The pause between requests to a metastore that does not answer."""

_POLL_EVERY_S: Final = 5.0
"""The longest pause between tries to acquire a held lease. So long an instance of another machine may not notice that
it was released; on the same machine the checkpoint's lock wakes it at once."""


def _request_at_once(request: Callable[[], LeaseGrant]) -> LeaseGrant | None:
    return request()


class LeaseRenewer:
    """Acquires a lease and renews it from a thread, until the lease is lost or released.

    Args:
        metastore: Grants the lease.
        name: The lease.
        holder: The name of this instance, for others.
        duration_s: How long the lease lasts without a renewal.
        max_unavailable_s: After so long without an answer from the metastore the lease counts as lost.
        clock: Gives the time.
        log: Gets a line for each event.
        on_lost: Called once, from the thread, with the reason.
        lock: Shows whether a holder on this machine is dead, so that its lease need not run out; None: nothing does.
        work: What the lease is for, in messages.
    """

    def __init__(
        self,
        metastore: Metastore,
        name: str,
        holder: str,
        *,
        duration_s: float,
        max_unavailable_s: float,
        clock: Clock,
        log: Logger,
        on_lost: Callable[[LakelogError], None],
        lock: CheckpointLock | None = None,
        work: str = "this pipeline",
    ) -> None:
        self._metastore = metastore
        self._name: Final = name
        self._holder = holder
        self._duration_ms = int(duration_s * 1000)
        self._max_unavailable_s = max_unavailable_s
        self._clock = clock
        self._log = log
        self._on_lost = on_lost
        self._lock = lock
        self._work = work
        self._epoch = 0
        self.is_answered = False
        """Whether the metastore has answered the last request, also with another holder; any thread may read it."""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def epoch(self) -> int:
        """The lease's epoch; 0 before it is acquired."""
        return self._epoch

    @property
    def fence(self) -> Fence:
        """The fence that commits carry."""
        return Fence(self._name, self._epoch)

    def acquire(
        self,
        *,
        wait: bool,
        stopping: threading.Event,
        wake: threading.Event | None = None,
        in_turn: Callable[[Callable[[], LeaseGrant]], LeaseGrant | None] = _request_at_once,
        on_wait: Callable[[], None] = lambda: None,
    ) -> bool:
        """Acquires the lease, and waits for it if necessary; returns False if stopped meanwhile.

        Args:
            wait: Whether to wait while another instance holds it.
            stopping: Ends the wait.
            wake: Interrupts a pause; set with `stopping`. None: `stopping` alone does.
            in_turn: Sends the request when its turn comes, if one process acquires several leases; returns None without
                a request if stopped before.
            on_wait: Called once, before the first wait for another instance.

        Raises:
            Unavailable: Another instance holds it, and `wait` is False (reason `LEASE_HELD`); or the metastore did not
                answer.
        """
        reported = ""
        silent_since_s = self._clock.monotonic_s()

        def pause(longest_s: float) -> None:
            if wake is None:
                stopping.wait(longest_s)
            else:
                wake.wait(longest_s)
                wake.clear()

        if self._lock is not None:
            # Before the first request: a holder writes its epoch down while it has the lock.
            self._lock.lock(lambda: None if wake is None else wake.set())
        while not stopping.is_set():
            try:
                grant = in_turn(self._request)
            except LakelogError as error:
                self.is_answered = False
                left_s = silent_since_s + self._max_unavailable_s - self._clock.monotonic_s()
                if not error.retryable or left_s < 0:
                    raise
                self._log.warning(
                    "metastore not reachable, trying again", for_another_s=round(left_s), error=error.message
                )
                pause(_RETRY_EVERY_S)
                continue
            if grant is None:
                continue
            self.is_answered = True
            silent_since_s = self._clock.monotonic_s()
            if grant.acquired:
                self._epoch = grant.epoch
                if self._lock is not None:
                    self._lock.record(self._name, grant.epoch, self._holder)
                self._log.info("lease taken", lease=self._name, epoch=grant.epoch)
                self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
                self._thread.start()
                return True
            if self._is_of_dead(grant) and self._release_for_dead(grant):
                continue
            if not wait:
                raise Unavailable(
                    f"'{grant.holder}' runs {self._work} now (lease '{self._name}', epoch {grant.epoch}, for another "
                    f"{grant.remaining_ms / 1000:.0f} s unless renewed). Stop it first, or start without --no-wait to "
                    "take over when it ends.",
                    reason=LEASE_HELD,
                    metadata={"lease": self._name, "holder": grant.holder},
                )
            if reported != grant.holder:
                is_first, reported = not reported, grant.holder
                self._log.info("waiting for the lease", lease=self._name, holder=grant.holder, epoch=grant.epoch)
                if is_first:
                    on_wait()
                    continue
            pause(min(max(grant.remaining_ms / 1000, 0.05), _POLL_EVERY_S))
        return False

    def _is_of_dead(self, grant: LeaseGrant) -> bool:
        return self._lock is not None and self._lock.is_of_dead(self._name, grant.epoch, grant.holder)

    def _release_for_dead(self, grant: LeaseGrant) -> bool:
        """Releases the lease of a holder that has died, so that its time need not run out; returns whether it could."""
        try:
            self._metastore.release_lease(self._name, grant.epoch)
        except LakelogError as error:
            # It belongs to another principal, or the metastore is away.
            self._log.warning("lease of a dead instance not released", lease=self._name, error=error.message)
            return False
        self._log.info("lease of a dead instance released", lease=self._name, holder=grant.holder, epoch=grant.epoch)
        return True

    def _request(self) -> LeaseGrant:
        return self._metastore.acquire_lease(self._name, self._holder, self._duration_ms)

    def check(self) -> None:
        """Checks with the metastore that this instance still has the lease.

        Raises:
            Fenced: It does not.
            Unavailable: The metastore does not answer.
        """
        self._metastore.renew_lease(self._name, self._epoch, self._duration_ms)

    def release(self) -> None:
        """Stops the renewals and releases the lease, so that others need not wait; never raises lakelog errors."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=_RETRY_EVERY_S)
        if self._epoch:
            try:
                self._metastore.release_lease(self._name, self._epoch)
            except LakelogError as error:
                self._log.warning("lease not given back; it ends by itself", lease=self._name, error=error.message)

    def _renew(self) -> None:
        answered_s = self._clock.monotonic_s()
        while not self._stop.wait(self._duration_ms / 1000 / _RENEWALS):
            try:
                self.check()
                answered_s = self._clock.monotonic_s()
                self.is_answered = True
            except Fenced as error:
                self._on_lost(error)
                return
            except LakelogError as error:
                self.is_answered = False
                silent_s = self._clock.monotonic_s() - answered_s
                self._log.warning(
                    "lease not renewed", lease=self._name, silent_s=round(silent_s, 1), error=error.message
                )
                if silent_s > self._max_unavailable_s:
                    self._on_lost(error)
                    return
