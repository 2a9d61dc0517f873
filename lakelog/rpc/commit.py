"""Commits on the wire: requests, results and a writer's progress."""

from __future__ import annotations

from typing import Final

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
from lakelog.rpc.translation import Translation
from lakelog.rpc.v1 import snapshots_pb2

_FENCE: Final = Translation(Fence, snapshots_pb2.Fence)
_BUCKET: Final = Translation(BucketRef, snapshots_pb2.BucketRef)
_GUARD: Final = Translation(TableGuard, snapshots_pb2.TableGuard, fields={"buckets": _BUCKET.both})
_GROUP: Final = Translation(
    CompactionGroup,
    snapshots_pb2.CompactionGroup,
    names={
        "inputs": "input_file_ids",
        "moves": "moved_file_ids",
        "baseline": "baseline_file_ids",
        "vector_files": "vector_file_ids",
        "covered_files": "covered_file_ids",
    },
    fields={"bucket": _BUCKET.both},
)
_DROPPED_GROUP: Final = Translation(DroppedGroup, snapshots_pb2.DroppedGroup)
_CHANGE_RESULT: Final = Translation(
    ChangeResult,
    snapshots_pb2.ChangeResult,
    names={"dropped": "dropped_groups"},
    fields={"dropped": _DROPPED_GROUP.both},
    apart=("table",),
)
to_proto_commit_result, from_proto_commit_result = Translation(
    CommitResult, snapshots_pb2.CommitResponse, fields={"results": _CHANGE_RESULT.both}
).both
to_proto_writer_progress, from_proto_writer_progress = Translation(
    WriterProgress, snapshots_pb2.GetWriterProgressResponse
).both


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
        fences=[_FENCE.to_proto(fence) for fence in request.fences],
        attempt_id=request.attempt_id,
        changes=[_to_proto_change(change) for change in request.changes],
        guards=[_GUARD.to_proto(guard) for guard in request.guards],
    )


def from_proto_commit_request(message: snapshots_pb2.CommitRequest) -> CommitRequest:
    """Translates a commit back.

    Raises:
        InvalidArgument: A change has no known kind, or a removal is empty.
    """
    return CommitRequest(
        writer=message.writer,
        identifier=message.identifier,
        changes=tuple([_from_proto_change(change, i) for i, change in enumerate(message.changes)]),
        attempt_id=message.attempt_id,
        previous_identifier=message.previous_identifier if message.HasField("previous_identifier") else None,
        epoch=message.epoch,
        fences=tuple([_FENCE.from_proto(fence) for fence in message.fences]),
        guards=tuple([_GUARD.from_proto(guard) for guard in message.guards]),
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
        base_snapshot_uuid=change.base_snapshot_uuid,
        unchanged_buckets=[_BUCKET.to_proto(ref) for ref in change.unchanged_buckets],
        if_unchanged=change.if_unchanged,
        watermark_ms=change.watermark_ms,
        properties=dict(change.properties),
        allow_empty=change.allow_empty,
        bucket_count=change.bucket_count,
        changelog=to_proto_changelog_state(change.changelog),
        changelog_files=[to_proto_data_file(file) for file in change.changelog_files],
        groups=[_GROUP.to_proto(group) for group in change.groups],
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
        unchanged_buckets=tuple([_BUCKET.from_proto(ref) for ref in message.unchanged_buckets]),
        if_unchanged=message.if_unchanged if message.HasField("if_unchanged") else None,
        watermark_ms=message.watermark_ms if message.HasField("watermark_ms") else None,
        properties=dict(message.properties),
        allow_empty=message.allow_empty,
        changelog=from_proto_changelog_state(message.changelog, f"changes[{position}].changelog"),
        changelog_files=tuple([from_proto_data_file(file) for file in message.changelog_files]),
        groups=tuple([_GROUP.from_proto(group) for group in message.groups]),
        window=_from_proto_window(message),
        log=from_proto_log_content(message.log, f"changes[{position}].log"),
        log_files=tuple([from_proto_data_file(file) for file in message.log_files]),
        sent_offsets=dict(message.sent_offsets.offsets) if message.HasField("sent_offsets") else None,
        sent_generation=message.sent_offsets.generation,
        base_snapshot_uuid=message.base_snapshot_uuid,
    )


def _from_proto_window(message: snapshots_pb2.Change) -> TimeWindow:
    return TimeWindow(
        message.committed_after_ms if message.HasField("committed_after_ms") else None,
        message.committed_until_ms if message.HasField("committed_until_ms") else None,
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
