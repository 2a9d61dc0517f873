"""Databases and tables of one metastore, for asyncio; `lakelog.aio.connect` makes it. Tasks may share it.

`dev/aio_classes.py` writes this file from `lakelog.sdk.catalog`; change that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

import pyarrow as pa

from lakelog.aio.open_catalog import OpenCatalog
from lakelog.aio.opening import Opening
from lakelog.aio.sdk.grants import Grants
from lakelog.aio.sdk.system_table import SystemTable
from lakelog.aio.sdk.table import Table
from lakelog.aio.sdk.transaction import Transaction
from lakelog.aio.subscription import Subscription, open_subscription
from lakelog.annotations import Condition, OptionValue, Parameters, SchemaLike, Value
from lakelog.format.jobs.overview import Overview
from lakelog.format.jobs.presence import Service
from lakelog.format.tables.grant import Identity
from lakelog.sdk.catalog import Catalog as BlockingCatalog
from lakelog.writes.commit_options import TransactionOptions

if TYPE_CHECKING:
    from lakelog.sql import SqlResult


class Catalog(OpenCatalog[BlockingCatalog]):
    """Databases and tables of one metastore, for asyncio; `lakelog.aio.connect` makes it. Tasks may share it."""

    async def create_database(self, name: str, *, if_not_exists: bool = False, comment: str = "") -> bool:
        """Makes a database.

        See `lakelog.Catalog.create_database`.
        """
        return await self._workers.change(
            lambda: self._blocking.create_database(name, if_not_exists=if_not_exists, comment=comment)
        )

    async def databases(self) -> list[str]:
        """Names of all databases, sorted.

        See `lakelog.Catalog.databases`.
        """
        return await self._workers.read(lambda: self._blocking.databases())

    async def drop_database(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> bool:
        """Removes a database; with `cascade` its tables too.

        See `lakelog.Catalog.drop_database`.
        """
        return await self._workers.change(
            lambda: self._blocking.drop_database(name, if_exists=if_exists, cascade=cascade)
        )

    async def create_table(
        self,
        name: str,
        schema: SchemaLike,
        *,
        primary_key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        options: Mapping[str, OptionValue] | None = None,
        if_not_exists: bool = False,
        comment: str = "",
        defaults: Mapping[str, Value] | None = None,
    ) -> Table:
        """Makes a table.

        See `lakelog.Catalog.create_table`.
        """
        return Table(
            await self._workers.change(
                lambda: self._blocking.create_table(
                    name,
                    schema,
                    primary_key=primary_key,
                    partition_by=partition_by,
                    options=options,
                    if_not_exists=if_not_exists,
                    comment=comment,
                    defaults=defaults,
                )
            ),
            self._workers,
        )

    async def table(self, name: str) -> Table:
        """Returns a table by its full name `database.table`.

        See `lakelog.Catalog.table`.
        """
        return Table(await self._workers.read(lambda: self._blocking.table(name)), self._workers)

    async def system_table(self, name: str) -> SystemTable:
        """Returns a system table: what lakelog knows of a table or of the catalog, as rows.

        See `lakelog.Catalog.system_table`.
        """
        return SystemTable(await self._workers.read(lambda: self._blocking.system_table(name)), self._workers)

    async def tables(self, database: str) -> list[str]:
        """Names of a database's tables, sorted.

        See `lakelog.Catalog.tables`.
        """
        return await self._workers.read(lambda: self._blocking.tables(database))

    async def drop_table(self, name: str, *, if_exists: bool = False) -> bool:
        """Removes a table. It can be restored for a time that the metastore's operator sets.

        See `lakelog.Catalog.drop_table`.
        """
        return await self._workers.change(lambda: self._blocking.drop_table(name, if_exists=if_exists))

    async def restore_table(self, name: str, uuid: str | None = None, as_name: str | None = None) -> Table:
        """Restores a dropped table with its snapshots, options, consumers and the progress of its writers.

        See `lakelog.Catalog.restore_table`.
        """
        return Table(
            await self._workers.change(lambda: self._blocking.restore_table(name, uuid, as_name)), self._workers
        )

    async def dropped_tables(self, database: str) -> pa.Table:
        """Lists the dropped tables of a database that are still known, the newest first.

        See `lakelog.Catalog.dropped_tables`.
        """
        return await self._workers.read(lambda: self._blocking.dropped_tables(database))

    async def services(self) -> list[Service]:
        """Lists the service processes that report to the metastore: writers, publishers, compactors, readers, itself.

        See `lakelog.Catalog.services`.
        """
        return await self._workers.read(lambda: self._blocking.services())

    async def overview(self) -> Overview:
        """Returns sums over the tables that this caller may read, and what waits: jobs, logs and consumers.

        See `lakelog.Catalog.overview`.
        """
        return await self._workers.change(lambda: self._blocking.overview())

    async def whoami(self, tables: Sequence[str] = ()) -> Identity:
        """Returns who you are, as the metastore knows you: name, role, and how you signed in.

        See `lakelog.Catalog.whoami`.
        """
        return await self._workers.change(lambda: self._blocking.whoami(tables))

    def transaction(self, **commit: Unpack[TransactionOptions]) -> Transaction:
        """Begins a transaction: all writes through it become visible together, or not at all.

        See `lakelog.Catalog.transaction`.
        """
        return Transaction(self._blocking.transaction(**commit), self._workers.in_turn())

    def subscribe(
        self,
        tables: Sequence[str],
        scan_mode: str | None = None,
        consumer_id: str | None = None,
        auto_commit: bool = True,
        *,
        columns: Mapping[str, Sequence[str]] | None = None,
        filter: Mapping[str, Condition] | None = None,
        params: Mapping[str, Parameters] | None = None,
        options: Mapping[str, OptionValue] | None = None,
        reader: str | None = None,
    ) -> Opening[Subscription]:
        """Subscribes to several tables, so that changes that were committed together are seen together.

        See `lakelog.Catalog.subscribe`.
        """
        return Opening(
            lambda: open_subscription(
                lambda: self._blocking.subscribe(
                    tables,
                    scan_mode,
                    consumer_id,
                    auto_commit,
                    columns=columns,
                    filter=filter,
                    params=params,
                    options=options,
                    reader=reader,
                ),
                self._workers,
            )
        )

    async def register_writer(self, writer: str) -> int:
        """Takes a writer's name, so that commits of an earlier holder under this name are refused from now on.

        See `lakelog.Catalog.register_writer`.
        """
        return await self._workers.change(lambda: self._blocking.register_writer(writer))

    def writer_epoch(self, writer: str) -> int:
        """The epoch of this catalog's commits under the name `writer`; 0 if it has not registered the name.

        See `lakelog.Catalog.writer_epoch`.
        """
        return self._blocking.writer_epoch(writer)

    async def last_identifier(self, writer: str, table: str) -> int | None:
        """The highest identifier that a writer has committed to a table, including empty commits; None: none.

        See `lakelog.Catalog.last_identifier`.
        """
        return await self._workers.read(lambda: self._blocking.last_identifier(writer, table))

    @property
    def grants(self) -> Grants:
        """What other callers may do with databases and tables."""
        return Grants(self._blocking.grants, self._workers)

    async def sql(self, statement: str, *, database: str | None = None, params: Parameters | None = None) -> SqlResult:
        """Runs one SQL statement; `lakelog.sql.SqlSession` runs several, with a current database that USE changes."""
        return await self._workers.change(lambda: self._blocking.sql(statement, database=database, params=params))
