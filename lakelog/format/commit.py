"""What is asked of the commit gate and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakelog.format.files import DataFile
from lakelog.format.snapshot import ChangelogState, SnapshotKind
from lakelog.format.table import TableInfo


@dataclass(frozen=True)
class RemoveFiles:
    """Take these files away; each must be live."""

    file_ids: tuple[int, ...]


@dataclass(frozen=True)
class RemoveEverything:
    """Take away all that is live when the commit takes effect."""


@dataclass(frozen=True)
class RemovePartitions:
    """Take away all that is then live in exactly these partitions (encoded, all columns)."""

    partitions: tuple[bytes, ...]


@dataclass(frozen=True)
class RemovePartitionValues:
    """Take away all that is then live in the partitions that have these encoded values, by partition column."""

    values: Mapping[str, bytes]


Removal = RemoveFiles | RemoveEverything | RemovePartitions | RemovePartitionValues


@dataclass(frozen=True)
class BucketRef:
    """A bucket of an encoded partition."""

    partition: bytes
    bucket: int


@dataclass(frozen=True)
class Change:
    """One table's part of a commit; it makes one snapshot.

    Args:
        table_uuid: The table.
        kind: What the snapshot will be.
        schema_id: What the files were written with; must be the table's current schema.
        bucket_count: What the files were written for; must be the table's.
        add_files: In the order that decides between rows of one key.
        remove: Live files to take away; None: none.
        base_snapshot_id: What the change was made against; None: it assumes nothing.
        unchanged_buckets: With a base: refuse when one of these got other data since.
        watermark_ms: A watermark; None: none.
        properties: To remember with the snapshot.
        allow_empty: Make a snapshot even where nothing is added or removed.
        changelog: Whether the change says all that it changes.
        changelog_files: Where it does: the change rows, in files as `add_files` has them, each with a `_row_kind`.
    """

    table_uuid: str
    kind: SnapshotKind
    schema_id: int
    bucket_count: int
    add_files: tuple[DataFile, ...] = ()
    remove: Removal | None = None
    base_snapshot_id: int | None = None
    unchanged_buckets: tuple[BucketRef, ...] = ()
    watermark_ms: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    allow_empty: bool = False
    changelog: ChangelogState = ChangelogState.NONE
    changelog_files: tuple[DataFile, ...] = ()


@dataclass(frozen=True)
class Fence:
    """A lease that a commit depends on."""

    lease: str
    epoch: int


@dataclass(frozen=True)
class CommitRequest:
    """A commit to one or more tables, all or nothing, idempotent by (table, writer, identifier).

    Args:
        writer: Who commits.
        identifier: The writer's own number of this commit.
        changes: At most one for a table, at least one.
        attempt_id: Under which the files were written; empty where no file is added.
        previous_identifier: For a writer that numbers densely: what its last must be; None: no check.
        epoch: The writer's; 0 for one that never registered.
        fences: Leases that must still have these epochs.
    """

    writer: str
    identifier: int
    changes: tuple[Change, ...]
    attempt_id: str = ""
    previous_identifier: int | None = None
    epoch: int = 0
    fences: tuple[Fence, ...] = ()


@dataclass(frozen=True)
class ChangeResult:
    """What became of one change: the snapshot it made, or None where there was nothing to commit."""

    table_uuid: str
    snapshot_id: int | None
    snapshot_uuid: str = ""
    committed_at_ms: int = 0


@dataclass(frozen=True)
class CommitResult:
    """What became of a commit.

    Args:
        attempt_id: The attempt that won; another than the request's: it had been applied before.
        results: One for each change, in the request's order.
    """

    attempt_id: str
    results: tuple[ChangeResult, ...]


@dataclass(frozen=True)
class StagedAttempt:
    """An open attempt.

    Args:
        attempt_id: 32 hexadecimal digits; part of the path of each file that the attempt writes.
        tables: Those that were named when it was staged, in that order, as they were then.
        further_ids: Attempts that were opened with it for the same tables, where more than one was asked for.
    """

    attempt_id: str
    tables: tuple[TableInfo, ...]
    further_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class WriterProgress:
    """What a writer has committed last to a table; identifiers and snapshot are None where there is nothing."""

    last_identifier: int | None
    snapshot_id: int | None
    properties: Mapping[str, str]
    epoch: int
