"""The effect of an accepted commit on its table: the next head, the snapshot, the places of its files. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakelog.format.commit.facts import (
    FIRST_LOG_ORDINAL,
    BaselineChange,
    MovedFile,
    OrderKey,
    PlacedChangelogFile,
    PlacedFile,
    RestoredTotals,
    TableHead,
)
from lakelog.format.commit.rebase import Rebased
from lakelog.format.commit.request import Change, CommitRequest
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.snapshot import ChangelogState, LogContent, Snapshot, SnapshotKind


def apply_change(
    request: CommitRequest,
    rebased: Rebased,
    head: TableHead,
    restored: RestoredTotals,
    now_ms: int,
    snapshot_uuid: str,
) -> tuple[TableHead, Snapshot | None]:
    """Returns the head after a change, and the snapshot it makes: None if there is nothing to commit. Pure.

    A file that is moved or gets a deletion vector counts as one removed and one added. Rows that an OVERWRITE removes
    by position stay among the rows in live files until a compaction drops them; they are not counted as added again.

    Args:
        request: The commit.
        rebased: The part of the change that takes effect.
        head: The head before it.
        restored: What the change removes, and which files it gives new entries.
        now_ms: When it takes effect.
        snapshot_uuid: The uuid of the snapshot that it may make.
    """
    change, removed = rebased.change, restored.removed
    changes_baseline = any(group.baseline for group in change.groups)
    brought = change.add_files or change.changelog_files or change.log_files
    is_empty = not (brought or removed.files or restored.files or changes_baseline)
    if is_empty and not change.allow_empty:
        return head, None
    changelog = _resolve_changelog(change, head)
    moved = [*(file for file, _ in rebased.moved), *(each.file for each in rebased.vector_files)]
    added_files = len(change.add_files) + len(moved) + restored.files
    new_rows = sum(file.row_count for file in change.add_files) + restored.rows
    rows = new_rows + sum(file.row_count for file in moved)
    size_bytes = (
        sum(file.size_bytes for file in change.add_files) + sum(file.size_bytes for file in moved) + restored.size_bytes
    )
    committed_at_ms = max(now_ms, head.committed_at_ms)
    watermark_ms = head.watermark_ms
    if change.watermark_ms is not None:
        watermark_ms = change.watermark_ms if watermark_ms is None else max(watermark_ms, change.watermark_ms)
    snapshot_id = head.latest_snapshot_id + 1
    after = replace(
        head,
        latest_snapshot_id=snapshot_id,
        latest_uuid=snapshot_uuid,
        committed_at_ms=committed_at_ms,
        watermark_ms=watermark_ms,
        total_rows=head.total_rows + rows - removed.rows,
        total_files=head.total_files + added_files - removed.files,
        total_bytes=head.total_bytes + size_bytes - removed.size_bytes,
        next_file_id=head.next_file_id + added_files,
        first_pending_snapshot=head.first_pending_snapshot
        or (snapshot_id if changelog is ChangelogState.PENDING else 0),
        last_full_snapshot=snapshot_id if any(group.is_full for group in change.groups) else head.last_full_snapshot,
    )
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        snapshot_uuid=snapshot_uuid,
        parent_uuid=head.latest_uuid,
        kind=change.kind,
        # Not the change's schema: a compaction may have written with an earlier one, which changes nothing for readers.
        schema_id=head.schema_id,
        committed_at_ms=committed_at_ms,
        watermark_ms=watermark_ms,
        total_rows=after.total_rows,
        total_files=after.total_files,
        total_bytes=after.total_bytes,
        added_rows=rows if change.kind is SnapshotKind.COMPACT else new_rows,
        added_files=added_files,
        removed_files=removed.files,
        writer=request.writer,
        identifier=request.identifier,
        properties=change.properties,
        changelog=changelog,
        log=change.log,
        attempt_id=request.attempt_id if change.log is not LogContent.NONE else "",
        sent_offsets=change.sent_offsets,
    )
    return after, snapshot


def _resolve_changelog(change: Change, head: TableHead) -> ChangelogState:
    """The state of a snapshot's changelog: the producer may have been altered since its writer read the table."""
    if change.kind is SnapshotKind.COMPACT:
        if any(group.emits_changelog for group in change.groups):
            return ChangelogState.ATTACHED
        return ChangelogState.LATER if head.defers_changelog else ChangelogState.NONE
    return ChangelogState.LATER if head.defers_changelog else change.changelog


def place_changelog(change: Change, snapshot: Snapshot) -> list[PlacedChangelogFile]:
    """Gives each changelog file its place in its snapshot. Pure.

    There are none if full compactions emit the changes, even if the commit's writer did not know that yet.
    """
    return [] if snapshot.changelog is ChangelogState.LATER else place_changelog_files(change.changelog_files, snapshot)


def place_baseline(rebased: Rebased, head: TableHead, snapshot: Snapshot) -> BaselineChange | None:
    """How a snapshot changes the table's changelog baseline; None: not at all. Pure.

    Args:
        rebased: The part of a compaction that takes effect; only compactions emit.
        head: The head before it.
        snapshot: The snapshot that it makes.
    """
    change = rebased.change
    output_id, moved_id = head.next_file_id, head.next_file_id + len(change.add_files)
    begun: list[int] = []
    for group in change.groups:
        if group.emits_changelog:
            begun += range(output_id, output_id + group.output_count)
            begun += range(moved_id, moved_id + len(group.moves))
        elif group.vector_files:
            # Each file stays in the baseline, or outside it, as before.
            begun += (moved_id + place for place, file_id in enumerate(group.vector_files) if file_id in group.baseline)
        output_id += group.output_count
        moved_id += len(group.moves) + len(group.vector_files)
    ended = tuple(file_id for group in change.groups for file_id in group.baseline)
    return BaselineChange(snapshot.snapshot_id, tuple(begun), ended) if begun or ended else None


def place_changelog_files(files: Sequence[DataFile], snapshot: Snapshot) -> list[PlacedChangelogFile]:
    """Gives each of a snapshot's changelog files its place. Pure."""
    return [
        PlacedChangelogFile(file, snapshot.snapshot_id, ordinal, snapshot.committed_at_ms)
        for ordinal, file in enumerate(files)
    ]


def place_log_files(change: Change, snapshot: Snapshot) -> list[PlacedChangelogFile]:
    """Gives each log segment its place in its snapshot. Pure."""
    return [
        PlacedChangelogFile(file, snapshot.snapshot_id, FIRST_LOG_ORDINAL + number, snapshot.committed_at_ms)
        for number, file in enumerate(change.log_files)
    ]


def place_files(rebased: Rebased, head: TableHead, snapshot: Snapshot) -> list[PlacedFile]:
    """Gives each added file its id and its place in the order: an inherited one, or one of its own. Pure.

    Args:
        rebased: The change with its files.
        head: The head before the change.
        snapshot: The snapshot that it makes.
    """
    first_id, time_ms, snapshot_id = head.next_file_id, snapshot.committed_at_ms, snapshot.snapshot_id
    files, order_keys = rebased.change.add_files, rebased.order_keys
    return [
        PlacedFile(
            first_id + ordinal,
            file,
            snapshot_id,
            order_keys[ordinal] if order_keys else OrderKey(snapshot_id, ordinal, time_ms),
        )
        for ordinal, file in enumerate(files)
    ]


def place_moves(rebased: Rebased, head: TableHead, snapshot_id: int) -> list[MovedFile]:
    """Gives the new entry of each moved file its id, after those of the added files. Pure."""
    first_id = head.next_file_id + len(rebased.change.add_files)
    return [
        *(
            MovedFile(first_id + number, file.file_id, level, snapshot_id)
            for number, (file, level) in enumerate(rebased.moved)
        ),
        *(
            MovedFile(
                first_id + number,
                each.file.file_id,
                each.file.level,
                snapshot_id,
                each.deletion_vector_path,
                each.delete_count,
            )
            for number, each in enumerate(rebased.vector_files)
        ),
    ]
