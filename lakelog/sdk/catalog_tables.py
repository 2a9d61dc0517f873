"""Databases, tables, and transactions over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self, Unpack

import pyarrow as pa

from lakelog.annotations import Condition, OptionValue, Parameters, SchemaLike
from lakelog.arguments import check_flag, check_text, parse_table_name, to_list, to_option_texts, to_schema, to_texts
from lakelog.context import Context
from lakelog.format.jobs.presence import Service
from lakelog.format.tables.table import TableInfo
from lakelog.reads.streams.request import check_together
from lakelog.reads.streams.subscribe import subscribe
from lakelog.reads.streams.subscription import Subscription
from lakelog.sdk.conditions import to_condition
from lakelog.sdk.maintenance.dropped import restore_table, to_dropped_table
from lakelog.sdk.tables.table import Table
from lakelog.sdk.transaction import Transaction
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.objects.stores import Stores
from lakelog.writes.commit_options import TransactionOptions, read_transaction_options
from lakelog.writes.write_state import WriteState


class CatalogTables:
    """All of `lakelog.Catalog` but its SQL, which is carried out by this.

    Args:
        context: Where everything is.
        writes: What all writes share.
    """

    def __init__(self, context: Context, writes: WriteState) -> None:
        self.context: Final = context
        self.metastore: Final = context.metastore
        self._writes = writes

    def __repr__(self) -> str:
        return f"<lakelog catalog of {self.metastore!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connections to the metastore and to brokers; idempotent.

        Tables of this catalog cannot be used afterwards.
        """
        self._writes.close()
        self.context.close()

    # Databases

    def create_database(self, name: str, *, if_not_exists: bool = False, comment: str = "") -> bool:
        """Makes a database.

        Returns:
            False when it existed and `if_not_exists` was given.

        Raises:
            AlreadyExists: There is one of this name.
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
            False when there was none and `if_exists` was given.

        Raises:
            NotFound: There is none.
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
    ) -> Table:
        """Makes a table.

        Args:
            name: `database.table`; the database must exist.
            schema: A pyarrow schema, or anything with the Arrow C schema interface. Types become their canonical
                form: large strings strings, coarser timestamps microseconds, and so on.
            primary_key: Names of the key's columns; none: an append table.
            partition_by: Names of the partition columns; with a primary key they must be part of it.
            options: Table options by key.
            if_not_exists: A table of this name is returned as it is, whatever it is like.
            comment: What it is for.

        Raises:
            AlreadyExists: There is one of this name, or its `kafka.topic` is the log of another.
            NotFound: There is no such database.
            InvalidArgument: Schema, keys or options are not possible; says which and what to do.
            PermissionDenied, Unavailable: Brokers of its log are not allowed or refuse us; or do not answer.
        """
        check_flag(if_not_exists, "if_not_exists")
        check_text(comment, "comment", "what it is for")
        info, _ = self.metastore.create_table(
            parse_table_name(name),
            to_schema(schema),
            primary_key=to_texts(primary_key, "primary_key", "column names"),
            partition_by=to_texts(partition_by, "partition_by", "column names"),
            options=to_option_texts({} if options is None else options),
            if_not_exists=if_not_exists,
            comment=comment,
        )
        return self._to_table(info)

    def table(self, name: str) -> Table:
        """A table by its full name `database.table`.

        Raises:
            NotFound: There is no such table; names the nearest ones.
        """
        return self._to_table(self.metastore.get_table(parse_table_name(name)))

    def tables(self, database: str) -> list[str]:
        """Names of a database's tables, sorted."""
        check_text(database, "database", "shop")
        return self.metastore.list_tables(database)

    def drop_table(self, name: str, *, if_exists: bool = False) -> bool:
        """Removes a table. For a while, which the metastore's operator sets, it can be restored.

        Returns:
            False when there was none and `if_exists` was given.

        Raises:
            NotFound: There is none.
        """
        check_flag(if_exists, "if_exists")
        return self.metastore.drop_table(parse_table_name(name), if_exists=if_exists)

    def restore_table(self, name: str, uuid: str | None = None, as_name: str | None = None) -> Table:
        """Makes a dropped table live again: snapshots, options, consumers and writers' progress are what they were.

        Args:
            name: `database.table`, as it was called. A database that was dropped is made again.
            uuid: Which table of this name; None: the one that was dropped last.
            as_name: What to call it, in a database that exists; None: as before.

        Raises:
            NotFound: There is none that could be restored; after its time compactors delete it.
            AlreadyExists: There is a table of this name by now: give `as_name`. Or its `kafka.topic` is the log of
                another by now: drop that one first.
        """
        return self._to_table(restore_table(self.metastore, name, uuid, as_name).table)

    def dropped_tables(self, database: str) -> pa.Table:
        """Lists the tables of a database that were dropped and are still known, the newest first.

        Returns:
            Columns name, uuid, dropped_at, kept_until (until then it can certainly be restored), restorable, location.
        """
        check_text(database, "database", "shop")
        return to_dropped_table(self.metastore.list_dropped_tables(database))

    # Services

    def services(self) -> list[Service]:
        """Lists the service processes that report to the metastore: writers, publishers, compactors, readers, itself.

        One that does not report any more is silent after some seconds, then gone, and is left out ten minutes later.
        One that ends in good order is left out at once. `Service.liveness` says which it is.

        Returns:
            By kind, host, start and instance.
        """
        return self.metastore.list_services()

    # Transactions

    def transaction(self, **commit: Unpack[TransactionOptions]) -> Transaction:
        """Begins a transaction: what is written through it becomes visible together, or not at all.

        For example::

            with catalog.transaction() as tx:
                tx.table("shop.orders").upsert(orders)
                tx.table("shop.items").append(items)
            tx.result.snapshot_ids

        Without `with`, nothing is committed until its `commit` is called.

        Args:
            **commit: See `TransactionOptions`; watermark and properties are for every table written to.
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
        """Subscribes to several tables, so that what was committed to them together is seen together.

        As `lakelog.Table.subscribe`, but for this: the batches of a transaction over several of the
        tables come one after the other, with none of another commit in between, and the position moves on only
        when all are done. The rows to begin with hold no half of a transaction either. Commits to single tables wait
        for nothing but those before them in their own table.

        Args:
            tables: Full names `database.table`, each once.
            scan_mode: As there, but no mode that names a snapshot.
            consumer_id: Keeps the position in all of the tables.
            auto_commit: As there.
            columns: Names of the columns by table; those that are missing show all.
            filter: Conditions by table.
            params: Values of their `:name` places, by table.
            options: As there, for all tables.
            reader: As there.

        Raises:
            InvalidArgument: An argument is not possible, or the consumer has a position in some of the tables only.
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
        """Takes a writer's name, so that an earlier holder who commits under it is refused from now on.

        For programs of which one instance shall work: one that was replaced, but hangs somewhere and does not know it,
        gets Fenced from its next commit instead of writing beside its successor. Every later commit of this catalog
        under the name carries the epoch, transactions begun before do not. A name that was ever registered can only be
        used by a catalog that registered it: before its first write, a new instance registers and asks
        `last_identifier` where to go on. Copies of the catalog made by pickling after that are the same instance.

        Returns:
            The epoch: 1 for the first who takes the name, higher for each later one.

        Raises:
            InvalidArgument: The name is not possible.
        """
        check_text(writer, "writer", "nightly")
        return self._writes.register_writer(writer)

    def writer_epoch(self, writer: str) -> int:
        """The epoch under which commits of this catalog by `writer` go; 0 when it has not registered the name."""
        return self._writes.epoch_of(writer)

    def last_identifier(self, writer: str, table: str) -> int | None:
        """The highest identifier that a writer has committed to a table, empty commits included; None: none.

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
        """Where a table's files are."""
        return self.context.open_store(info)

    @property
    def stores(self) -> Stores:
        """The stores that this catalog knows how to reach."""
        return self.context.stores

    def _to_table(self, info: TableInfo) -> Table:
        return Table(self.context, self._writes, info)
