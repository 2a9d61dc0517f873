"""CatalogService: from messages to use cases and back, nothing else."""

from __future__ import annotations

from typing import Any

import grpc

from lakelog.format.tables.table import TableName
from lakelog.rpc.messages import refusal
from lakelog.rpc.schema import from_ipc_schema, to_proto_schema
from lakelog.rpc.table import from_proto_table_name, to_proto_database, to_proto_table
from lakelog.rpc.v1 import catalog_pb2, catalog_pb2_grpc

from ...tables.catalog import Catalog

Context = grpc.aio.ServicerContext[Any, Any]


class CatalogServicer(catalog_pb2_grpc.CatalogServiceServicer):
    """Databases and tables."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def CreateDatabase(  # noqa: N802
        self, request: catalog_pb2.CreateDatabaseRequest, context: Context
    ) -> catalog_pb2.CreateDatabaseResponse:
        """Makes a database."""
        created = await self._catalog.create_database(
            request.name, if_not_exists=request.if_not_exists, comment=request.comment
        )
        return catalog_pb2.CreateDatabaseResponse(created=created)

    async def ListDatabases(  # noqa: N802
        self, request: catalog_pb2.ListDatabasesRequest, context: Context
    ) -> catalog_pb2.ListDatabasesResponse:
        """Lists all databases by name."""
        databases = await self._catalog.list_databases()
        return catalog_pb2.ListDatabasesResponse(databases=[to_proto_database(database) for database in databases])

    async def DropDatabase(  # noqa: N802
        self, request: catalog_pb2.DropDatabaseRequest, context: Context
    ) -> catalog_pb2.DropDatabaseResponse:
        """Removes a database."""
        dropped = await self._catalog.drop_database(request.name, if_exists=request.if_exists, cascade=request.cascade)
        return catalog_pb2.DropDatabaseResponse(dropped=dropped)

    async def CreateTable(  # noqa: N802
        self, request: catalog_pb2.CreateTableRequest, context: Context
    ) -> catalog_pb2.CreateTableResponse:
        """Makes a table."""
        table, created = await self._catalog.create_table(
            TableName(request.database, request.name),
            from_ipc_schema(request.arrow_schema, "arrow_schema"),
            primary_key=tuple(request.primary_key),
            partition_by=tuple(request.partition_by),
            options=dict(request.options),
            if_not_exists=request.if_not_exists,
            comment=request.comment,
        )
        return catalog_pb2.CreateTableResponse(table=to_proto_table(table), created=created)

    async def GetTable(  # noqa: N802
        self, request: catalog_pb2.GetTableRequest, context: Context
    ) -> catalog_pb2.GetTableResponse:
        """Returns one table."""
        match request.WhichOneof("by"):
            case "name":
                table = await self._catalog.get_table(from_proto_table_name(request.name))
            case "table_uuid":
                table = await self._catalog.get_table_by_uuid(request.table_uuid)
            case _:
                raise refusal("by", "is not given", "Set `name` or `table_uuid`")
        return catalog_pb2.GetTableResponse(table=to_proto_table(table))

    async def ListTables(  # noqa: N802
        self, request: catalog_pb2.ListTablesRequest, context: Context
    ) -> catalog_pb2.ListTablesResponse:
        """Lists the tables of a database by name."""
        return catalog_pb2.ListTablesResponse(names=await self._catalog.list_tables(request.database))

    async def AlterTable(  # noqa: N802
        self, request: catalog_pb2.AlterTableRequest, context: Context
    ) -> catalog_pb2.AlterTableResponse:
        """Changes options."""
        table = await self._catalog.alter_table(
            request.table_uuid, set_options=dict(request.set_options), unset_options=tuple(request.unset_options)
        )
        return catalog_pb2.AlterTableResponse(table=to_proto_table(table))

    async def DropTable(  # noqa: N802
        self, request: catalog_pb2.DropTableRequest, context: Context
    ) -> catalog_pb2.DropTableResponse:
        """Removes a table from the catalog."""
        name = TableName(request.database, request.name)
        dropped = await self._catalog.drop_table(name, if_exists=request.if_exists)
        return catalog_pb2.DropTableResponse(dropped=dropped)

    async def ListSchemas(  # noqa: N802
        self, request: catalog_pb2.ListSchemasRequest, context: Context
    ) -> catalog_pb2.ListSchemasResponse:
        """Lists the versions of a table's schema."""
        schemas = await self._catalog.list_schemas(request.table_uuid)
        return catalog_pb2.ListSchemasResponse(schemas=[to_proto_schema(schema) for schema in schemas])
