"""Dropped tables over gRPC."""

from __future__ import annotations

from lakelog.client.connection.calls import Calls
from lakelog.format.retention.dropped import DroppedTable, RestoredTable
from lakelog.format.tables.table import TableName
from lakelog.rpc.messages import build
from lakelog.rpc.retention import from_proto_dropped, from_proto_restored
from lakelog.rpc.table import to_proto_table_name
from lakelog.rpc.v1 import dropped_pb2


class GrpcDropped:
    """The part of `lakelog.client.metastore.metastore.Metastore` that is about dropped tables."""

    _calls: Calls

    def list_dropped_tables(self, database: str = "") -> list[DroppedTable]:
        """The dropped tables that are still known, the newest first."""
        request = build(dropped_pb2.ListDroppedTablesRequest, database=database)
        response = self._calls.read("ListDroppedTables", lambda on: on.dropped.ListDroppedTables, request)
        return [from_proto_dropped(table) for table in response.tables]

    def restore_table(
        self, name: TableName, *, table_uuid: str = "", new_name: TableName | None = None
    ) -> RestoredTable:
        """Makes a dropped table live again. Not repeated after an unknown outcome: a repeat would restore another."""
        request = build(
            dropped_pb2.RestoreTableRequest,
            name=to_proto_table_name(name),
            table_uuid=table_uuid,
            new_name=None if new_name is None else to_proto_table_name(new_name),
        )
        response = self._calls.mutate("RestoreTable", lambda on: on.dropped.RestoreTable, request, repeat_unknown=False)
        return from_proto_restored(response)

    def begin_purge(self, job_id: int, epoch: int) -> DroppedTable:
        """Notes that a table can no longer be restored. Repeated: idempotent."""
        request = build(dropped_pb2.BeginPurgeRequest, job_id=job_id, epoch=epoch)
        response = self._calls.mutate("BeginPurge", lambda on: on.dropped.BeginPurge, request)
        return from_proto_dropped(response.table)

    def purge_rows(self, job_id: int, epoch: int) -> int:
        """Deletes some of a table's rows in the metastore. Repeated: idempotent."""
        request = build(dropped_pb2.PurgeRowsRequest, job_id=job_id, epoch=epoch)
        return self._calls.mutate("PurgeRows", lambda on: on.dropped.PurgeRows, request).deleted_rows
