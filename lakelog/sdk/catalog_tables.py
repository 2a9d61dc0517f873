"""Databases, tables, and transactions over them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Self, Unpack

import pyarrow as pa

from lakelog.annotations import Condition, OptionValue, Parameters, SchemaLike, Value
from lakelog.arguments import check_flag, check_text, parse_table_name, to_list, to_option_texts, to_schema, to_texts
from lakelog.client.metastore.metastore import ReadyWatches
from lakelog.context import Context
from lakelog.errors import InvalidArgument, NotFound
from lakelog.format.jobs.overview import Overview
from lakelog.format.jobs.presence import Service
from lakelog.format.tables.grant import Identity
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.defaults import with_defaults
from lakelog.reads.streams.request import check_together
from lakelog.reads.streams.subscribe import subscribe
from lakelog.reads.streams.subscription import Subscription
from lakelog.sdk.conditions import to_condition
from lakelog.sdk.maintenance.dropped import restore_table, to_dropped_table
from lakelog.sdk.system_table import SystemTable
from lakelog.sdk.tables.table import Table
from lakelog.sdk.transaction import Transaction
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.objects.stores import Stores
from lakelog.system_tables.registry import is_system_name, parse_system_name, refuse_write
from lakelog.writes.commit_options import TransactionOptions, read_transaction_options
from lakelog.writes.write_state import WriteState


class CatalogTables:
    """All of `lakelog.Catalog` except SQL, which is built on it.

    Args:
        context: The metastore, stores, caches and clock.
        writes: State that all writes of this catalog share.
        name: Its name in the file of catalogs; empty: it has none.
        connect: Connects to another catalog by its name; None: there are no others.
    """

    def __init__(
        self, context: Context, writes: WriteState, name: str = "", connect: Callable[[str], Self] | None = None
    ) -> None:
        self.context: Final = context
        self.metastore: Final = context.metastore
        self.name: Final = name
        self._writes = writes
        self._connect = connect
        self._others: dict[str, Self] = {}
        self._opener: Self | None = None

    def __getstate__(self) -> dict[str, object]:
        # Others are connected again by their names, so that a copy has no token but its own.
        return self.__dict__ | {"_others": {}, "_opener": None}

    def __repr__(self) -> str:
        return f"<lakelog catalog of {self.metastore!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connections to the metastore and to brokers, also those of other catalogs; idempotent.

        Tables of these catalogs cannot be used afterwards. A catalog that another one has opened ends only its own.
        """
        for other in list(self._others.values()):
            other.close()
        if self._opener is not None and self._opener._others.get(self.name) is self:
            del self._opener._others[self.name]
        self._writes.close()
        self.context.close()

    def with_ready_watches(self, watches: ReadyWatches) -> Self:
        """Returns the same catalog, whose subscriptions wait by these watches; see `Context.ready_watches`."""
        made = copy.copy(self)
        vars(made)["context"] = replace(self.context, ready_watches=watches)
        return made

    def catalog(self, name: str) -> Self:
        """Another catalog of the file LAKELOG_CATALOGS, or this one by its own name.

        Each is connected once, and closed together with the one from which the first was opened.

        Args:
            name: The catalog's name.

        Raises:
            InvalidArgument: There is no file of catalogs, or it cannot be used.
            NotFound: The file has no such catalog; the message lists those that it has.
        """
        check_text(name, "catalog", "sales")
        if not name:
            raise InvalidArgument(
                "catalog='' names no catalog: give a name of the file LAKELOG_CATALOGS, for instance 'sales'.",
                metadata={"field": "catalog"},
            )
        if name == self.name:
            return self
        if self._opener is not None:
            return self._opener.catalog(name)
        if self._connect is None:
            raise InvalidArgument(
                f"The catalog '{name:.80}' is not known here: this catalog was not made by lakelog.connect.",
                metadata={"field": "catalog"},
            )
        found = self._others.get(name)
        if found is None:
            found = self._connect(name)
            found._opener = self
            # Of two threads that connect, one keeps its connection; a catalog that is not used opens none.
            found = self._others.setdefault(name, found)
        return found

    # Databases

    def create_database(self, name: str, *, if_not_exists: bool = False, comment: str = "") -> bool:
        """Makes a database.

        Returns:
            False if the database existed and `if_not_exists` was given.

        Raises:
            AlreadyExists: A database of this name exists.
            InvalidArgument: The name is not `[A-Za-z_][A-Za-z0-9_]{0,127}`.
        """
        check_text(name, "name", "shop")
        check_flag(if_not_exists, "if_not_exists")
        check_text(comment, "comment", "what it is for")
        return self.metastore.create_database(name, if_not_exists=if_not_exists, comment=comment)

    def databases(self) -> list[str]:
        """Names of all databases, sorted."""
        return [database.name for database in self.metastore.list_databases()]

    def drop_database(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> bool:
        """Removes a database; with `cascade` its tables too.

        Returns:
            False if there was none and `if_exists` was given.

        Raises:
            NotFound: The database does not exist.
            InvalidArgument: It has tables and `cascade` was not given.
        """
        check_text(name, "name", "shop")
        check_flag(if_exists, "if_exists")
        check_flag(cascade, "cascade")
        return self.metastore.drop_database(name, if_exists=if_exists, cascade=cascade)

    # Tables

    def create_table(
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

        Args:
            name: `database.table`; the database must exist.
            schema: A pyarrow schema, or any object with the Arrow C schema interface. Types are stored in their
                canonical form: large strings as strings, coarser timestamps in microseconds, and so on.
            primary_key: Names of the primary key's columns; none: an append table.
            partition_by: Names of the partition columns; in a table with a primary key they must be part of it.
            options: Table options by key.
            if_not_exists: Return a table of this name as it is, even if it differs.
            comment: What it is for.
            defaults: By column: what writes store that leave it out.

        Raises:
            AlreadyExists: A table of this name exists, or another table has this `kafka.topic` as its log.
            NotFound: There is no such database.
            InvalidArgument: Schema, keys or options are not possible; says which and what to do.
            PermissionDenied, Unavailable: The brokers of its log are not allowed or refuse the connection; or do not
                answer.
        """
        check_flag(if_not_exists, "if_not_exists")
        check_text(comment, "comment", "what it is for")
        refuse_write(name, "made")
        info, _ = self.metastore.create_table(
            parse_table_name(name),
            with_defaults(to_schema(schema), defaults or {}),
            primary_key=to_texts(primary_key, "primary_key", "column names"),
            partition_by=to_texts(partition_by, "partition_by", "column names"),
            options=to_option_texts({} if options is None else options),
            if_not_exists=if_not_exists,
            comment=comment,
        )
        return self._to_table(info)

    def table(self, name: str) -> Table:
        """Returns a table by its full name `database.table`.

        Raises:
            NotFound: There is no such table; names the nearest ones.
        """
        try:
            return self._to_table(self.metastore.get_table(parse_table_name(name)))
        except (InvalidArgument, NotFound):
            if not is_system_name(name):
                raise
        # Names what is wrong with it, if it is none.
        found = parse_system_name(name)
        raise InvalidArgument(
            f"'{found}' is a system table, which can only be read: by SELECT, or catalog.system_table('{found}').",
            reason="SYSTEM_TABLE",
            metadata={"table": str(found)},
        )

    def system_table(self, name: str) -> SystemTable:
        """Returns a system table: what lakelog knows of a table or of the catalog, as rows.

        Args:
            name: `database.table$files` and the like, or a catalog-wide one such as `sys.tables`. The page
                docs/system-tables.md has all of them with their columns. Of a table that is at hand,
                `Table.system_table` returns them as well.

        Raises:
            InvalidArgument: It is no such name.
            NotFound: There is no such system table, or no such table; names the nearest ones.
        """
        found = parse_system_name(name)
        if found.table is None:
            return SystemTable(self.context, found, None)
        return self._to_table(self.metastore.get_table(found.table)).system_table(found.declaration.name)

    def tables(self, database: str) -> list[str]:
        """Names of a database's tables, sorted."""
        check_text(database, "database", "shop")
        return self.metastore.list_tables(database)

    def drop_table(self, name: str, *, if_exists: bool = False) -> bool:
        """Removes a table. It can be restored for a time that the metastore's operator sets.

        Returns:
            False if there was none and `if_exists` was given.

        Raises:
            NotFound: The table does not exist.
        """
        check_flag(if_exists, "if_exists")
        refuse_write(name, "dropped")
        return self.metastore.drop_table(parse_table_name(name), if_exists=if_exists)

    def restore_table(self, name: str, uuid: str | None = None, as_name: str | None = None) -> Table:
        """Restores a dropped table with its snapshots, options, consumers and the progress of its writers.

        Args:
            name: `database.table`, its name before. A dropped database is created again.
            uuid: Which table of this name; None: the one that was dropped last.
            as_name: A new name for it, in a database that exists; None: the name before.

        Raises:
            NotFound: No such table can be restored; compactors delete a dropped table after its retention.
            AlreadyExists: The name is in use again: give `as_name`. Or its `kafka.topic` is the log of another table
                now: drop that table first.
        """
        return self._to_table(restore_table(self.metastore, name, uuid, as_name).table)

    def dropped_tables(self, database: str) -> pa.Table:
        """Lists the dropped tables of a database that are still known, the newest first.

        Returns:
            Columns name, uuid, dropped_at, kept_until (until then it can certainly be restored), restorable, location.
        """
        check_text(database, "database", "shop")
        return to_dropped_table(self.metastore.list_dropped_tables(database))

    # Services

    def services(self) -> list[Service]:
        """Lists the service processes that report to the metastore: writers, publishers, compactors, readers, itself.

        A process that stops reporting is silent after some seconds, then gone, and leaves the list ten minutes later.
        A process that ends in good order leaves it at once. `Service.liveness` says which.

        Returns:
            The processes, ordered by kind, host, start and instance.
        """
        return self.metastore.list_services()

    def overview(self) -> Overview:
        """Returns sums over the tables that this caller may read, and what waits: jobs, logs and consumers.

        It costs the metastore a few milliseconds with thousands of tables. What waits is measured about every ten
        seconds; `work_age_ms` says how long ago. `lakelog status` lists what is wrong.
        """
        return self.metastore.get_overview()

    def whoami(self, tables: Sequence[str] = ()) -> Identity:
        """Returns who you are, as the metastore knows you: name, role, and how you signed in.

        Args:
            tables: Names of tables; `levels` says what you may do at each, by its name.

        Raises:
            NotFound: There is no such table, or, with PermissionDenied, you may not know of it.
        """
        uuids = {self.table(name).uuid: name for name in to_texts(tables, "tables", "names of tables")}
        found = self.metastore.who_am_i(list(uuids))
        return replace(found, levels={uuids[uuid]: level for uuid, level in found.levels.items()})

    # Transactions

    def transaction(self, **commit: Unpack[TransactionOptions]) -> Transaction:
        """Begins a transaction: all writes through it become visible together, or not at all.

        For example::

            with catalog.transaction() as tx:
                tx.table("shop.orders").upsert(orders)
                tx.table("shop.items").append(items)
            tx.result.snapshot_ids

        Without `with`, it commits only when `commit` is called.

        Args:
            **commit: See `TransactionOptions`; watermark and properties apply to every table written to.
        """
        return Transaction(self.context, self._writes, *read_transaction_options("transaction", commit))

    # Streams

    def subscribe(
        self,
        tables: Sequence[str],
        scan_mode: str | None = None,
        consumer_id: str | None = None,
        auto_commit: bool = True,
        *,
        columns: Mapping[str, Sequence[str]] | None = None,
        filter: Mapping[str, Condition] | None = None,  # noqa: A002
        params: Mapping[str, Parameters] | None = None,
        options: Mapping[str, OptionValue] | None = None,
        reader: str | None = None,
    ) -> Subscription:
        """Subscribes to several tables, so that changes that were committed together are seen together.

        Works as `lakelog.Table.subscribe`, with these differences. The batches of a transaction over several of the
        tables follow each other without another commit in between, and the position moves only when all are done. The
        initial rows do not contain half of a transaction either. Commits to a single table wait only for earlier
        commits to the same table.

        Args:
            tables: Full names `database.table`, each once.
            scan_mode: As of `Table.subscribe`, but no mode that names a snapshot.
            consumer_id: The consumer that keeps the position in all of the tables.
            auto_commit: As of `Table.subscribe`.
            columns: Names of the columns by table; a table that is missing here shows all.
            filter: Conditions by table.
            params: Values of their `:name` parameters, by table.
            options: As of `Table.subscribe`, for all tables.
            reader: As of `Table.subscribe`.

        Raises:
            InvalidArgument: An argument is not possible, or the consumer has a position in only some of the tables.
            NotFound: There is no such table.
            SnapshotExpired: The consumer's next change of a table is no longer kept.
        """
        names = [parse_table_name(name) for name in to_list(tables, "tables", "table names")]
        check_together(names, {"columns": columns, "filter": filter, "params": params})
        conditions = {name: to_condition(each, (params or {}).get(name)) for name, each in (filter or {}).items()}
        for name in params or {}:
            if name not in conditions:
                to_condition(None, (params or {})[name])
        return subscribe(
            self.context,
            [self.metastore.get_table(name) for name in names],
            scan_mode=scan_mode,
            consumer_id=consumer_id,
            auto_commit=auto_commit,
            columns=columns or {},
            filters={name: each for name, each in conditions.items() if each is not None},
            options=options,
            reader=self.context.reader.resolve(reader),
        )

    # Writers

    def register_writer(self, writer: str) -> int:
        """Takes a writer's name, so that commits of an earlier holder under this name are refused from now on.

        For programs of which only one instance should work. An instance that was replaced but still runs gets Fenced at
        its next commit, and does not write beside its successor. All later commits of this catalog under the name carry
        the new epoch; transactions begun before do not. Once a name was registered, only a catalog that registered it
        can use it. Before its first write, a new instance registers the name and asks `last_identifier` where to go on.
        Copies of the catalog that are pickled after that count as the same instance.

        If the metastore loses commits of this catalog under the name, for instance by a restore of its database, the
        next commit is refused (HistoryDiverged). Then register the name again, and go on as a new instance does.

        Returns:
            The epoch: 1 for the first holder of the name, higher for each later one.

        Raises:
            InvalidArgument: The name is not possible.
            PermissionDenied: The name belongs to another caller; see "Who owns what" in operations.md.
        """
        check_text(writer, "writer", "nightly")
        return self._writes.register_writer(writer)

    def writer_epoch(self, writer: str) -> int:
        """The epoch of this catalog's commits under the name `writer`; 0 if it has not registered the name."""
        return self._writes.epoch_of(writer)

    def last_identifier(self, writer: str, table: str) -> int | None:
        """The highest identifier that a writer has committed to a table, including empty commits; None: none.

        Args:
            writer: The writer's name.
            table: `database.table`.

        Raises:
            NotFound: There is no such table.
        """
        check_text(writer, "writer", "nightly")
        info = self.metastore.get_table(parse_table_name(table))
        return self.metastore.get_writer_progress(writer, info.table_uuid).last_identifier

    def open_store(self, info: TableInfo) -> ObjectStore:
        """Opens the store with a table's files."""
        return self.context.open_store(info)

    @property
    def stores(self) -> Stores:
        """The stores that this catalog can open."""
        return self.context.stores

    def _to_table(self, info: TableInfo) -> Table:
        return Table(self.context, self._writes, info)
