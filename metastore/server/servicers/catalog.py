"""CatalogService: methods whose arguments and messages differ."""

from __future__ import annotations

from typing import Any

import grpc

from lakelog.format.tables.table import TableName
from lakelog.rpc.messages import refusal
from lakelog.rpc.schema import from_ipc_schema
from lakelog.rpc.table import from_proto_table_name, to_proto_table
from lakelog.rpc.v1 import catalog_pb2

from ...use_cases import UseCases
from ..callers import principal
from .unary import Servicer

Context = grpc.aio.ServicerContext[Any, Any]


class CatalogServicer(Servicer):
    """Databases and tables."""

    def __init__(self, use_cases: UseCases) -> None:
        super().__init__(catalog_pb2.DESCRIPTOR.services_by_name["CatalogService"], use_cases)
        self._catalog = use_cases.catalog

    async def CreateTable(
        self, request: catalog_pb2.CreateTableRequest, context: Context
    ) -> catalog_pb2.CreateTableResponse:
        table, created = await self._catalog.create_table(
            TableName(request.database, request.name),
            from_ipc_schema(request.arrow_schema, "arrow_schema"),
            primary_key=tuple(request.primary_key),
            partition_by=tuple(request.partition_by),
            options=dict(request.options),
            if_not_exists=request.if_not_exists,
            comment=request.comment,
            by=principal(),
        )
        return catalog_pb2.CreateTableResponse(table=to_proto_table(table), created=created)

    async def GetTable(self, request: catalog_pb2.GetTableRequest, context: Context) -> catalog_pb2.GetTableResponse:
        match request.WhichOneof("by"):
            case "name":
                table = await self._catalog.get_table(from_proto_table_name(request.name))
            case "table_uuid":
                table = await self._catalog.get_table_by_uuid(request.table_uuid)
            case _:
                raise refusal("by", "is not given", "Set `name` or `table_uuid`")
        return catalog_pb2.GetTableResponse(table=to_proto_table(table))

    async def DropTable(self, request: catalog_pb2.DropTableRequest, context: Context) -> catalog_pb2.DropTableResponse:
        name = TableName(request.database, request.name)
        dropped = await self._catalog.drop_table(name, if_exists=request.if_exists)
        return catalog_pb2.DropTableResponse(dropped=dropped)
