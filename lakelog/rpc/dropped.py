"""Dropped tables on the wire."""

from __future__ import annotations

from lakelog.format.retention.dropped import DroppedTable, RestoredTable
from lakelog.rpc.table import TABLE_NAME, from_proto_table, to_proto_table
from lakelog.rpc.translation import Translation
from lakelog.rpc.v1 import dropped_pb2

to_proto_dropped, from_proto_dropped = Translation(
    DroppedTable, dropped_pb2.DroppedTable, fields={"name": TABLE_NAME.both}
).both
to_proto_restored, from_proto_restored = Translation(
    RestoredTable, dropped_pb2.RestoreTableResponse, fields={"table": (to_proto_table, from_proto_table)}
).both
