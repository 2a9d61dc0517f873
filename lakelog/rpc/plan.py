"""Plans on the wire: the request, the header of the answer, and its chunks."""

from __future__ import annotations

from lakelog.format.tables.plan import AtSnapshot, AtTag, AtTime, InRange, PlanHeader, PlanRequest
from lakelog.rpc.messages import build
from lakelog.rpc.predicate import from_proto_predicate, to_proto_predicate
from lakelog.rpc.schema import from_proto_schema, to_proto_schema
from lakelog.rpc.snapshot import from_proto_snapshot, to_proto_snapshot
from lakelog.rpc.table import from_proto_table, to_proto_table
from lakelog.rpc.v1 import snapshots_pb2


def to_proto_plan_request(request: PlanRequest) -> snapshots_pb2.PlanRequest:
    """Translates a request for a plan.

    Raises:
        InvalidArgument: The predicate is nested too deep, or a number out of range.
    """
    message = build(
        snapshots_pb2.PlanRequest,
        table_uuid=request.table_uuid,
        predicate=None if request.predicate is None else to_proto_predicate(request.predicate),
        buckets=request.buckets,
        partitions=request.partitions,
        first_key=request.first_key,
        last_key=request.last_key,
        changelog=request.changelog,
        below_bytes=request.below_bytes,
        added_after=request.added_after,
        baseline=request.baseline,
        log=request.log,
        levels=request.levels,
        with_statistics=request.with_statistics,
        reads_changed_columns=request.reads_changed_columns,
    )
    match request.at:
        case AtSnapshot(snapshot_id):
            message.MergeFrom(build(snapshots_pb2.PlanRequest, snapshot_id=snapshot_id))
        case AtTime(timestamp_ms):
            message.MergeFrom(build(snapshots_pb2.PlanRequest, timestamp_ms=timestamp_ms))
        case AtTag(name):
            message.MergeFrom(build(snapshots_pb2.PlanRequest, tag=name))
        case InRange(after, until):
            message.range.CopyFrom(build(snapshots_pb2.SnapshotRange, after=after, until=until))
        case None:
            pass
    return message


def from_proto_plan_request(message: snapshots_pb2.PlanRequest) -> PlanRequest:
    """Translates a request for a plan back.

    Raises:
        InvalidArgument: A node of the predicate is empty.
    """
    at: AtSnapshot | AtTime | AtTag | InRange | None
    match message.WhichOneof("at"):
        case "snapshot_id":
            at = AtSnapshot(message.snapshot_id)
        case "timestamp_ms":
            at = AtTime(message.timestamp_ms)
        case "tag":
            at = AtTag(message.tag)
        case "range":
            at = InRange(message.range.after, message.range.until)
        case _:
            at = None
    return PlanRequest(
        table_uuid=message.table_uuid,
        at=at,
        predicate=from_proto_predicate(message.predicate) if message.HasField("predicate") else None,
        buckets=tuple(message.buckets),
        partitions=tuple(message.partitions),
        first_key=message.first_key if message.HasField("first_key") else None,
        last_key=message.last_key if message.HasField("last_key") else None,
        changelog=message.changelog,
        below_bytes=message.below_bytes,
        added_after=message.added_after,
        baseline=message.baseline,
        log=message.log,
        levels=tuple(message.levels),
        with_statistics=message.with_statistics,
        reads_changed_columns=message.reads_changed_columns,
    )


def to_proto_plan_header(header: PlanHeader) -> snapshots_pb2.PlanHeader:
    """Translates a plan's header."""
    return build(
        snapshots_pb2.PlanHeader,
        snapshot=None if header.snapshot is None else to_proto_snapshot(header.snapshot),
        schema=to_proto_schema(header.schema),
        file_schemas=[to_proto_schema(schema) for _, schema in sorted(header.file_schemas.items())],
        table=to_proto_table(header.table),
        range_snapshots=[to_proto_snapshot(snapshot) for snapshot in header.range_snapshots],
    )


def from_proto_plan_header(message: snapshots_pb2.PlanHeader) -> PlanHeader:
    """Translates a plan's header back.

    Raises:
        InvalidArgument: A schema cannot be read.
    """
    file_schemas = [from_proto_schema(schema, "header.file_schemas") for schema in message.file_schemas]
    return PlanHeader(
        table=from_proto_table(message.table),
        schema=from_proto_schema(message.schema, "header.schema"),
        file_schemas={schema.schema_id: schema for schema in file_schemas},
        snapshot=from_proto_snapshot(message.snapshot) if message.HasField("snapshot") else None,
        range_snapshots=tuple([from_proto_snapshot(snapshot) for snapshot in message.range_snapshots]),
    )
