"""Commits on the wire: requests, results and a writer's progress."""

from __future__ import annotations

from lakelog.format.commit.request import (
    BucketRef,
    Change,
    ChangeResult,
    CommitRequest,
    CommitResult,
    CompactionGroup,
    DroppedGroup,
    Fence,
    Removal,
    RemoveEverything,
    RemoveFiles,
    RemovePartitions,
    RemovePartitionValues,
    RestoreState,
    TableGuard,
    TimeWindow,
    WriterProgress,
)
from lakelog.rpc.files import from_proto_data_file, to_proto_data_file
from lakelog.rpc.messages import build, refusal
from lakelog.rpc.snapshot import (
    from_proto_changelog_state,
    from_proto_log_content,
    from_proto_snapshot_kind,
    to_proto_changelog_state,
    to_proto_log_content,
    to_proto_sent_offsets,
    to_proto_snapshot_kind,
)
from lakelog.rpc.v1 import snapshots_pb2


def to_proto_commit_request(request: CommitRequest) -> snapshots_pb2.CommitRequest:
    """Translates a commit.

    Raises:
        InvalidArgument: A number is out of its wire type's range, or text is not valid Unicode.
    """
    return build(
        snapshots_pb2.CommitRequest,
        writer=request.writer,
        identifier=request.identifier,
        previous_identifier=request.previous_identifier,
        epoch=request.epoch,
        fences=[build(snapshots_pb2.Fence, lease=fence.lease, epoch=fence.epoch) for fence in request.fences],
        attempt_id=request.attempt_id,
        changes=[_to_proto_change(change) for change in request.changes],
        guards=[build(snapshots_pb2.TableGuard, **vars(guard)) for guard in request.guards],
    )


def from_proto_commit_request(message: snapshots_pb2.CommitRequest) -> CommitRequest:
    """Translates a commit back.

    Raises:
        InvalidArgument: A change has no known kind, or a removal that says nothing.
    """
    return CommitRequest(
        writer=message.writer,
        identifier=message.identifier,
        changes=tuple([_from_proto_change(change, i) for i, change in enumerate(message.changes)]),
        attempt_id=message.attempt_id,
        previous_identifier=message.previous_identifier if message.HasField("previous_identifier") else None,
        epoch=message.epoch,
        fences=tuple([Fence(fence.lease, fence.epoch) for fence in message.fences]),
        guards=tuple([TableGuard(guard.table_uuid, guard.if_snapshot) for guard in message.guards]),
    )


def _to_proto_change(change: Change) -> snapshots_pb2.Change:
    return build(
        snapshots_pb2.Change,
        table_uuid=change.table_uuid,
        kind=to_proto_snapshot_kind(change.kind),
        schema_id=change.schema_id,
        add_files=[to_proto_data_file(file) for file in change.add_files],
        remove=None if change.remove is None else _to_proto_removal(change.remove),
        base_snapshot_id=change.base_snapshot_id,
        unchanged_buckets=[_to_proto_bucket(ref) for ref in change.unchanged_buckets],
        if_unchanged=change.if_unchanged,
        watermark_ms=change.watermark_ms,
        properties=dict(change.properties),
        allow_empty=change.allow_empty,
        bucket_count=change.bucket_count,
        changelog=to_proto_changelog_state(change.changelog),
        changelog_files=[to_proto_data_file(file) for file in change.changelog_files],
        groups=[_to_proto_group(group) for group in change.groups],
        committed_after_ms=change.window.after_ms,
        committed_until_ms=change.window.until_ms,
        log=to_proto_log_content(change.log),
        log_files=[to_proto_data_file(file) for file in change.log_files],
        sent_offsets=to_proto_sent_offsets(change.sent_offsets, change.sent_generation),
    )


def _from_proto_change(message: snapshots_pb2.Change, position: int) -> Change:
    return Change(
        table_uuid=message.table_uuid,
        kind=from_proto_snapshot_kind(message.kind, f"changes[{position}].kind"),
        schema_id=message.schema_id,
        bucket_count=message.bucket_count,
        add_files=tuple([from_proto_data_file(file) for file in message.add_files]),
        remove=_from_proto_removal(message.remove, position) if message.HasField("remove") else None,
        base_snapshot_id=message.base_snapshot_id if message.HasField("base_snapshot_id") else None,
        unchanged_buckets=tuple([_from_proto_bucket(ref) for ref in message.unchanged_buckets]),
        if_unchanged=message.if_unchanged if message.HasField("if_unchanged") else None,
        watermark_ms=message.watermark_ms if message.HasField("watermark_ms") else None,
        properties=dict(message.properties),
        allow_empty=message.allow_empty,
        changelog=from_proto_changelog_state(message.changelog, f"changes[{position}].changelog"),
        changelog_files=tuple([from_proto_data_file(file) for file in message.changelog_files]),
        groups=tuple([_from_proto_group(group) for group in message.groups]),
        window=_from_proto_window(message),
        log=from_proto_log_content(message.log, f"changes[{position}].log"),
        log_files=tuple([from_proto_data_file(file) for file in message.log_files]),
        sent_offsets=dict(message.sent_offsets.offsets) if message.HasField("sent_offsets") else None,
        sent_generation=message.sent_offsets.generation,
    )


def _from_proto_window(message: snapshots_pb2.Change) -> TimeWindow:
    return TimeWindow(
        message.committed_after_ms if message.HasField("committed_after_ms") else None,
        message.committed_until_ms if message.HasField("committed_until_ms") else None,
    )


def _to_proto_bucket(ref: BucketRef) -> snapshots_pb2.BucketRef:
    return build(snapshots_pb2.BucketRef, partition=ref.partition, bucket=ref.bucket)


def _from_proto_bucket(message: snapshots_pb2.BucketRef) -> BucketRef:
    return BucketRef(message.partition, message.bucket)


def _to_proto_group(group: CompactionGroup) -> snapshots_pb2.CompactionGroup:
    return build(
        snapshots_pb2.CompactionGroup,
        bucket=_to_proto_bucket(group.bucket),
        input_file_ids=group.inputs,
        output_count=group.output_count,
        moved_file_ids=group.moves,
        level=group.level,
        changelog_count=group.changelog_count,
        is_full=group.is_full,
        emits_changelog=group.emits_changelog,
        baseline_file_ids=group.baseline,
        vector_file_ids=group.vector_files,
        deletion_vector_path=group.deletion_vector_path,
        covered_file_ids=group.covered_files,
    )


def _from_proto_group(message: snapshots_pb2.CompactionGroup) -> CompactionGroup:
    return CompactionGroup(
        bucket=_from_proto_bucket(message.bucket),
        inputs=tuple(message.input_file_ids),
        output_count=message.output_count,
        moves=tuple(message.moved_file_ids),
        level=message.level,
        changelog_count=message.changelog_count,
        is_full=message.is_full,
        emits_changelog=message.emits_changelog,
        baseline=tuple(message.baseline_file_ids),
        vector_files=tuple(message.vector_file_ids),
        deletion_vector_path=message.deletion_vector_path,
        covered_files=tuple(message.covered_file_ids),
    )


def _to_proto_removal(removal: Removal) -> snapshots_pb2.Removal:
    match removal:
        case RemoveFiles(file_ids):
            return snapshots_pb2.Removal(files=build(snapshots_pb2.FileIds, file_ids=file_ids))
        case RemoveEverything():
            return snapshots_pb2.Removal(everything=True)
        case RemovePartitions(partitions):
            return snapshots_pb2.Removal(partitions=build(snapshots_pb2.Partitions, partitions=partitions))
        case RemovePartitionValues(values):
            return snapshots_pb2.Removal(partition_values=build(snapshots_pb2.PartitionValues, values=dict(values)))
        case RestoreState(snapshot_id, tag):
            state = {"tag": tag} if snapshot_id is None else {"snapshot_id": snapshot_id}
            return snapshots_pb2.Removal(restore=build(snapshots_pb2.StateRef, **state))


def _from_proto_removal(message: snapshots_pb2.Removal, position: int) -> Removal:
    match message.WhichOneof("what"):
        case "files":
            return RemoveFiles(tuple(message.files.file_ids))
        case "everything" if message.everything:
            return RemoveEverything()
        case "partitions":
            return RemovePartitions(tuple(message.partitions.partitions))
        case "partition_values":
            return RemovePartitionValues(dict(message.partition_values.values))
        case "restore" if message.restore.WhichOneof("state") == "snapshot_id":
            return RestoreState(message.restore.snapshot_id)
        case "restore":
            return RestoreState(tag=message.restore.tag)
        case "everything":
            raise refusal(
                f"changes[{position}].remove.everything", "is false", "Leave `remove` out to take nothing away"
            )
        case _:
            raise refusal(
                f"changes[{position}].remove",
                "does not say what to take away",
                "Set one of files, everything, partitions, partition_values, restore, or leave `remove` out",
            )


def to_proto_commit_result(result: CommitResult) -> snapshots_pb2.CommitResponse:
    """Translates what became of a commit."""
    return build(
        snapshots_pb2.CommitResponse,
        attempt_id=result.attempt_id,
        results=[
            build(
                snapshots_pb2.ChangeResult,
                table_uuid=change.table_uuid,
                snapshot_id=change.snapshot_id,
                snapshot_uuid=change.snapshot_uuid,
                committed_at_ms=change.committed_at_ms,
                dropped_groups=[build(snapshots_pb2.DroppedGroup, **vars(group)) for group in change.dropped],
            )
            for change in result.results
        ],
    )


def from_proto_commit_result(message: snapshots_pb2.CommitResponse) -> CommitResult:
    """Translates what became of a commit back."""
    return CommitResult(
        message.attempt_id,
        tuple(
            [
                ChangeResult(
                    change.table_uuid,
                    change.snapshot_id if change.HasField("snapshot_id") else None,
                    change.snapshot_uuid,
                    change.committed_at_ms,
                    tuple([_from_proto_dropped(group) for group in change.dropped_groups]),
                )
                for change in message.results
            ]
        ),
    )


def _from_proto_dropped(message: snapshots_pb2.DroppedGroup) -> DroppedGroup:
    return DroppedGroup(
        group=message.group,
        reason=message.reason,
        message=message.message,
        file_id=message.file_id if message.HasField("file_id") else None,
        snapshot_id=message.snapshot_id if message.HasField("snapshot_id") else None,
        other_writer=message.other_writer,
    )


def to_proto_writer_progress(progress: WriterProgress) -> snapshots_pb2.GetWriterProgressResponse:
    """Translates a writer's progress."""
    return build(
        snapshots_pb2.GetWriterProgressResponse,
        last_identifier=progress.last_identifier,
        snapshot_id=progress.snapshot_id,
        properties=dict(progress.properties),
        epoch=progress.epoch,
    )


def from_proto_writer_progress(message: snapshots_pb2.GetWriterProgressResponse) -> WriterProgress:
    """Translates a writer's progress back."""
    return WriterProgress(
        message.last_identifier if message.HasField("last_identifier") else None,
        message.snapshot_id if message.HasField("snapshot_id") else None,
        dict(message.properties),
        message.epoch,
    )
