"""Expiry and pins on the wire."""

from __future__ import annotations

from lakelog.errors import InternalError
from lakelog.format.retention.expiry import ExpiryStep, OverdueSnapshots, SnapshotLease, SnapshotLeaseKind
from lakelog.rpc.messages import build
from lakelog.rpc.v1 import retention_pb2


def to_proto_snapshot_lease(lease: SnapshotLease) -> retention_pb2.SnapshotLease:
    """Translates a pin."""
    return build(
        retention_pb2.SnapshotLease,
        kind=lease.kind.value,
        holder=lease.holder,
        snapshot_id=lease.snapshot_id,
        expires_at_ms=lease.expires_at_ms,
    )


def to_proto_overdue(overdue: OverdueSnapshots) -> retention_pb2.OverdueSnapshots:
    """Translates what would have expired but for a pin."""
    return build(
        retention_pb2.OverdueSnapshots,
        table=overdue.table,
        lease=to_proto_snapshot_lease(overdue.lease),
        count=overdue.count,
        since_ms=overdue.since_ms,
    )


def from_proto_overdue(message: retention_pb2.OverdueSnapshots) -> OverdueSnapshots:
    """Translates it back. Raises as `from_proto_snapshot_lease`."""
    return OverdueSnapshots(message.table, from_proto_snapshot_lease(message.lease), message.count, message.since_ms)


def from_proto_snapshot_lease(message: retention_pb2.SnapshotLease) -> SnapshotLease:
    """Translates a pin back.

    Raises:
        InternalError: It is of a kind that this version does not know.
    """
    try:
        kind = SnapshotLeaseKind(message.kind)
    except ValueError:
        raise InternalError(f"The metastore tells of a pin of the kind '{message.kind}'. Use a newer client.") from None
    return SnapshotLease(kind, message.holder, message.snapshot_id, message.expires_at_ms)


def to_proto_step(step: ExpiryStep) -> retention_pb2.ExpireSnapshotsResponse:
    """Translates what a step of expiry has done."""
    return build(
        retention_pb2.ExpireSnapshotsResponse,
        earliest_before=step.earliest_before,
        earliest=step.earliest,
        earliest_change_before=step.earliest_change_before,
        earliest_change=step.earliest_change,
        files=step.files,
        size_bytes=step.size_bytes,
        held_by=[to_proto_snapshot_lease(lease) for lease in step.held_by],
        named=step.named,
        is_done=step.is_done,
    )


def from_proto_step(message: retention_pb2.ExpireSnapshotsResponse) -> ExpiryStep:
    """Translates it back."""
    return ExpiryStep(
        earliest_before=message.earliest_before,
        earliest=message.earliest,
        earliest_change_before=message.earliest_change_before,
        earliest_change=message.earliest_change,
        files=message.files,
        size_bytes=message.size_bytes,
        held_by=tuple([from_proto_snapshot_lease(lease) for lease in message.held_by]),
        named=tuple(message.named),
        is_done=message.is_done,
    )
