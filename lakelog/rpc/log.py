"""External logs of tables, and how far they are published, on the wire."""

from __future__ import annotations

from typing import Final

from lakelog.format.log.state import LogInfo, PublishReport, PublishState, SnapshotOffsets
from lakelog.rpc.table import TABLE_NAME
from lakelog.rpc.translation import Translation
from lakelog.rpc.v1 import logs_pb2, publishing_pb2

to_proto_log, from_proto_log = Translation(LogInfo, logs_pb2.LogInfo, fields={"name": TABLE_NAME.both}).both

_OFFSETS: Final = Translation(SnapshotOffsets, publishing_pb2.SnapshotOffsets)
_STATE: Final = Translation(PublishState, publishing_pb2.GetPublishStateResponse, apart=("table_uuid",))
to_proto_offsets, from_proto_offsets = _OFFSETS.both
to_proto_report, from_proto_report = Translation(
    PublishReport, publishing_pb2.ReportPublishedRequest, fields={"snapshots": _OFFSETS.both}
).both
to_proto_publish_state = _STATE.to_proto


def from_proto_publish_state(message: publishing_pb2.GetPublishStateResponse, table_uuid: str) -> PublishState:
    """Translates how far a log is published back; its table is that of the request."""
    return _STATE.from_proto(message, table_uuid=table_uuid)
