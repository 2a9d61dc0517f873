"""Presence: which service processes there are, as they report it and as they are listed."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

METASTORE: Final = "metastore"
WRITER: Final = "writer"
PUBLISHER: Final = "publisher"
COMPACTOR: Final = "compactor"
READER: Final = "reader"
"""The kinds of our services. On the wire a kind is text, so that an old client can show a new kind."""

MAX_WORK: Final = 16
"""Entries of what a service works at."""

MAX_WORK_CHARACTERS: Final = 200
MAX_NAME_CHARACTERS: Final = 256
"""Of host, version and address of metrics: the longest host name has 253 characters."""

MIN_TTL_MS: Final = 1_000
MAX_TTL_MS: Final = 600_000

GONE_RETAINED_MS: Final = 600_000
"""For so long a service that does not report any more is listed as gone: long enough to be noticed by people."""


class ServiceState(enum.Enum):
    """What a service reports of itself."""

    STARTING = "starting"
    """It prepares, or waits until another instance leaves work to it."""
    RUNNING = "running"
    DRAINING = "draining"
    """It was told to end, and completes what it has begun."""
    STOPPED = "stopped"
    """It has ended in good order: the report takes its entry out, so no listed service has this state."""


class Liveness(enum.Enum):
    """What the reports of a service, or their absence, say."""

    PRESENT = "present"
    SILENT = "silent"
    """Several reports are missing."""
    GONE = "gone"
    """Its time is over. It was killed, or cannot reach the metastore."""


@dataclass(frozen=True)
class ServiceReport:
    """A service's report that it is there.

    Args:
        kind: Which service, for instance `compactor`.
        instance_id: This process: 32 lower-case hexadecimal digits, new at each start.
        host: The machine's name.
        pid: The process's number on that machine.
        version: Of lakelog.
        state: What it does.
        work: What it works at, for people: names of pipelines, tables, a job. Short.
        metrics: `host:port` of its metrics; empty: it has none.
        uptime_ms: For how long it has run.
        ttl_ms: For how long this report holds without another one.
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
    """A service process that reports, or did so until lately.

    Args:
        kind: `metastore`, `writer`, `publisher`, `compactor` or `reader`.
        instance_id: This process: 32 lower-case hexadecimal digits, new at each start.
        host: The machine's name.
        pid: The process's number on that machine.
        version: Of lakelog.
        state: What it reported last.
        work: What it works at: names of pipelines, streams or tables, or a job.
        metrics: `host:port` of its metrics; empty: it has none.
        started_at_ms: When it started, in milliseconds since the epoch by the metastore's clock.
        silent_ms: How long ago it reported, by the metastore's clock.
        ttl_ms: For how long its last report holds.
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
        """Whether it is there: half of its time without a report is silence, all of it the end."""
        if self.silent_ms >= self.ttl_ms:
            return Liveness.GONE
        return Liveness.SILENT if self.silent_ms >= self.ttl_ms // 2 else Liveness.PRESENT
