"""Expiry and snapshot leases on the wire."""

from __future__ import annotations

from typing import Final

from lakelog.errors import InternalError
from lakelog.format.retention.expiry import ExpiryStep, OverdueSnapshots, SnapshotLease, SnapshotLeaseKind
from lakelog.rpc.translation import Translation
from lakelog.rpc.v1 import retention_pb2


def _from_proto_kind(kind: str) -> SnapshotLeaseKind:
    try:
        return SnapshotLeaseKind(kind)
    except ValueError:
        raise InternalError(
            f"The metastore names a snapshot lease of the kind '{kind}', which this version does not know. Use a newer "
            "client."
        ) from None


_LEASE: Final = Translation(
    SnapshotLease, retention_pb2.SnapshotLease, fields={"kind": (lambda kind: kind.value, _from_proto_kind)}
)
to_proto_snapshot_lease, from_proto_snapshot_lease = _LEASE.both
to_proto_overdue, from_proto_overdue = Translation(
    OverdueSnapshots, retention_pb2.OverdueSnapshots, fields={"lease": _LEASE.both}
).both
to_proto_step, from_proto_step = Translation(
    ExpiryStep, retention_pb2.ExpireSnapshotsResponse, fields={"held_by": _LEASE.both}
).both
