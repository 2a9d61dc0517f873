"""What the store in memory holds."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakelog.format.commit.facts import Attempt, PlacedChangelogFile, PlacedFile, RecordedResult, TableHead
from lakelog.format.commit.request import BucketRef
from lakelog.format.compaction.commit_count import CommitsSinceFull
from lakelog.format.jobs.job import Job
from lakelog.format.jobs.job_run import JobRun
from lakelog.format.jobs.presence import ServiceReport
from lakelog.format.jobs.waiting_work import WaitingWork
from lakelog.format.jobs.work import Pipeline
from lakelog.format.log.state import SnapshotOffsets
from lakelog.format.retention.consumer import Consumer
from lakelog.format.retention.expiry import SnapshotLease
from lakelog.format.retention.tag import Tag
from lakelog.format.tables.grant import GrantLevel
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.types.schema import TableSchema

from ..store.due import Backlog
from ..store.grants import GrantScope
from ..store.logs import LogTopic
from ..store.publishing import Published
from ..store.records import NewChunk, NewTable
from ..store.retention import ExpiryState


@dataclass
class StoredFile:
    """A file and which snapshot removed it."""

    placed: PlacedFile
    removed_snapshot: int | None = None


@dataclass
class StoredResult:
    """A result and the properties of its commit."""

    result: RecordedResult
    properties: dict[str, str]


@dataclass
class StoredChunk:
    """A chunk and what its table removed since."""

    chunk_id: int
    chunk: NewChunk
    without: tuple[int, ...] = ()


@dataclass
class StoredTable:
    """A table with all that belongs to it. Snapshot `n` is at index `n - 1`, also when it has expired."""

    table_id: int
    new: NewTable
    options: dict[str, str]
    created_at_ms: int
    head: TableHead
    schemas: list[TableSchema]
    dropped_at_ms: int | None = None
    kept_until_ms: int = 0
    purged: bool = False
    database_gone: bool = False
    snapshots: list[Snapshot] = field(default_factory=list)
    files: dict[int, StoredFile] = field(default_factory=dict)
    changelog_files: list[PlacedChangelogFile] = field(default_factory=list)
    baseline: dict[tuple[int, int], int | None] = field(default_factory=dict)
    """The snapshot until which a file is in the baseline, by its id and the snapshot from which on it is."""
    full_count: CommitsSinceFull | None = None
    results: dict[tuple[str, int], StoredResult] = field(default_factory=dict)
    last_identifiers: dict[str, int] = field(default_factory=dict)
    chunks: list[StoredChunk] = field(default_factory=list)
    packed_until: int = 0
    expired: frozenset[int] = frozenset()
    leases: dict[str, SnapshotLease] = field(default_factory=dict)
    lease_owners: dict[str, str] = field(default_factory=dict)
    """By the leases' holders."""
    expiry: ExpiryState = field(default_factory=ExpiryState)
    expired_paths: dict[str, int] = field(default_factory=dict)
    """When each file was listed, in milliseconds since the epoch."""
    published: Published | None = None
    log_offsets: dict[tuple[int, int], SnapshotOffsets] = field(default_factory=dict)
    """By the log's generation and the snapshot."""


@dataclass
class StoredLease:
    """A lease."""

    epoch: int
    holder: str
    deadline_ms: int
    owner: str = ""


@dataclass(frozen=True)
class StoredService:
    """What a service reported last, when it started, and when it reported."""

    report: ServiceReport
    started_at_ms: int
    reported_at_ms: int


@dataclass(frozen=True)
class StoredWorkCursor:
    """How far a table's work was planned, and how many requests to plan were made and heard."""

    planned_until: int = 0
    requested: int = 0
    answered: int = 0


@dataclass(frozen=True)
class StoredJob:
    """A job, when it is due or its deadline passes, and when its holder took it; 0: it has none."""

    job: Job
    table_id: int
    due_at_ms: int
    leased_at_ms: int = 0


@dataclass(frozen=True)
class StoredGrant:
    """A grant, without its caller and its scope."""

    level: GrantLevel
    granted_by: str
    granted_at_ms: int


@dataclass(frozen=True)
class StoredTopic:
    """A generation of a log, and when it was recorded."""

    topic: LogTopic
    changed_at_ms: int


@dataclass(frozen=True)
class StoredWork:
    """A measurement of waiting work, and when it was made."""

    measured_at_ms: int
    took_ms: int
    work: WaitingWork


@dataclass
class State:
    """Everything."""

    databases: dict[str, str] = field(default_factory=dict)
    tables: list[StoredTable] = field(default_factory=list)
    epochs: dict[str, int] = field(default_factory=dict)
    writer_owners: dict[str, str] = field(default_factory=dict)
    writer_times: dict[str, int] = field(default_factory=dict)
    attempts: dict[str, Attempt] = field(default_factory=dict)
    attempt_times: dict[str, int] = field(default_factory=dict)
    attempt_renewals: dict[str, int] = field(default_factory=dict)
    leases: dict[str, StoredLease] = field(default_factory=dict)
    pipelines: dict[str, Pipeline] = field(default_factory=dict)
    pipeline_owners: dict[str, str] = field(default_factory=dict)
    services: dict[str, StoredService] = field(default_factory=dict)
    consumers: dict[tuple[int, str], Consumer] = field(default_factory=dict)
    consumer_owners: dict[tuple[int, str], str] = field(default_factory=dict)
    tags: dict[tuple[int, str], Tag] = field(default_factory=dict)
    grants: dict[tuple[str, GrantScope], StoredGrant] = field(default_factory=dict)
    jobs: dict[int, StoredJob] = field(default_factory=dict)
    backlogs: dict[tuple[int, BucketRef], Backlog] = field(default_factory=dict)
    work_cursors: dict[int, StoredWorkCursor] = field(default_factory=dict)
    log_topics: dict[tuple[str, int], StoredTopic] = field(default_factory=dict)
    measured_work: StoredWork | None = None
    job_runs: dict[int, tuple[int, JobRun]] = field(default_factory=dict)
    """With the ids of their tables, by their own ids, the oldest first."""
    last_job_id: int = 0
    last_run_id: int = 0
    last_chunk_id: int = 0
