"""The facts for the rules of the commit gate, frozen, read while the heads are locked."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.format.commit.request import BucketRef, DroppedGroup
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.snapshot import LogContent, Snapshot, SnapshotKind
from lakelog.format.types.schema import TableSchema


class AttemptState(enum.Enum):
    """The state of an attempt; only OPEN ever changes."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(frozen=True)
class Attempt:
    """An attempt in the metastore's records.

    Args:
        attempt_id: 32 hexadecimal digits.
        state: Its state.
        table_uuids: The tables it was opened for.
        writer: The writer that opened it.
        identifier: The writer's number of the commit that it is for; None: the writer gave none.
        epoch: With `identifier`: the writer's epoch.
        owner: The principal that opened it; empty: every principal may use it.
    """

    attempt_id: str
    state: AttemptState
    table_uuids: tuple[str, ...]
    writer: str = ""
    identifier: int | None = None
    epoch: int = 0
    owner: str = ""


@dataclass(frozen=True)
class SentAttempt:
    """An attempt whose rows may have been sent to a log before its commit.

    Args:
        state: Its state. Also ABORTED if its commit was applied by another attempt, or its writer has a higher epoch.
        is_silent: It is open, and its writer has not reported for some seconds; perhaps it is dead.
        opened_ms: When it was opened, in milliseconds since the epoch, by the metastore's clock; 0: not known.
    """

    state: AttemptState
    is_silent: bool = False
    opened_ms: int = 0


@dataclass(frozen=True)
class TableHead:
    """The part of a table that each commit changes, and what a commit must fit. Times are milliseconds since the epoch.

    Args:
        table_id: The store's own number of the table; locks are taken in this order.
        table_uuid: The table.
        name: `database.table`, for messages.
        schema_id: The schema that new files must be written with.
        bucket_count: Number of buckets; -1 for a table without buckets.
        partitioned: Whether the table has partition columns.
        latest_snapshot_id: The newest snapshot; 0 before the first commit.
        latest_uuid: That snapshot's uuid; empty before the first commit.
        earliest_snapshot_id: The oldest retained snapshot; 1 before the first commit.
        committed_at_ms: When the newest snapshot was committed; 0 before the first.
        watermark_ms: The table's watermark; None while no commit has given one.
        total_rows: Rows in live files.
        total_files: The number of live files.
        total_bytes: The size of live files.
        next_file_id: The id that the next file gets.
        first_pending_snapshot: The lowest snapshot with a pending changelog; 0: there is none. It and the state before
            it must not expire until its changelog is attached.
        earliest_change_id: The oldest snapshot whose changes are retained, not above `earliest_snapshot_id`: changelogs
            may live longer than states (semantics 3.8).
        defers_changelog: The changelog producer is `full-compaction`: full compactions emit what commits change.
        last_full_snapshot: The newest one in which a bucket was compacted as a whole; 0: none.
        log: Which files of an APPEND hold the rows for the table's external log.
    """

    table_id: int
    table_uuid: str
    name: str
    schema_id: int
    bucket_count: int
    partitioned: bool
    latest_snapshot_id: int = 0
    latest_uuid: str = ""
    earliest_snapshot_id: int = 1
    committed_at_ms: int = 0
    watermark_ms: int | None = None
    total_rows: int = 0
    total_files: int = 0
    total_bytes: int = 0
    next_file_id: int = 1
    first_pending_snapshot: int = 0
    earliest_change_id: int = 1
    defers_changelog: bool = False
    last_full_snapshot: int = 0
    log: LogContent = LogContent.NONE

    @property
    def complete_until(self) -> int:
        """No changelog is pending up to and including this snapshot; it never falls."""
        return self.first_pending_snapshot - 1 if self.first_pending_snapshot else self.latest_snapshot_id


@dataclass(frozen=True)
class RecordedResult:
    """The stored result of a commit that was applied."""

    attempt_id: str
    snapshot_id: int | None
    snapshot_uuid: str
    committed_at_ms: int
    dropped: tuple[DroppedGroup, ...] = ()


@dataclass(frozen=True)
class WriterFacts:
    """The facts about a writer at one table.

    Args:
        result: The result for the request's identifier; None: not applied.
        last_identifier: The highest identifier applied; None: none yet.
    """

    result: RecordedResult | None = None
    last_identifier: int | None = None


@dataclass(frozen=True, order=True, slots=True)
class OrderKey:
    """A file's place in the order of its bucket; of files with one place the higher id is later."""

    snapshot_id: int
    ordinal: int
    time_ms: int


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The facts about a file that a change names, or that is live in a bucket that it compacts.

    Args:
        file_id: The file.
        path: Its path, for messages.
        partition: Its encoded partition.
        bucket: Its bucket.
        order_key: Its place in the order.
        level: Its level.
        row_count: All rows.
        size_bytes: The file's size.
        min_key: Lower bound of its keys; None: unbounded.
        max_key: Upper bound of its keys; None: unbounded.
        schema_id: The schema it was written with.
        removed_snapshot: The snapshot that removed it; None: it is live.
        removed_by: The writer of that snapshot; empty if the file is live.
        delete_count: As `lakelog.format.tables.files.DataFile` has it.
        deletion_vector_path: As `delete_count`.
    """

    file_id: int
    path: str
    partition: bytes
    bucket: int
    order_key: OrderKey
    level: int
    row_count: int
    size_bytes: int
    min_key: bytes | None
    max_key: bytes | None
    schema_id: int
    removed_snapshot: int | None = None
    removed_by: str = ""
    delete_count: int = 0
    deletion_vector_path: str | None = None

    @property
    def bucket_ref(self) -> BucketRef:
        """Its bucket."""
        return BucketRef(self.partition, self.bucket)


@dataclass(frozen=True)
class CompactionFacts:
    """The facts for judging a compaction.

    Args:
        files: The named files that exist.
        live: All live files of its buckets, including the named ones; empty if rows have no order.
        keyed: Whether the table has a primary key.
        baseline: Ids of the files that its groups name as part of the baseline, and that are in it.
    """

    files: Sequence[FileFacts] = ()
    live: Sequence[FileFacts] = ()
    keyed: bool = False
    baseline: frozenset[int] = frozenset()


@dataclass(frozen=True)
class BucketChange:
    """A snapshot that added or removed data of a bucket.

    Compactions, which change no row, are included only for changes that identify rows by their position.
    """

    bucket: BucketRef
    snapshot_id: int
    kind: SnapshotKind
    writer: str
    committed_at_ms: int


@dataclass(frozen=True)
class GuardedChange:
    """A change of what a guard covers.

    Args:
        change: Who changed rows, and when.
        place: Where, for people: a bucket, a partition, or a bucket of a partition; empty: in the whole table.
    """

    change: Snapshot | BucketChange
    place: str = ""


@dataclass(frozen=True)
class GuardFacts:
    """The facts about a guard of a table.

    Args:
        change: The newest change after `if_snapshot` in what is guarded; None: nothing has changed since.
        base_uuid: The uuid of the snapshot with the id of `if_snapshot`; empty: not asked for, or not known any more.
    """

    change: GuardedChange | None = None
    base_uuid: str = ""


@dataclass(frozen=True)
class CommitFacts:
    """All facts for a verdict, read while the heads are locked.

    Args:
        heads: By table uuid; a table that is missing does not exist.
        writers: By table uuid, for the request's writer.
        writer_epoch: The writer's epoch; 0 if it never registered.
        attempt: The request's attempt; None if it is not known or none was named.
        lease_epochs: By lease name; a missing lease was never held.
        now_ms: The store's time, read while the heads are locked.
        files: By table uuid: the named files that exist.
        changes: By table uuid: what happened after the base to the buckets that must be unchanged.
        compactions: By table uuid, for changes that compact.
        guards: Of the request's guards, in their order.
        touched: By table uuid: the newest change after `if_unchanged` in what the change touches.
        bases: By table uuid: the uuid of the snapshot with the id of the change's base, if it is still known.
        schemas: By table uuid, for changes whose schema is not the head's: the versions of the schema by id.
    """

    heads: Mapping[str, TableHead]
    writers: Mapping[str, WriterFacts]
    writer_epoch: int = 0
    attempt: Attempt | None = None
    lease_epochs: Mapping[str, int] | None = None
    now_ms: int = 0
    files: Mapping[str, Sequence[FileFacts]] | None = None
    changes: Mapping[str, Sequence[BucketChange]] | None = None
    compactions: Mapping[str, CompactionFacts] | None = None
    guards: Sequence[GuardFacts] = ()
    touched: Mapping[str, GuardedChange] | None = None
    bases: Mapping[str, str] | None = None
    schemas: Mapping[str, Mapping[int, TableSchema]] | None = None


@dataclass(frozen=True)
class RemovedTotals:
    """What a change removed."""

    files: int = 0
    rows: int = 0
    size_bytes: int = 0


@dataclass(frozen=True)
class RestoredTotals:
    """What a change that restores a state removed, and which files it gave new entries."""

    removed: RemovedTotals = RemovedTotals()
    files: int = 0
    rows: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A file with what the gate assigned to it."""

    file_id: int
    file: DataFile
    added_snapshot: int
    order_key: OrderKey


@dataclass(frozen=True, slots=True)
class MovedFile:
    """A file that gets another level, or positions, and is otherwise unchanged: its entry ends, and a new one begins.

    Args:
        file_id: The id of the new entry.
        source_id: The id of the old entry; the new one has its path and place.
        level: The level of the new entry.
        added_snapshot: The snapshot with which the old entry ends and the new one begins.
        deletion_vector_path: The path of the new entry, whatever the old one had.
        delete_count: That of the new entry; None: as the old one has it.
    """

    file_id: int
    source_id: int
    level: int
    added_snapshot: int
    deletion_vector_path: str | None = None
    delete_count: int | None = None


@dataclass(frozen=True)
class BaselineChange:
    """How a snapshot changes a table's changelog baseline.

    Args:
        snapshot_id: The snapshot from which on this is valid.
        begun: Ids of files that join the baseline.
        ended: Ids of files that leave it.
    """

    snapshot_id: int
    begun: tuple[int, ...]
    ended: tuple[int, ...]


FIRST_LOG_ORDINAL: Final = 500_000_000
"""The place of a snapshot's first log segment: far after its changelog files, which may be attached later."""


@dataclass(frozen=True, slots=True)
class PlacedChangelogFile:
    """A changelog file or a log segment with its place among those of its snapshot."""

    file: DataFile
    snapshot_id: int
    ordinal: int
    time_ms: int

    @property
    def is_log(self) -> bool:
        """Whether it is a log segment, which streams of changes do not use."""
        return self.ordinal >= FIRST_LOG_ORDINAL
