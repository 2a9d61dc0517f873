"""Reports that a service is there, for `lakelog status`: from a thread, every 15 seconds, until its end.

Nothing depends on presence. A failed report never harms the service. The log has a line when reports begin to fail and
when they arrive again, and the next report is sent as if nothing had happened.

    starting -> running -> draining -> taken out       a clean end
                   |
                   +-> silent -> gone -> removed       a kill, or a metastore that cannot be reached
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import lakelog
from lakelog.clock import Clock, Ids, RandomIds, SystemClock
from lakelog.errors import LakelogError
from lakelog.format.jobs.presence import (
    MAX_NAME_CHARACTERS,
    MAX_WORK,
    MAX_WORK_CHARACTERS,
    ServiceReport,
    ServiceState,
)

if TYPE_CHECKING:
    from lakelog.client.metastore.metastore import Metastore
    from lakelog.serving.logging_setup import Logger

INTERVAL_S: Final = 15.0
"""The time between two reports. A report wakes two processes and the database: it is most of what idle services do."""

TTL_S: Final = 60.0
"""How long a report counts. After two lost reports a service is shown as silent, after four as gone."""

REFUSED_INTERVAL_S: Final = 60.0
"""The pause if the metastore refuses reports: the token may only read, or the metastore knows no presence."""

_STATE_INTERVAL_S: Final = 0.5
"""How soon another state is noticed of a service that is not running yet: people watch how it starts."""

_RUNNING_INTERVAL_S: Final = 2.0
"""How soon it is noticed that a running service drains."""

_LAST_REPORT_S: Final = 4.0
"""How long the end of a service waits for its last report."""


@dataclass(frozen=True)
class Activity:
    """What a service does now.

    Args:
        state: Starting, running or draining.
        work: What it works on, for people; long or many texts are cut.
    """

    state: ServiceState
    work: Sequence[str] = ()


class Presence:
    """Reports a service from its own thread, from `start`, or the entry of the block, to the end.

    Args:
        kind: The kind of the service; see `lakelog.format.jobs.presence`.
        send: Sends a report; blocks for seconds at most, raises lakelog errors.
        observe: Returns what the service does now. Called often, from the thread; quick, and sends no request.
        metrics: `host:port` of its metrics; empty: it has none.
        ids: Makes the name of this process.
        clock: Gives the time.
        log: Gets the lines.
    """

    def __init__(
        self,
        kind: str,
        send: Callable[[ServiceReport], None],
        observe: Callable[[], Activity],
        *,
        metrics: str,
        ids: Ids,
        clock: Clock,
        log: Logger,
    ) -> None:
        self._send = send
        self._observe = observe
        self._clock = clock
        self._log = log
        self._began_s = clock.monotonic_s()
        self._report = ServiceReport(
            kind=kind,
            instance_id=ids.new_id(),
            host=_cut(socket.gethostname() or "unknown", MAX_NAME_CHARACTERS),
            pid=os.getpid(),
            version=lakelog.__version__,
            state=ServiceState.STARTING,
            work=(),
            metrics=_cut(metrics, MAX_NAME_CHARACTERS),
            uptime_ms=0,
            ttl_ms=int(TTL_S * 1000),
        )
        self._due_s = self._began_s
        self._reported: ServiceState | None = None
        self._is_failing = False
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="presence", daemon=True)

    def __enter__(self) -> Presence:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Starts to report; call it once."""
        self._thread.start()

    def close(self) -> None:
        """Removes the service from the list, and waits a few seconds for that; idempotent, also before a start."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(_LAST_REPORT_S)

    def step(self) -> None:
        """Reports if a report is due or the state has changed; never raises."""
        try:
            activity = self._observe()
            now_s = self._clock.monotonic_s()
            if now_s < self._due_s and (self._is_failing or activity.state is self._reported):
                return
            self._due_s = now_s + INTERVAL_S
            self._attempt(activity.state, shorten_work(activity.work))
        except Exception as error:
            # A defect of lakelog; the service works on.
            self._fail(error, REFUSED_INTERVAL_S, exc_info=error)

    def leave(self) -> None:
        """Reports the end; never raises. If the metastore is away, the entry expires by itself."""
        if self._reported is None or self._is_failing:
            return
        try:
            self._attempt(ServiceState.STOPPED, ())
        except Exception as error:
            self._fail(error, REFUSED_INTERVAL_S, exc_info=error)

    def _run(self) -> None:
        while not self._ending.is_set():
            self.step()
            is_running = self._reported is ServiceState.RUNNING
            self._ending.wait(_RUNNING_INTERVAL_S if is_running else _STATE_INTERVAL_S)
        self.leave()

    def _attempt(self, state: ServiceState, work: tuple[str, ...]) -> None:
        uptime_ms = int((self._clock.monotonic_s() - self._began_s) * 1000)
        try:
            self._send(replace(self._report, state=state, work=work, uptime_ms=uptime_ms))
        except LakelogError as error:
            self._fail(error, INTERVAL_S if error.retryable else REFUSED_INTERVAL_S)
            return
        self._reported = state
        if self._is_failing:
            self._is_failing = False
            self._log.info("presence is reported again")

    def _fail(self, error: Exception, pause_s: float, **details: object) -> None:
        self._due_s = self._clock.monotonic_s() + pause_s
        if not self._is_failing:
            self._is_failing = True
            self._log.warning("presence is not reported: `lakelog status` may not show it", error=str(error), **details)


def make_presence(
    kind: str, metastore: Metastore, observe: Callable[[], Activity], log: Logger, *, host: str, port: int | None
) -> Presence:
    """The presence of a service that reports to a metastore.

    Args:
        kind: As of `Presence`.
        metastore: Gets the reports.
        observe: As of `Presence`.
        log: Gets the lines.
        host: Where its metrics are served.
        port: Their port; None: they are not served.
    """
    metrics = to_metrics_address(host, port)
    clock = SystemClock()
    return Presence(kind, metastore.report_presence, observe, metrics=metrics, ids=RandomIds(), clock=clock, log=log)


def shorten_work(work: Sequence[str]) -> tuple[str, ...]:
    """The entries as the metastore accepts them: at most `MAX_WORK` short ones; the last may count the rest."""
    shown = [_cut(" ".join(entry.replace("\0", " ").split()), MAX_WORK_CHARACTERS) for entry in work]
    shown = [entry for entry in shown if entry]
    if len(shown) <= MAX_WORK:
        return tuple(shown)
    return (*shown[: MAX_WORK - 1], f"{len(shown) - MAX_WORK + 1} more")


def to_metrics_address(host: str, port: int | None) -> str:
    """The address at which other machines find the metrics on a host and port; empty if there is no port."""
    if port is None:
        return ""
    # An address that means all interfaces is no address for others.
    reachable = socket.gethostname() if host in ("", "0.0.0.0", "::") else host
    return f"[{reachable}]:{port}" if ":" in reachable else f"{reachable}:{port}"


def _cut(text: str, longest: int) -> str:
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= longest else text[: longest - 1] + "…"
