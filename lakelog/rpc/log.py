"""External logs of tables on the wire."""

from __future__ import annotations

from lakelog.format.log.state import LogInfo
from lakelog.rpc.table import TABLE_NAME
from lakelog.rpc.translation import Translation
from lakelog.rpc.v1 import logs_pb2

to_proto_log, from_proto_log = Translation(LogInfo, logs_pb2.LogInfo, fields={"name": TABLE_NAME.both}).both
