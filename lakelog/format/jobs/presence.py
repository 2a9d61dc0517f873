"""Presence: the service processes, as they report and as they are listed."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

METASTORE: Final = "metastore"
WRITER: Final = "writer"
PUBLISHER: Final = "publisher"
COMPACTOR: Final = "compactor"
READER: Final = "reader"
CONSOLE: Final = "console"
"""The kinds of our services. On the wire a kind is text, so that an old client can show a new kind."""

MAX_WORK: Final = 16
"""Entries in a service's list of work."""

MAX_WORK_CHARACTERS: Final = 200
MAX_NAME_CHARACTERS: Final = 256
"""Length of host, version and address of metrics: the longest host name has 253 characters."""

MIN_TTL_MS: Final = 1_000
MAX_TTL_MS: Final = 600_000

GONE_RETAINED_MS: Final = 600_000
"""How long a service that stopped reporting is listed as gone: long enough for people to notice."""


class ServiceState(enum.Enum):
    """The state that a service reports of itself."""

    STARTING = "starting"
    """It prepares, or waits until another instance leaves work to it."""
    RUNNING = "running"
    DRAINING = "draining"
    """It received a request to end, and completes what it has begun."""
    STOPPED = "stopped"
    """It has ended in good order: this report removes its entry, so no listed service has this state."""


class Liveness(enum.Enum):
    """What the reports of a service, or their absence, show."""

    PRESENT = "present"
    SILENT = "silent"
    """Several reports are missing."""
    GONE = "gone"
    """Its time is over. It was killed, or cannot reach the metastore."""


@dataclass(frozen=True)
class ServiceReport:
    """A service's report that it runs.

    Args:
        kind: Which service, for instance `compactor`.
        instance_id: This process: 32 lower-case hexadecimal digits, new at each start.
        host: The machine's name.
        pid: The process's number on that machine.
        version: The version of lakelog.
        state: What it does.
        work: What it works on, for people: names of pipelines, tables, a job. Short.
        metrics: `host:port` of its metrics; empty: it has none.
        uptime_ms: How long it has run.
        ttl_ms: How long this report is valid without another one.
    """

    kind: str
    instance_id: str
    host: str
    pid: int
    version: str
    state: ServiceState
    work: tuple[str, ...]
    metrics: str
    uptime_ms: int
    ttl_ms: int


@dataclass(frozen=True)
class Service:
    """A service process that reports, or did so recently.

    Args:
        kind: `metastore`, `writer`, `publisher`, `compactor`, `reader` or `console`.
        instance_id: This process: 32 lower-case hexadecimal digits, new at each start.
        host: The machine's name.
        pid: The process's number on that machine.
        version: The version of lakelog.
        state: The state that it reported last.
        work: What it works on: names of pipelines, streams or tables, or a job.
        metrics: `host:port` of its metrics; empty: it has none.
        started_at_ms: When it started, in milliseconds since the epoch by the metastore's clock.
        silent_ms: How long ago it reported, by the metastore's clock.
        ttl_ms: How long its last report is valid.
    """

    kind: str
    instance_id: str
    host: str
    pid: int
    version: str
    state: ServiceState
    work: tuple[str, ...]
    metrics: str
    started_at_ms: int
    silent_ms: int
    ttl_ms: int

    @property
    def liveness(self) -> Liveness:
        """Its liveness: after half of its time without a report it is silent, after all of it gone."""
        if self.silent_ms >= self.ttl_ms:
            return Liveness.GONE
        return Liveness.SILENT if self.silent_ms >= self.ttl_ms // 2 else Liveness.PRESENT


def find_successors(services: Sequence[Service], now_ms: int) -> dict[str, Service]:
    """Finds the processes that have taken the place of those that do not report any more. Pure.

    Whatever runs services starts another one where one has died, which is listed for `GONE_RETAINED_MS` yet. A process
    takes the place of one other: if two have died and one was started, the second is still missed.

    Args:
        services: All that are listed.
        now_ms: The metastore's time.

    Returns:
        By the instance that is silent or gone, the process of its kind on its machine that started after its last
        report. It may be gone, too, and then has a successor of its own or is missed itself.
    """
    free = list(services)
    found: dict[str, Service] = {}
    for each in sorted(services, key=lambda service: service.silent_ms):
        later = (
            other
            for other in free
            if (other.kind, other.host) == (each.kind, each.host)
            # By the metastore's clock, both.
            and other.started_at_ms > now_ms - each.silent_ms
        )
        successor = None if each.liveness is Liveness.PRESENT else next(later, None)
        if successor is not None:
            found[each.instance_id] = successor
            free.remove(successor)
    return found
