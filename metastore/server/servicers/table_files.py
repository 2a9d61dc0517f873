"""TableFileService: from messages to use cases and back, nothing else."""

from __future__ import annotations

from typing import Any

import grpc

from lakelog.rpc.table_files import (
    to_proto_attempt,
    to_proto_found_files,
    to_proto_partition_page,
    to_proto_used_page,
)
from lakelog.rpc.v1 import table_files_pb2, table_files_pb2_grpc

from ...tables.table_files import TableFiles
from ..callers import principal

Context = grpc.aio.ServicerContext[Any, Any]


class TableFileServicer(table_files_pb2_grpc.TableFileServiceServicer):
    """Files of tables, and attempts that are over."""

    def __init__(self, table_files: TableFiles) -> None:
        self._table_files = table_files

    async def FindUsedFiles(  # noqa: N802
        self, request: table_files_pb2.FindUsedFilesRequest, context: Context
    ) -> table_files_pb2.FindUsedFilesResponse:
        """Returns which files a table refers to."""
        return to_proto_found_files(await self._table_files.find_used_files(request.table_uuid, tuple(request.paths)))

    async def ListUsedFiles(  # noqa: N802
        self, request: table_files_pb2.ListUsedFilesRequest, context: Context
    ) -> table_files_pb2.ListUsedFilesResponse:
        """Lists the files that a table refers to."""
        page = await self._table_files.list_used_files(request.table_uuid, request.cursor, request.limit)
        return to_proto_used_page(page)

    async def ListPartitionFiles(  # noqa: N802
        self, request: table_files_pb2.ListPartitionFilesRequest, context: Context
    ) -> table_files_pb2.ListPartitionFilesResponse:
        """Lists partitions."""
        after = request.after if request.HasField("after") else None
        page = await self._table_files.list_partition_files(request.table_uuid, after, request.limit)
        return to_proto_partition_page(page)

    async def ListUnfinishedAttempts(  # noqa: N802
        self, request: table_files_pb2.ListUnfinishedAttemptsRequest, context: Context
    ) -> table_files_pb2.ListUnfinishedAttemptsResponse:
        """Lists attempts that were not committed."""
        found = await self._table_files.list_unfinished_attempts(
            request.table_uuid, open_ms=request.open_ms, aborted_ms=request.aborted_ms, limit=request.limit
        )
        return table_files_pb2.ListUnfinishedAttemptsResponse(attempts=[to_proto_attempt(each) for each in found])

    async def AbortAttempts(  # noqa: N802
        self, request: table_files_pb2.AbortAttemptsRequest, context: Context
    ) -> table_files_pb2.AbortAttemptsResponse:
        """Aborts attempts."""
        aborted = await self._table_files.abort_attempts(
            request.table_uuid, tuple(request.attempt_ids), request.open_ms, by=principal()
        )
        return table_files_pb2.AbortAttemptsResponse(aborted_attempt_ids=aborted)

    async def ForgetAttempts(  # noqa: N802
        self, request: table_files_pb2.ForgetAttemptsRequest, context: Context
    ) -> table_files_pb2.ForgetAttemptsResponse:
        """Forgets attempts."""
        count = await self._table_files.forget_attempts(request.table_uuid, tuple(request.attempt_ids), by=principal())
        return table_files_pb2.ForgetAttemptsResponse(forgotten=count)
