"""The requests to the commit gate, and its answers."""

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
    """Remove these files; each must be live."""

    file_ids: tuple[int, ...]


@dataclass(frozen=True)
class RemoveEverything:
    """Remove everything that is live when the commit takes effect."""


@dataclass(frozen=True)
class RemovePartitions:
    """Remove everything that is then live in exactly these partitions (encoded, all columns)."""

    partitions: tuple[bytes, ...]


@dataclass(frozen=True)
class RemovePartitionValues:
    """Remove everything that is then live in the partitions with these encoded values, by partition column."""

    values: Mapping[str, bytes]


@dataclass(frozen=True)
class RestoreState:
    """Restore an earlier state.

    Files that are live when the commit takes effect and were not live in that state are removed. Files that were live
    in it and are no longer live get a new entry, with their old path, level and place in the order.

    Args:
        snapshot_id: The state at this snapshot; None: at the one that `tag` names.
        tag: The tag; empty: `snapshot_id` names the state.
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
    """Commit times for which an earlier computation is valid: after one time, and not after another.

    Args:
        after_ms: The commit must be later; milliseconds since the epoch by the database's clock; None: any.
        until_ms: The commit must not be later; None: any.
    """

    after_ms: int | None = None
    until_ms: int | None = None

    def holds(self, time_ms: int) -> bool:
        """Whether the window contains a time."""
        return (self.after_ms is None or self.after_ms < time_ms) and (
            self.until_ms is None or time_ms <= self.until_ms
        )

    def meet(self, other: TimeWindow) -> TimeWindow:
        """The times that are in both windows."""
        after = [each for each in (self.after_ms, other.after_ms) if each is not None]
        until = [each for each in (self.until_ms, other.until_ms) if each is not None]
        return TimeWindow(max(after, default=None), min(until, default=None))


ANY_TIME: Final = TimeWindow()


@dataclass(frozen=True)
class CompactionGroup:
    """What a compaction does to some files of one bucket; each group is committed or dropped by itself.

    It is committed if all files that it names are still live when the commit takes effect, and dropped otherwise. The
    groups of a change are judged in order, each on the state that those before it have left.

    An OVERWRITE of an append table has groups, too, if it removes rows by their positions: they have vector files only,
    and all of them take effect together with the rest of the change, or the commit is refused
    (`lakelog.format.commit.vectors.removed_rows`).

    Args:
        bucket: The bucket of all of its files.
        inputs: Ids of files whose rows its outputs hold.
        output_count: How many of the change's `add_files` are its outputs: the next ones after those of the groups
            before it. They get the latest place of its inputs.
        moves: Ids of files that get the level without being rewritten, and keep their rows and place.
        level: The new level of its outputs and moves: 1 or more with a primary key, else 0.
        changelog_count: How many of the change's `changelog_files` are its own, counted like the outputs.
        is_full: Everything that the bucket held in the range of its keys, as planned, ends at the highest level.
        emits_changelog: Its changelog leads from the rows of `baseline` to those of its outputs and moves, which are
            then part of the table's changelog baseline (`lakelog.format.compaction.baseline`). It is dropped if the
            changelog producer is not `full-compaction`.
        baseline: Ids of files, live or not, that leave the baseline.
        vector_files: Ids of files that stay unchanged, at their level, and name `deletion_vector_path` from then on. A
            group that has some does nothing else.
        deletion_vector_path: The path for its vector files, as `DataFile` has it; groups of one bucket may have the
            same one.
        covered_files: Ids of the other files that the deletion vectors depend on: with the vector files they are
            everything that the bucket held in the range of their keys when the vectors were built.
        delete_counts: In an OVERWRITE: for each vector file how many of its rows reads leave out from then on, those of
            earlier commits included.
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
    delete_counts: tuple[int, ...] = ()


INPUT_GONE: Final = "INPUT_GONE"
"""A file of the group is no longer live."""

BUCKET_COUNT_CHANGED: Final = "BUCKET_COUNT_CHANGED"
"""The table has another number of buckets than the group's files were written for."""

SCHEMA_NEWER: Final = "SCHEMA_NEWER"
"""An input was written with a newer schema than the outputs, which therefore lack some of its columns."""

OUT_OF_ORDER: Final = "OUT_OF_ORDER"
"""A file outside the group is between its rows and the place they would get."""

LEVEL_TAKEN: Final = "LEVEL_TAKEN"
"""A file of the level that is outside the group has keys in the same range."""

TOLD_BY_OTHERS: Final = "TOLD_BY_OTHERS"
"""The state from which the group's changelog leads on is no longer the table's changelog baseline."""

PRODUCER_CHANGED: Final = "PRODUCER_CHANGED"
"""Full compactions do not emit the table's changelog, or no longer do so."""


@dataclass(frozen=True)
class DroppedGroup:
    """A group that was not committed; nothing refers to its outputs, and they may be deleted.

    Args:
        group: Its index among the change's groups.
        reason: INPUT_GONE, BUCKET_COUNT_CHANGED, SCHEMA_NEWER, OUT_OF_ORDER, LEVEL_TAKEN, TOLD_BY_OTHERS or
            PRODUCER_CHANGED; others may follow.
        message: What happened, in a sentence or two.
        file_id: The deciding file; None: there is none.
        snapshot_id: With INPUT_GONE: the snapshot that removed the file; None: it is not known any more.
        other_writer: The writer of that snapshot.
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
        kind: The kind of the snapshot.
        schema_id: The schema of the files; the table's current one, or an earlier one whose rows still fit it
            (`lakelog.format.types.evolution.find_mismatches`). A compaction may have written with any earlier one:
            each file names the schema to read it with.
        bucket_count: The number of buckets of the files; must be the table's.
        add_files: In the order that decides between rows of one key; for a compaction, group by group.
        remove: Live files to remove; None: none.
        base_snapshot_id: The snapshot that the change is based on; None: it assumes nothing.
        base_snapshot_uuid: Its uuid, which tells it from another snapshot that got its id after the database lost
            commits. Ids of files are given again then, too, so whatever names files by id names it. Empty: not checked.
        unchanged_buckets: With a base: refuse the commit if one of these got other data since.
        if_unchanged: Refuse the commit if rows changed since this snapshot in a partition or bucket that the change
            adds files to or removes files from; 0: ever; None: no such guard.
        watermark_ms: A watermark; None: none.
        properties: Stored with the snapshot.
        allow_empty: Make a snapshot even if nothing is added or removed.
        changelog: The state of the change's changelog.
        changelog_files: If the change has a changelog: the change rows, in files as `add_files` has them, each with a
            `_row_kind`.
        groups: What a compaction rewrites and moves; in an OVERWRITE: files of which single rows are removed.
        window: The time in which it must be committed for its changelog and positions to be right: deletes beat late
            rows only for a while (`sequence.delete-retention`).
        log: Which of its files hold the rows for the table's external log; must be what the table requires
            (`lakelog.format.commit.log_content`). An OVERWRITE or a COMPACT brings nothing to it.
        log_files: Its log segments: the rows as they arrived, those of a key in the order of arrival. A file may be one
            of `add_files`, which then holds the last of them. Without statistics: nothing is left out of a log.
        sent_offsets: All rows for the log were sent before, with the attempt's id, and are in the topic: by partition
            the offset after the last record; None: they were not.
        sent_generation: The log's generation to which they were sent. If the log has another one now, they count as not
            sent.
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
    base_snapshot_uuid: str = ""


@dataclass(frozen=True)
class Fence:
    """A lease that a commit depends on."""

    lease: str
    epoch: int


@dataclass(frozen=True)
class TableGuard:
    """A table whose rows must be unchanged since a snapshot, whether the commit changes the table or not.

    Args:
        table_uuid: The table.
        if_snapshot: The snapshot; 0: the table as it was before its first commit.
        partitions: If these or `buckets` are given, only rows there must be unchanged: encoded partitions.
        buckets: Buckets of other partitions; without buckets each row is in bucket 0.
        snapshot_uuid: That snapshot's uuid, as `Change.base_snapshot_uuid`; empty: not checked.
    """

    table_uuid: str
    if_snapshot: int
    partitions: tuple[bytes, ...] = ()
    buckets: tuple[BucketRef, ...] = ()
    snapshot_uuid: str = ""


@dataclass(frozen=True)
class CommitRequest:
    """A commit to one or more tables, all or nothing, idempotent by (table, writer, identifier).

    Args:
        writer: The writer's name.
        identifier: The writer's own number of this commit.
        changes: At most one for a table, at least one.
        attempt_id: The attempt that wrote the files; empty if no file is added.
        previous_identifier: For a writer with dense numbers: the required last one; None: no check.
        epoch: The writer's epoch; 0 for one that never registered.
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
        """Whether its verdict depends on other commits."""
        return bool(self.guards) or any(
            change.remove is not None or change.unchanged_buckets or change.groups or change.if_unchanged is not None
            for change in self.changes
        )


@dataclass(frozen=True)
class ChangeResult:
    """The result of one change: the snapshot it made, or None if there was nothing to commit.

    `dropped` are a compaction's groups that could not be committed, in the order of the change; the others were.
    `table` is the table's name, for logs: only the metastore that has committed it knows it.
    """

    table_uuid: str
    snapshot_id: int | None
    snapshot_uuid: str = ""
    committed_at_ms: int = 0
    dropped: tuple[DroppedGroup, ...] = ()
    table: str = field(default="", compare=False)


@dataclass(frozen=True)
class CommitResult:
    """The result of a commit.

    Args:
        attempt_id: The committed attempt; if it differs from the request's, the commit had been applied before.
        results: One for each change, in the request's order.
    """

    attempt_id: str
    results: tuple[ChangeResult, ...]


@dataclass(frozen=True)
class StagedAttempt:
    """An open attempt.

    Args:
        attempt_id: 32 hexadecimal digits; part of the path of each file that the attempt writes.
        tables: The tables that were named when it was staged, in that order, as they were then.
        further_ids: Attempts that were opened with it for the same tables, if more than one was requested.
    """

    attempt_id: str
    tables: tuple[TableInfo, ...]
    further_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class WriterProgress:
    """A writer's last commit to a table; identifiers and snapshot are None if there is none."""

    last_identifier: int | None
    snapshot_id: int | None
    properties: Mapping[str, str]
    epoch: int


def brings_files(change: Change) -> bool:
    """Whether a change names files that its writer has written: of rows, changes or positions. Pure."""
    written = change.add_files or change.changelog_files or change.log_files
    return bool(written) or any(group.deletion_vector_path for group in change.groups)


def count_files(change: Change) -> int:
    """How many files a change describes, with repetitions. Pure."""
    return len(change.add_files) + len(change.changelog_files) + len(change.log_files)


def count_items(change: Change) -> int:
    """The number of files, ids and buckets in a change; each of them is checked. Pure and cheap."""
    count = count_files(change) + len(change.unchanged_buckets)
    for group in change.groups:
        count += len(group.inputs) + len(group.moves) + len(group.baseline)
        count += len(group.vector_files) + len(group.covered_files)
    if isinstance(change.remove, RemoveFiles):
        count += len(change.remove.file_ids)
    elif isinstance(change.remove, RemovePartitions):
        count += len(change.remove.partitions)
    return count


def split_group_files(change: Change) -> list[tuple[DataFile, ...]]:
    """The data and changelog files that each of a compaction's groups brings, in the groups' order. Pure.

    A caller may delete the files of its dropped groups: the attempt is committed or aborted by then, so no other commit
    can ever take them.
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
