"""LogService: from messages to use cases and back, nothing else."""

from __future__ import annotations

from typing import Any

import grpc

from lakelog.rpc.log import to_proto_log
from lakelog.rpc.v1 import logs_pb2, logs_pb2_grpc

from ...logs.topics import LogTopics

Context = grpc.aio.ServicerContext[Any, Any]


class LogServicer(logs_pb2_grpc.LogServiceServicer):
    """Topics of logs."""

    def __init__(self, log_topics: LogTopics) -> None:
        self._log_topics = log_topics

    async def ListLogs(  # noqa: N802
        self, request: logs_pb2.ListLogsRequest, context: Context
    ) -> logs_pb2.ListLogsResponse:
        """Lists logs."""
        found = await self._log_topics.list_logs()
        return logs_pb2.ListLogsResponse(logs=[to_proto_log(log) for log in found])

    async def GetLog(  # noqa: N802
        self, request: logs_pb2.GetLogRequest, context: Context
    ) -> logs_pb2.GetLogResponse:
        """Describes a log."""
        return logs_pb2.GetLogResponse(log=to_proto_log(await self._log_topics.get_log(request.table_uuid)))

    async def RestartLog(  # noqa: N802
        self, request: logs_pb2.RestartLogRequest, context: Context
    ) -> logs_pb2.RestartLogResponse:
        """Restarts a log."""
        return logs_pb2.RestartLogResponse(log=to_proto_log(await self._log_topics.restart_log(request.table_uuid)))
