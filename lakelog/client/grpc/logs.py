"""External logs of tables over gRPC."""

from __future__ import annotations

from lakelog.client.connection.calls import Calls
from lakelog.format.log.state import LogInfo
from lakelog.rpc.log import from_proto_log
from lakelog.rpc.messages import build
from lakelog.rpc.v1 import logs_pb2


class GrpcLogs:
    """The part of `lakelog.client.metastore.metastore.Metastore` that is about topics of logs."""

    _calls: Calls

    def list_logs(self) -> list[LogInfo]:
        """The logs of all tables that have one, by table uuid."""
        response = self._calls.read("ListLogs", lambda on: on.logs.ListLogs, logs_pb2.ListLogsRequest())
        return [from_proto_log(log) for log in response.logs]

    def get_log(self, table_uuid: str) -> LogInfo:
        """A table's log; NotFound if it has none or the table was dropped."""
        request = build(logs_pb2.GetLogRequest, table_uuid=table_uuid)
        return from_proto_log(self._calls.read("GetLog", lambda on: on.logs.GetLog, request).log)

    def restart_log(self, table_uuid: str) -> LogInfo:
        """Restarts a log. Not repeated after an unknown outcome: a repeat would restart it once more."""
        request = build(logs_pb2.RestartLogRequest, table_uuid=table_uuid)
        response = self._calls.mutate("RestartLog", lambda on: on.logs.RestartLog, request, repeat_unknown=False)
        return from_proto_log(response.log)
