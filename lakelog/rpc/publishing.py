"""How far external logs are published, on the wire."""

from __future__ import annotations

from lakelog.format.log.state import PublishReport, PublishState, SnapshotOffsets
from lakelog.rpc.messages import build
from lakelog.rpc.v1 import publishing_pb2


def to_proto_offsets(offsets: SnapshotOffsets) -> publishing_pb2.SnapshotOffsets:
    """Translates where a snapshot ends."""
    return build(publishing_pb2.SnapshotOffsets, **vars(offsets))


def from_proto_offsets(message: publishing_pb2.SnapshotOffsets) -> SnapshotOffsets:
    """Translates it back."""
    return SnapshotOffsets(message.snapshot_id, message.snapshot_uuid, tuple(message.offsets))


def to_proto_report(report: PublishReport) -> publishing_pb2.ReportPublishedRequest:
    """Translates what a publisher tells."""
    return build(
        publishing_pb2.ReportPublishedRequest,
        table_uuid=report.table_uuid,
        generation=report.generation,
        epoch=report.epoch,
        snapshots=[to_proto_offsets(each) for each in report.snapshots],
        next_index=report.next_index,
        next_uuid=report.next_uuid,
        problem=report.problem,
        begins=report.begins,
    )


def from_proto_report(message: publishing_pb2.ReportPublishedRequest) -> PublishReport:
    """Translates it back."""
    return PublishReport(
        table_uuid=message.table_uuid,
        generation=message.generation,
        epoch=message.epoch,
        snapshots=tuple([from_proto_offsets(each) for each in message.snapshots]),
        next_index=message.next_index,
        next_uuid=message.next_uuid,
        problem=message.problem,
        begins=tuple(message.begins),
    )


def to_proto_publish_state(state: PublishState) -> publishing_pb2.GetPublishStateResponse:
    """Translates how far a log is published; its table is that of the request."""
    fields = {name: value for name, value in vars(state).items() if name != "table_uuid"}
    return build(publishing_pb2.GetPublishStateResponse, **fields)


def from_proto_publish_state(message: publishing_pb2.GetPublishStateResponse, table_uuid: str) -> PublishState:
    """Translates it back."""
    return PublishState(
        table_uuid=table_uuid,
        generation=message.generation,
        snapshot_id=message.snapshot_id,
        snapshot_uuid=message.snapshot_uuid,
        next_index=message.next_index,
        next_uuid=message.next_uuid,
        offsets=tuple(message.offsets),
        latest_snapshot_id=message.latest_snapshot_id,
        reported_at_ms=message.reported_at_ms,
        holder=message.holder,
        problem=message.problem,
    )
