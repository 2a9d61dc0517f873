"""Expiry, snapshot leases, consumers, tags and dropped tables on the wire."""

from __future__ import annotations

from typing import Final

from lakelog.errors import InternalError
from lakelog.format.retention.consumer import Consumer, ConsumerPosition
from lakelog.format.retention.dropped import DroppedTable, RestoredTable
from lakelog.format.retention.expiry import ExpiryStep, OverdueSnapshots, SnapshotLease, SnapshotLeaseKind
from lakelog.format.retention.tag import Tag
from lakelog.rpc.table import TABLE_NAME, from_proto_table, to_proto_table
from lakelog.rpc.translation import Translation
from lakelog.rpc.v1 import consumers_pb2, dropped_pb2, retention_pb2, tags_pb2


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

to_proto_consumer, from_proto_consumer = Translation(
    Consumer, consumers_pb2.Consumer, names={"is_expired": "expired"}
).both
to_proto_position, from_proto_position = Translation(ConsumerPosition, consumers_pb2.ConsumerPosition).both

to_proto_tag, from_proto_tag = Translation(Tag, tags_pb2.Tag).both

to_proto_dropped, from_proto_dropped = Translation(
    DroppedTable, dropped_pb2.DroppedTable, fields={"name": TABLE_NAME.both}
).both
to_proto_restored, from_proto_restored = Translation(
    RestoredTable, dropped_pb2.RestoreTableResponse, fields={"table": (to_proto_table, from_proto_table)}
).both
