"""What is asked of the commit gate and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from lakelog.format.tables.files import DataFile
from lakelog.format.tables.snapshot import ChangelogState, LogContent, SnapshotKind
from lakelog.format.tables.table import TableInfo


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


@dataclass(frozen=True)
class RestoreState:
    """Make an earlier state the state again.

    What is live when the commit takes effect and was not at that state is taken away; what was live at it and is not
    any more gets a new entry, with its old path, level and place in the order.

    Args:
        snapshot_id: The state at this snapshot; None: at the one that `tag` names.
        tag: Empty: at `snapshot_id`.
    """

    snapshot_id: int | None = None
    tag: str = ""


Removal = RemoveFiles | RemoveEverything | RemovePartitions | RemovePartitionValues | RestoreState


@dataclass(frozen=True)
class BucketRef:
    """A bucket of an encoded partition."""

    partition: bytes
    bucket: int


@dataclass(frozen=True)
class TimeWindow:
    """Times of a commit for which something holds that was told before it: above one, and not above another.

    Args:
        after_ms: It must be later; milliseconds since the epoch by the database's clock; None: any.
        until_ms: It must not be later; None: any.
    """

    after_ms: int | None = None
    until_ms: int | None = None

    def holds(self, time_ms: int) -> bool:
        """Whether a time lies in it."""
        return (self.after_ms is None or self.after_ms < time_ms) and (
            self.until_ms is None or time_ms <= self.until_ms
        )

    def meet(self, other: TimeWindow) -> TimeWindow:
        """The times that lie in both."""
        after = [each for each in (self.after_ms, other.after_ms) if each is not None]
        until = [each for each in (self.until_ms, other.until_ms) if each is not None]
        return TimeWindow(max(after, default=None), min(until, default=None))


ANY_TIME: Final = TimeWindow()


@dataclass(frozen=True)
class CompactionGroup:
    """What a compaction does to some files of one bucket; it stands or falls by itself.

    It is committed if all that it names is still live when the commit takes effect, and dropped otherwise. The groups
    of a change are judged in their order, each on what those before it have left.

    Args:
        bucket: Where all of its files are.
        inputs: Ids of files whose rows its outputs hold.
        output_count: How many of the change's `add_files` are its outputs: the next ones behind those of the groups
            before it. They get the latest place of its inputs.
        moves: Ids of files that get the level without being rewritten, and keep their rows and place.
        level: Of its outputs and moves from then on: 1 or more with a primary key, else 0.
        changelog_count: How many of the change's `changelog_files` are its own, counted as the outputs are.
        is_full: All that the bucket held in the range of its keys, as it was planned, ends at the highest level.
        emits_changelog: Its changelog leads from the rows of `baseline` to those of its outputs and moves, which are
            then part of the table's changelog baseline (`lakelog.format.compaction.baseline`). It is dropped where the
            changelog producer is not `full-compaction`.
        baseline: Ids of files, live or not, that leave the baseline.
        vector_files: Ids of files that stay as they are, at their level, and name `deletion_vector_path` from then on.
            A group that has some does nothing else.
        deletion_vector_path: Of its vector files, as `DataFile` has it; groups of one bucket may have the same one.
        covered_files: Ids of the other files that the deletion vectors rest on: with the vector files all that the
            bucket held in the range of their keys when the vectors were built.
    """

    bucket: BucketRef
    inputs: tuple[int, ...] = ()
    output_count: int = 0
    moves: tuple[int, ...] = ()
    level: int = 0
    changelog_count: int = 0
    is_full: bool = False
    emits_changelog: bool = False
    baseline: tuple[int, ...] = ()
    vector_files: tuple[int, ...] = ()
    deletion_vector_path: str = ""
    covered_files: tuple[int, ...] = ()


INPUT_GONE: Final = "INPUT_GONE"
"""A file of the group is not live any more."""

BUCKET_COUNT_CHANGED: Final = "BUCKET_COUNT_CHANGED"
"""The table has another number of buckets than the group's files were written for."""

SCHEMA_NEWER: Final = "SCHEMA_NEWER"
"""An input was written with a newer schema than the outputs, which therefore lack some of its columns."""

OUT_OF_ORDER: Final = "OUT_OF_ORDER"
"""A file that is not part of the group stands between its rows and the place they would get."""

LEVEL_TAKEN: Final = "LEVEL_TAKEN"
"""A file of the level that is not part of the group has keys in the same range."""

TOLD_BY_OTHERS: Final = "TOLD_BY_OTHERS"
"""What the group's changelog leads on from is not what the table's changelog has told by now."""

PRODUCER_CHANGED: Final = "PRODUCER_CHANGED"
"""The table's changelog is not told by full compactions, or not any more."""


@dataclass(frozen=True)
class DroppedGroup:
    """A group that was not committed; its outputs belong to nobody and may be deleted.

    Args:
        group: Its place among the change's groups.
        reason: INPUT_GONE, BUCKET_COUNT_CHANGED, SCHEMA_NEWER, OUT_OF_ORDER, LEVEL_TAKEN, TOLD_BY_OTHERS or
            PRODUCER_CHANGED; others may follow.
        message: What happened, in a sentence or two.
        file_id: Which file decided; None: none did.
        snapshot_id: With INPUT_GONE: which snapshot took the file away; None: it is not known any more.
        other_writer: Who committed that snapshot.
    """

    group: int
    reason: str
    message: str
    file_id: int | None = None
    snapshot_id: int | None = None
    other_writer: str = ""


@dataclass(frozen=True)
class Change:
    """One table's part of a commit; it makes one snapshot.

    Args:
        table_uuid: The table.
        kind: What the snapshot will be.
        schema_id: What the files were written with; must be the table's current schema. A compaction may have written
            with an earlier one: each file names the schema that it is read by.
        bucket_count: What the files were written for; must be the table's.
        add_files: In the order that decides between rows of one key; of a compaction, group by group.
        remove: Live files to take away; None: none.
        base_snapshot_id: What the change was made against; None: it assumes nothing.
        unchanged_buckets: With a base: refuse when one of these got other data since.
        if_unchanged: Refuse when rows changed since this snapshot in a partition or bucket that the change adds files
            to or takes files from; 0: since ever; None: no such guard.
        watermark_ms: A watermark; None: none.
        properties: To remember with the snapshot.
        allow_empty: Make a snapshot even where nothing is added or removed.
        changelog: Whether the change says all that it changes.
        changelog_files: Where it does: the change rows, in files as `add_files` has them, each with a `_row_kind`.
        groups: What a compaction rewrites and moves; empty for all other kinds.
        window: When it must be committed for its changelog and positions to be right: deletes beat late rows for a
            while only (`sequence.delete-retention`).
        log: Which of its files hold what the table's external log is to receive; must be what the table asks for
            (`lakelog.format.commit.log_content`). An OVERWRITE or a COMPACT brings nothing to it.
        log_files: Its log segments: the rows as they came in, those of a key in the order of arrival. A file may be one
            of `add_files`, which then holds the last of them. Without statistics: nothing is left out of a log.
        sent_offsets: All that goes to the log was sent before, with the attempt's id, and stands in the topic: by
            partition the offset behind the last record; None: it was not.
        sent_generation: Of the log to which it was sent. Where the log has another one by now, it counts as not sent.
    """

    table_uuid: str
    kind: SnapshotKind
    schema_id: int
    bucket_count: int
    add_files: tuple[DataFile, ...] = ()
    remove: Removal | None = None
    base_snapshot_id: int | None = None
    unchanged_buckets: tuple[BucketRef, ...] = ()
    if_unchanged: int | None = None
    watermark_ms: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    allow_empty: bool = False
    changelog: ChangelogState = ChangelogState.NONE
    changelog_files: tuple[DataFile, ...] = ()
    groups: tuple[CompactionGroup, ...] = ()
    window: TimeWindow = ANY_TIME
    log: LogContent = LogContent.NONE
    log_files: tuple[DataFile, ...] = ()
    sent_offsets: Mapping[int, int] | None = None
    sent_generation: int = 0


@dataclass(frozen=True)
class Fence:
    """A lease that a commit depends on."""

    lease: str
    epoch: int


@dataclass(frozen=True)
class TableGuard:
    """A table of which no row may have changed since a snapshot, whether the commit changes the table or not.

    Args:
        table_uuid: The table.
        if_snapshot: The snapshot; 0: the table as it was before its first commit.
    """

    table_uuid: str
    if_snapshot: int


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
        guards: Tables that must be unchanged, each at most once.
    """

    writer: str
    identifier: int
    changes: tuple[Change, ...]
    attempt_id: str = ""
    previous_identifier: int | None = None
    epoch: int = 0
    fences: tuple[Fence, ...] = ()
    guards: tuple[TableGuard, ...] = ()

    @property
    def table_uuids(self) -> tuple[str, ...]:
        """The tables that it changes, then those that it only guards; each once."""
        named = (*(change.table_uuid for change in self.changes), *(guard.table_uuid for guard in self.guards))
        return tuple(dict.fromkeys(named))

    @property
    def assumes(self) -> bool:
        """Whether a verdict about it depends on what other commits did."""
        return bool(self.guards) or any(
            change.remove is not None or change.unchanged_buckets or change.groups or change.if_unchanged is not None
            for change in self.changes
        )


@dataclass(frozen=True)
class ChangeResult:
    """What became of one change: the snapshot it made, or None where there was nothing to commit.

    `dropped` are a compaction's groups that could not be committed, in the order of the change; the others were.
    """

    table_uuid: str
    snapshot_id: int | None
    snapshot_uuid: str = ""
    committed_at_ms: int = 0
    dropped: tuple[DroppedGroup, ...] = ()


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


def brings_files(change: Change) -> bool:
    """Whether a change names files that its writer has written: of rows, of changes or of positions. Pure."""
    written = change.add_files or change.changelog_files or change.log_files
    return bool(written) or any(group.deletion_vector_path for group in change.groups)


def count_files(change: Change) -> int:
    """How many files a change describes, each as often as it does. Pure."""
    return len(change.add_files) + len(change.changelog_files) + len(change.log_files)


def split_group_files(change: Change) -> list[tuple[DataFile, ...]]:
    """The data and changelog files that each of a compaction's groups brings, in the groups' order. Pure.

    Whoever is told that groups were dropped may delete theirs: the attempt is committed or aborted by then, so that no
    other commit can ever take them.
    """
    outputs = (0, *accumulate(group.output_count for group in change.groups))
    changelogs = (0, *accumulate(group.changelog_count for group in change.groups))
    return [
        (
            *change.add_files[outputs[number] : outputs[number + 1]],
            *change.changelog_files[changelogs[number] : changelogs[number + 1]],
        )
        for number in range(len(change.groups))
    ]
