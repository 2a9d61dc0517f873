"""What the commit gate's rules are about: the facts that they rest on, frozen, read while the heads are locked."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.format.commit.request import BucketRef, DroppedGroup
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.snapshot import LogContent, Snapshot, SnapshotKind


class AttemptState(enum.Enum):
    """Where an attempt is in its life; only OPEN ever changes."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(frozen=True)
class Attempt:
    """An attempt as the store knows it.

    Args:
        attempt_id: 32 hexadecimal digits.
        state: Where it is in its life.
        table_uuids: The tables it was opened for.
    """

    attempt_id: str
    state: AttemptState
    table_uuids: tuple[str, ...]


@dataclass(frozen=True)
class TableHead:
    """What moves with each commit of a table, and what a commit must fit. Times are milliseconds since the epoch.

    Args:
        table_id: The store's own number of the table; locks are taken in its order.
        table_uuid: The table.
        name: `database.table`, for messages.
        schema_id: What new files must be written with.
        bucket_count: Number of buckets; -1 for a table without buckets.
        partitioned: Whether the table has partition columns.
        latest_snapshot_id: 0 before the first commit.
        latest_uuid: That snapshot's uuid; empty before the first commit.
        earliest_snapshot_id: The oldest one kept; 1 before the first commit.
        committed_at_ms: When the newest snapshot was committed; 0 before the first.
        watermark_ms: The table's; None while no commit has given one.
        total_rows: In live files.
        total_files: That are live.
        total_bytes: Of live files.
        next_file_id: The id that the next file gets.
        first_pending_snapshot: The lowest snapshot whose changelog is pending; 0: there is none. It and the state
            before it are needed until its changelog is attached, so that nothing of them may expire.
        earliest_change_id: The oldest snapshot whose changes are kept, not above `earliest_snapshot_id`: changelogs may
            live longer than states (semantics 3.8).
        defers_changelog: The changelog producer is `full-compaction`: what commits change is told by full compactions.
        last_full_snapshot: The newest one in which a bucket was compacted as a whole; 0: none.
        log: Which files of an APPEND hold what the table's external log is to receive.
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
        """Up to and with this snapshot no changelog is open; it never falls."""
        return self.first_pending_snapshot - 1 if self.first_pending_snapshot else self.latest_snapshot_id


@dataclass(frozen=True)
class RecordedResult:
    """What was written down of a commit that was applied."""

    attempt_id: str
    snapshot_id: int | None
    snapshot_uuid: str
    committed_at_ms: int
    dropped: tuple[DroppedGroup, ...] = ()


@dataclass(frozen=True)
class WriterFacts:
    """What is known of a writer at one table.

    Args:
        result: Of the request's identifier; None: not applied.
        last_identifier: The highest one applied; None: none yet.
    """

    result: RecordedResult | None = None
    last_identifier: int | None = None


@dataclass(frozen=True, order=True)
class OrderKey:
    """A file's place in the order of its bucket; of files with one place the higher id is behind."""

    snapshot_id: int
    ordinal: int
    time_ms: int


@dataclass(frozen=True)
class FileFacts:
    """What is known of a file that a change names, or that is live in a bucket that it compacts.

    Args:
        file_id: The file.
        path: For messages.
        partition: Encoded.
        bucket: Its bucket.
        order_key: In the order.
        level: Its level.
        row_count: All rows.
        size_bytes: The file's size.
        min_key: Lower bound of its keys; None: unbounded.
        max_key: Upper bound of its keys; None: unbounded.
        schema_id: What it was written with.
        removed_snapshot: Which snapshot took it away; None: it is live.
        removed_by: Who committed that snapshot; empty when the file is live.
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

    @property
    def bucket_ref(self) -> BucketRef:
        """Where it is."""
        return BucketRef(self.partition, self.bucket)


@dataclass(frozen=True)
class CompactionFacts:
    """What a compaction is judged on.

    Args:
        files: Those of the named files that exist.
        live: All that is live in its buckets, the named files among it; empty where rows have no order.
        keyed: Whether the table has a primary key.
        baseline: Ids of those of the files that its groups name as told which are so.
    """

    files: Sequence[FileFacts] = ()
    live: Sequence[FileFacts] = ()
    keyed: bool = False
    baseline: frozenset[int] = frozenset()


@dataclass(frozen=True)
class BucketChange:
    """A snapshot that brought or took data of a bucket.

    Compactions, which change no row, are among them only for changes that know rows by their position.
    """

    bucket: BucketRef
    snapshot_id: int
    kind: SnapshotKind
    writer: str
    committed_at_ms: int


@dataclass(frozen=True)
class GuardFacts:
    """What is known of a table that is guarded.

    Args:
        table: The newest snapshot behind that of `if_snapshot` which changed rows; None: there is none.
        touched: The newest such snapshot behind that of `if_unchanged` in what the change touches; None: there is none.
        partition: Of `touched`, for people; empty in a table without partitions, and where the whole table is touched.
        bucket: Of `touched`; None: the table has no buckets, or the whole table is touched.
    """

    table: Snapshot | None = None
    touched: Snapshot | BucketChange | None = None
    partition: str = ""
    bucket: int | None = None


@dataclass(frozen=True)
class CommitFacts:
    """All that a verdict rests on, read while the heads are locked.

    Args:
        heads: By table uuid; a table that is missing does not exist.
        writers: By table uuid, for the request's writer.
        writer_epoch: The writer's; 0 when it never registered.
        attempt: The request's attempt; None when it is not known or none was named.
        lease_epochs: By lease name; a lease that is missing was never held.
        now_ms: The store's time, read while the heads are locked.
        files: By table uuid: those of the named files that exist.
        changes: By table uuid: what happened behind the base to the buckets that must be unchanged.
        compactions: By table uuid, for changes that compact.
        guards: By table uuid, for tables that are guarded.
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
    guards: Mapping[str, GuardFacts] | None = None


@dataclass(frozen=True)
class RemovedTotals:
    """What a change took away."""

    files: int = 0
    rows: int = 0
    size_bytes: int = 0


@dataclass(frozen=True)
class RestoredTotals:
    """What a change that restores a state took away, and what it gave new entries."""

    removed: RemovedTotals = RemovedTotals()
    files: int = 0
    rows: int = 0
    size_bytes: int = 0


@dataclass(frozen=True)
class PlacedFile:
    """A file with what the gate gave it."""

    file_id: int
    file: DataFile
    added_snapshot: int
    order_key: OrderKey


@dataclass(frozen=True)
class MovedFile:
    """A file that gets another level, or positions, as it is: its entry ends, and a new one of its path begins.

    Args:
        file_id: Of the new entry.
        source_id: Of the entry that ends; the new one has its path and place.
        level: Of the new entry.
        added_snapshot: The snapshot with which the one ends and the other begins.
        deletion_vector_path: Of the new entry, whatever the other one had.
    """

    file_id: int
    source_id: int
    level: int
    added_snapshot: int
    deletion_vector_path: str | None = None


@dataclass(frozen=True)
class BaselineChange:
    """What a snapshot changes of what a table's changelog has told.

    Args:
        snapshot_id: From it on this holds.
        begun: Ids of files whose rows are told.
        ended: Ids of files whose rows were told before.
    """

    snapshot_id: int
    begun: tuple[int, ...]
    ended: tuple[int, ...]


FIRST_LOG_ORDINAL: Final = 500_000_000
"""The place of a snapshot's first log segment: far behind its changelog files, which may be attached later."""


@dataclass(frozen=True)
class PlacedChangelogFile:
    """A changelog file or a log segment with its place among those of its snapshot."""

    file: DataFile
    snapshot_id: int
    ordinal: int
    time_ms: int

    @property
    def is_log(self) -> bool:
        """Whether it is a log segment, of which no stream of changes knows."""
        return self.ordinal >= FIRST_LOG_ORDINAL
