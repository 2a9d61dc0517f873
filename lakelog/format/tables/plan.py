"""What is asked for a plan and what a plan holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from lakelog.format.tables.predicate import Predicate
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.schema import TableSchema


@dataclass(frozen=True)
class AtSnapshot:
    """The state at this snapshot."""

    snapshot_id: int


@dataclass(frozen=True)
class AtTime:
    """The state at the newest snapshot committed at or before this time, in milliseconds since the epoch."""

    timestamp_ms: int


@dataclass(frozen=True)
class AtTag:
    """The state at the snapshot that has this tag."""

    name: str


@dataclass(frozen=True)
class InRange:
    """What the snapshots behind `after` up to and with `until` added."""

    after: int
    until: int


@dataclass(frozen=True)
class PlanRequest:
    """Which files of a table to list.

    Args:
        table_uuid: The table.
        at: A state or a range; None: the newest snapshot.
        predicate: Leave out files that surely hold no match.
        buckets: Only these; empty: all.
        partitions: Only these, encoded, all columns; empty: all.
        first_key: Only files with keys at or above it; None: unbounded.
        last_key: Only files with keys at or below it; None: unbounded.
        changelog: With a range: list the changelog files of its snapshots instead of their data files. Each of their
            rows stands for itself, so the predicate may then be on any column, also where there is a primary key.
        below_bytes: With a state: only files smaller than this; 0: of any size.
        added_after: With a state: only files that a later snapshot than this one added.
        baseline: With a state, or none: list the files of what streams have been shown by then, on which later changes
            lead on. It is the state itself but where full compactions emit changes (semantics 3.6): there it is what
            they have emitted, of files that may not be live any more.
        log: With a range: list the files that hold what its snapshots bring to the external log (`Snapshot.log`),
            instead of their data files. Those of a snapshot whose log is its changelog, while that is open, are not
            there.
    """

    table_uuid: str
    at: AtSnapshot | AtTime | AtTag | InRange | None = None
    predicate: Predicate | None = None
    buckets: tuple[int, ...] = ()
    partitions: tuple[bytes, ...] = ()
    first_key: bytes | None = None
    last_key: bytes | None = None
    changelog: bool = False
    below_bytes: int = 0
    added_after: int = 0
    baseline: bool = False
    log: bool = False


@dataclass(frozen=True)
class Plan:
    """The files a read must look at.

    Args:
        table: The table, as it is now.
        schema: What to read with.
        file_schemas: Every schema that a file was written with, by id.
        snapshot: What is read, or the last of the range; None for a table without snapshots.
        files: One row a file, with the columns of `lakelog.format.tables.files.FILE_SCHEMA`, ordered by (partition,
            bucket, order snapshot, order ordinal).
        range_snapshots: With a range: its snapshots in rising order.
    """

    table: TableInfo
    schema: TableSchema
    file_schemas: Mapping[int, TableSchema]
    snapshot: Snapshot | None
    files: pa.Table
    range_snapshots: tuple[Snapshot, ...] = field(default=())
