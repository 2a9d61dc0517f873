"""DroppedTableService: from messages to use cases and back, nothing else."""

from __future__ import annotations

from typing import Any

import grpc

from lakelog.rpc.messages import build, refusal
from lakelog.rpc.retention import to_proto_dropped, to_proto_restored
from lakelog.rpc.table import from_proto_table_name
from lakelog.rpc.v1 import dropped_pb2, dropped_pb2_grpc

from ...tables.dropped import DroppedTables
from ..callers import principal

Context = grpc.aio.ServicerContext[Any, Any]


class DroppedTableServicer(dropped_pb2_grpc.DroppedTableServiceServicer):
    """Dropped tables."""

    def __init__(self, dropped_tables: DroppedTables) -> None:
        self._dropped_tables = dropped_tables

    async def ListDroppedTables(  # noqa: N802
        self, request: dropped_pb2.ListDroppedTablesRequest, context: Context
    ) -> dropped_pb2.ListDroppedTablesResponse:
        """Lists dropped tables."""
        found = await self._dropped_tables.list_dropped_tables(request.database)
        return dropped_pb2.ListDroppedTablesResponse(tables=[to_proto_dropped(table) for table in found])

    async def RestoreTable(  # noqa: N802
        self, request: dropped_pb2.RestoreTableRequest, context: Context
    ) -> dropped_pb2.RestoreTableResponse:
        """Restores a table."""
        if not request.HasField("name"):
            raise refusal("name", "is not given", "Name the table as it was called")
        restored = await self._dropped_tables.restore_table(
            from_proto_table_name(request.name),
            table_uuid=request.table_uuid,
            new_name=from_proto_table_name(request.new_name) if request.HasField("new_name") else None,
        )
        return to_proto_restored(restored)

    async def BeginPurge(  # noqa: N802
        self, request: dropped_pb2.BeginPurgeRequest, context: Context
    ) -> dropped_pb2.BeginPurgeResponse:
        """Begins to purge a table."""
        dropped = await self._dropped_tables.begin_purge(request.job_id, request.epoch, by=principal())
        return dropped_pb2.BeginPurgeResponse(table=to_proto_dropped(dropped))

    async def PurgeRows(  # noqa: N802
        self, request: dropped_pb2.PurgeRowsRequest, context: Context
    ) -> dropped_pb2.PurgeRowsResponse:
        """Deletes some records of a purged table."""
        count = await self._dropped_tables.purge_rows(request.job_id, request.epoch, by=principal())
        return build(dropped_pb2.PurgeRowsResponse, deleted_rows=count)
