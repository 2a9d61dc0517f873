"""The request for a plan, and the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
    """The state at the snapshot with this tag."""

    name: str


@dataclass(frozen=True)
class InRange:
    """What the snapshots after `after` up to and including `until` added."""

    after: int
    until: int


@dataclass(frozen=True)
class PlanRequest:
    """Which files of a table to list.

    Args:
        table_uuid: The table.
        at: A state or a range; None: the newest snapshot.
        predicate: Exclude files that surely hold no match.
        buckets: Only these; empty: all.
        partitions: Only these, encoded, all columns; empty: all.
        first_key: Only files with keys at or above it; None: unbounded.
        last_key: Only files with keys at or below it; None: unbounded.
        changelog: With a range: list the changelog files of its snapshots instead of their data files. Each of their
            rows is independent, so the predicate may then be on any column, also if there is a primary key.
        below_bytes: With a state: only files smaller than this; 0: of any size.
        added_after: With a state: only files that a later snapshot than this one added.
        baseline: With a state, or none: list the files of what streams have shown by then, to which later changes
            apply. It is the state itself, unless full compactions emit changes (semantics 3.6): then it is what they
            have emitted, in files that may no longer be live.
        log: With a range: list the files with the rows that its snapshots bring to the external log (`Snapshot.log`),
            instead of their data files. A snapshot whose log is its changelog has no files while that is pending.
        levels: Only files of these levels; empty: of all.
        with_statistics: Also list the column statistics of the files, in the column `STATISTICS_FIELD`.
        reads_changed_columns: Whether the caller reads files of earlier schemas as this version does. A client from
            before columns could change does not, and gets no plan of a table whose columns were changed, or of a state
            of an append table from which rows were removed by position.
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
    levels: tuple[int, ...] = ()
    with_statistics: bool = False
    reads_changed_columns: bool = True


@dataclass(frozen=True)
class PlanHeader:
    """A plan without its files.

    Args:
        table: The table as it is read: with the schema to read with, and options that name columns as it does.
        schema: The schema to read with.
        file_schemas: By id: the schema to read with, those of the snapshots that the plan names, and with `log` every
            schema that a file was written with.
        snapshot: The snapshot to read, or the last of the range; None for a table without snapshots.
        range_snapshots: With a range: its snapshots in rising order.
    """

    table: TableInfo
    schema: TableSchema
    file_schemas: Mapping[int, TableSchema]
    snapshot: Snapshot | None
    range_snapshots: tuple[Snapshot, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Plan(PlanHeader):
    """The files that a read must consider.

    Args:
        files: One row per file, with the columns of `lakelog.format.tables.files.FILE_SCHEMA`, and with
            `STATISTICS_FIELD` if it was requested; ordered by (partition, bucket, order snapshot, order ordinal).
    """

    files: pa.Table
