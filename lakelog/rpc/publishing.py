"""How far external logs are published, on the wire."""

from __future__ import annotations

from typing import Final

from lakelog.format.log.state import PublishReport, PublishState, SnapshotOffsets
from lakelog.rpc.translation import Translation
from lakelog.rpc.v1 import publishing_pb2

_OFFSETS: Final = Translation(SnapshotOffsets, publishing_pb2.SnapshotOffsets)
_STATE: Final = Translation(PublishState, publishing_pb2.GetPublishStateResponse, apart=("table_uuid",))
to_proto_offsets, from_proto_offsets = _OFFSETS.both
to_proto_report, from_proto_report = Translation(
    PublishReport, publishing_pb2.ReportPublishedRequest, fields={"snapshots": _OFFSETS.both}
).both
to_proto_publish_state = _STATE.to_proto


def from_proto_publish_state(message: publishing_pb2.GetPublishStateResponse, table_uuid: str) -> PublishState:
    """Translates how far a log is published back; the table is the one in the request."""
    return _STATE.from_proto(message, table_uuid=table_uuid)
