"""What a commit that is accepted does to its table: the next head, the snapshot, the places of its files. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakelog.format.commit import Change, CommitRequest
from lakelog.format.commit_facts import FileFacts, Place, PlacedChangelogFile, PlacedFile, RemovedTotals, TableHead
from lakelog.format.files import DataFile
from lakelog.format.snapshot import ChangelogState, Snapshot, SnapshotKind


def apply_change(
    request: CommitRequest,
    change: Change,
    head: TableHead,
    removed: RemovedTotals,
    now_ms: int,
    snapshot_uuid: str,
) -> tuple[TableHead, Snapshot | None]:
    """The head behind a change, and the snapshot it makes: None where there is nothing to commit. Pure."""
    if not (change.add_files or change.changelog_files or removed.files or change.allow_empty):
        return head, None
    rows = sum(file.row_count for file in change.add_files)
    size_bytes = sum(file.size_bytes for file in change.add_files)
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
        total_files=head.total_files + len(change.add_files) - removed.files,
        total_bytes=head.total_bytes + size_bytes - removed.size_bytes,
        next_file_id=head.next_file_id + len(change.add_files),
        first_open_snapshot=head.first_open_snapshot or (snapshot_id if change.changelog is ChangelogState.OPEN else 0),
    )
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        snapshot_uuid=snapshot_uuid,
        parent_uuid=head.latest_uuid,
        kind=change.kind,
        schema_id=change.schema_id,
        committed_at_ms=committed_at_ms,
        watermark_ms=watermark_ms,
        total_rows=after.total_rows,
        total_files=after.total_files,
        total_bytes=after.total_bytes,
        added_rows=rows,
        added_files=len(change.add_files),
        removed_files=removed.files,
        writer=request.writer,
        identifier=request.identifier,
        properties=change.properties,
        changelog=change.changelog,
    )
    return after, snapshot


def place_changelog(change: Change, snapshot: Snapshot) -> list[PlacedChangelogFile]:
    """Give each changelog file its place in its snapshot. Pure."""
    return place_changelog_files(change.changelog_files, snapshot)


def place_changelog_files(files: Sequence[DataFile], snapshot: Snapshot) -> list[PlacedChangelogFile]:
    """Give each of a snapshot's changelog files its place. Pure."""
    return [
        PlacedChangelogFile(file, snapshot.snapshot_id, ordinal, snapshot.committed_at_ms)
        for ordinal, file in enumerate(files)
    ]


def place_files(
    change: Change, head: TableHead, snapshot: Snapshot, inputs: Sequence[FileFacts] = ()
) -> list[PlacedFile]:
    """Give each added file its id and its place in the order. Pure.

    Args:
        change: Whose files they are.
        head: Before the change.
        snapshot: Which the change makes.
        inputs: The files a compaction removes; what it writes into a bucket takes the latest of its inputs' places
            there, so that it stays behind what is older and before what is newer.
    """
    inherited: dict[tuple[bytes, int], Place] = {}
    if change.kind is SnapshotKind.COMPACT:
        for found in inputs:
            key = (found.partition, found.bucket)
            known = inherited.get(key)
            if known is None or (known.snapshot_id, known.ordinal) < (found.place.snapshot_id, found.place.ordinal):
                inherited[key] = found.place
    first_id, time_ms, snapshot_id = head.next_file_id, snapshot.committed_at_ms, snapshot.snapshot_id
    return [
        PlacedFile(
            first_id + ordinal,
            file,
            snapshot_id,
            inherited.get((file.partition, file.bucket)) or Place(snapshot_id, ordinal, time_ms),
        )
        for ordinal, file in enumerate(change.add_files)
    ]
