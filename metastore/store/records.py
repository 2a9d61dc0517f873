"""What goes into the store and comes out of it: rows and bundles of rows, frozen, without behaviour."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from lakelog.format.commit.facts import (
    Attempt,
    AttemptState,
    BaselineChange,
    MovedFile,
    PlacedChangelogFile,
    PlacedFile,
    RecordedResult,
    TableHead,
)
from lakelog.format.jobs.job import DueJob
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.format.types.schema import TableSchema


@dataclass(frozen=True)
class TableRecord:
    """A table of the catalog, with what only the metastore knows of it."""

    table_id: int
    info: TableInfo
    bucket_count: int


@dataclass(frozen=True)
class WorkCursor:
    """How far the work that commits make due has been planned for a table.

    Args:
        planned_until: All snapshots up to this one are planned.
        requested: How often planning was requested without a new snapshot.
    """

    planned_until: int = 0
    requested: int = 0


@dataclass(frozen=True)
class NewTable:
    """A table to be made; the store sets its number and time."""

    table_uuid: str
    name: TableName
    location: str
    schema: TableSchema
    options: Mapping[str, str]
    bucket_count: int
    comment: str


MAX_RIVALS: Final = 100
"""The most open attempts of a writer's other tries that its commit aborts; further ones wait for the clean-up."""


@dataclass(frozen=True)
class ResultKey:
    """What identifies a commit to one table."""

    table_uuid: str
    writer: str
    identifier: int


@dataclass(frozen=True)
class GroupKeys:
    """The records that a group of commits must read and lock; all distinct.

    Args:
        table_uuids: The tables.
        results: The commits.
        writers: The writers' names.
        attempts: The attempts.
        leases: Leases that fence commits, and those of jobs under whose names commits are made.
    """

    table_uuids: Sequence[str]
    results: Sequence[ResultKey]
    writers: Sequence[str]
    attempts: Sequence[str] = ()
    leases: Sequence[str] = ()


@dataclass(frozen=True)
class GroupFacts:
    """The facts for a group of commits. Things that do not exist are missing from the mappings.

    Args:
        now_ms: The store's time, read while the heads are locked.
        heads: By table uuid.
        results: The results of keys that were committed before.
        last_identifiers: The highest committed identifier, by table uuid and writer.
        epochs: By writer.
        attempts: By attempt id: the attempts of the keys, and open ones for the same writers' identifiers, at most
            `MAX_RIVALS` for each.
        leases: Epochs by lease name.
        owners: The owners of writers' names, and of held jobs; empty: the holder is not known.
    """

    now_ms: int
    heads: dict[str, TableHead]
    results: dict[ResultKey, RecordedResult]
    last_identifiers: dict[tuple[str, str], int]
    epochs: dict[str, int]
    attempts: dict[str, Attempt]
    leases: dict[str, int]
    owners: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NewResult:
    """The result of one change, to be kept forever."""

    table_id: int
    writer: str
    identifier: int
    result: RecordedResult
    properties: Mapping[str, str]


@dataclass
class GroupRecords:
    """All that a group of commits writes, in one call."""

    heads: list[TableHead] = field(default_factory=list)
    snapshots: list[tuple[int, Snapshot]] = field(default_factory=list)
    files: list[tuple[int, PlacedFile]] = field(default_factory=list)
    moved_files: list[tuple[int, MovedFile]] = field(default_factory=list)
    changelog_files: list[tuple[int, PlacedChangelogFile]] = field(default_factory=list)
    baseline: list[tuple[int, BaselineChange]] = field(default_factory=list)
    results: list[NewResult] = field(default_factory=list)
    attempts: dict[str, AttemptState] = field(default_factory=dict)
    jobs: dict[tuple[int, str, str], DueJob] = field(default_factory=dict)
    """By table, kind and scope."""
    claims: dict[str, str] = field(default_factory=dict)
    """By writer: the principal that owns the name from now on; it had no owner when the group was decided."""


@dataclass(frozen=True)
class Attachment:
    """Changelogs to be attached.

    Args:
        head: The table's head after the attachment.
        snapshot_ids: The snapshots.
        files: Their files.
        attempt_id: The attempt that wrote the files; the attachment commits it.
    """

    head: TableHead
    snapshot_ids: Sequence[int]
    files: Sequence[PlacedChangelogFile]
    attempt_id: str


@dataclass(frozen=True)
class FileQuery:
    """Which files of a table to load. All conditions must hold.

    Args:
        table_id: The table.
        live_at: Only files that are live at this snapshot; None: whether live or not.
        baseline_at: Only files whose rows the table's changelog has emitted up to this snapshot, whether live or not;
            nothing is said of other snapshots then. None: no such condition.
        added_after: Only files that a later snapshot than this one added.
        added_until: Only files that this or an earlier snapshot added; None: no bound.
        removed_after: Only files that a later snapshot than this one removed; None: no such condition.
        removed_until: With `removed_after`: only files that this or an earlier snapshot removed.
        partitions: Only files of these partitions, encoded; None: of all.
        buckets: Only files of these buckets; None: of all.
        first_key: Only files whose bounds reach up to it; None: unbounded.
        last_key: Only files whose bounds reach down to it; None: unbounded.
        below_bytes: Only files smaller than this; 0: of any size.
        levels: Only files of these levels; None: of all.
        with_statistics: Load the column `statistics` as well.
        of_log: Load log segments instead of changelog files.
    """

    table_id: int
    live_at: int | None = None
    added_after: int = 0
    added_until: int | None = None
    removed_after: int | None = None
    removed_until: int | None = None
    partitions: Collection[bytes] | None = None
    buckets: Collection[int] | None = None
    first_key: bytes | None = None
    last_key: bytes | None = None
    below_bytes: int = 0
    with_statistics: bool = False
    baseline_at: int | None = None
    of_log: bool = False
    levels: Collection[int] | None = None


@dataclass(frozen=True)
class Chunk:
    """A packed part of a table's file entries; immutable but for `without`.

    Args:
        chunk_id: Never used twice.
        order_after: The chunk holds files whose order snapshot is after this one,
        order_until: and at or before this one.
        part: Place among the chunks of one range; together they are in the order of a plan.
        file_count: Number of entries.
        max_added: The highest `added_snapshot` of its entries.
        first_key: The lowest bound of its files; None: unbounded.
        last_key: The highest bound of its files; None: unbounded.
        without: Ids of its files that were removed since it was packed.
        size_bytes: Size of the stored entries.
    """

    chunk_id: int
    order_after: int
    order_until: int
    part: int
    file_count: int
    max_added: int
    first_key: bytes | None
    last_key: bytes | None
    without: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True)
class NewChunk:
    """A chunk to be stored; `entries` is an Arrow IPC stream with FILE_SCHEMA, `statistics` the files' as one too."""

    order_after: int
    order_until: int
    part: int
    file_count: int
    max_added: int
    first_key: bytes | None
    last_key: bytes | None
    entries: bytes
    statistics: bytes


@dataclass(frozen=True)
class Packed:
    """A table's chunks, in the order of a plan, and the snapshot up to which they are complete."""

    packed_until: int
    chunks: tuple[Chunk, ...]
