"""A table as a user of the SDK holds it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakelog.arguments import to_option_texts
from lakelog.commit_note import CommitIdentity, make_note
from lakelog.consumers import Consumers
from lakelog.errors import InvalidArgument, NotFound
from lakelog.format.plan import PlanRequest
from lakelog.format.table import TableInfo
from lakelog.listings import list_snapshots, to_files_table, to_snapshots_table
from lakelog.options.table_options import ROWKIND_FIELD, STREAMING_READ_OVERWRITE
from lakelog.options.values import TableOptions
from lakelog.reading import settle_state
from lakelog.results import TransactionResult, WriteResult
from lakelog.scan import Scan, check_limit, check_range, plan_changes, plan_scan
from lakelog.subscribe import subscribe
from lakelog.subscription import Subscription
from lakelog.transaction import Transaction, TransactionTable

if TYPE_CHECKING:
    from lakelog.catalog import Catalog


class Table:
    """A table; `Catalog.table` and `Catalog.create_table` make it. Threads may share it; it pickles with its catalog.

    A handle stays with the table it was made for: when that is dropped, also when another one gets its name, every use
    raises NotFound. Every read and write goes by the options and the schema of that moment, quick appends and upserts
    by those of at most a second before; the properties tell what this handle heard last. `Catalog.table` asks anew.

    All writes take `writer` and `identifier`: the commit is applied once for them, whoever repeats it, however late
    (SEMANTICS.md 7.1); `previous_identifier` also refuses a gap in a writer's numbers. `watermark` (milliseconds since
    the epoch, or a datetime with a time zone) never makes the table's watermark fall, `properties` are remembered with
    the snapshot, and `allow_empty` makes a snapshot even without rows. A write raises InvalidArgument where the rows do
    not fit, with a line for each column that does not; CommitConflict where another commit came first; OutcomeUnknown
    where the answer was lost: repeat it with the same `writer` and `identifier` then. Whatever it raises, either all of
    its rows are visible or none.
    """

    def __init__(self, catalog: Catalog, info: TableInfo) -> None:
        self._catalog = catalog
        self._info = info

    def __reduce__(self) -> tuple[object, ...]:
        return (Table, (self._catalog, self._info))

    def __repr__(self) -> str:
        columns = ", ".join(f"{field.name}: {field.type}" for field in list(self._info.schema.arrow)[:20])
        more = "" if len(self._info.schema.arrow) <= 20 else ", ..."
        key = f", primary key {', '.join(self.primary_key)}" if self.primary_key else ""
        parts = f", partitioned by {', '.join(self.partition_by)}" if self.partition_by else ""
        return f"<table {self.name} ({columns}{more}){key}{parts}>"

    # What it is

    @property
    def info(self) -> TableInfo:
        """What the catalog knew of it when this handle was made, written to or altered last."""
        return self._info

    @property
    def name(self) -> str:
        """Its full name, `database.table`."""
        return str(self._info.name)

    @property
    def uuid(self) -> str:
        """Its identity: 32 hexadecimal digits; another table of the same name has another one."""
        return self._info.table_uuid

    @property
    def location(self) -> str:
        """The URI of the folder with its files."""
        return self._info.location

    @property
    def comment(self) -> str:
        """What it is for; may be empty."""
        return self._info.comment

    @property
    def schema(self) -> pa.Schema:
        """Its columns, as this handle heard of them last (see the class)."""
        return pa.schema([field.remove_metadata() for field in self._info.schema.arrow])

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Names of the primary key's columns; empty for an append table."""
        return self._info.schema.primary_key

    @property
    def partition_by(self) -> tuple[str, ...]:
        """Names of the partition columns; empty for none."""
        return self._info.schema.partition_by

    @property
    def options(self) -> dict[str, str]:
        """The options that were given, by key, as this handle heard of them last (see the class)."""
        return dict(self._info.options)

    def alter(self, *, set: Mapping[str, Any] | None = None, unset: Sequence[str] = ()) -> Table:  # noqa: A002
        """Changes options that may change.

        Args:
            set: New values by key.
            unset: Keys that shall have their defaults again.

        Returns:
            The table itself.

        Raises:
            InvalidArgument: An unknown option, a wrong value, or one that may not change, with the reason.
        """
        if isinstance(unset, str):
            raise InvalidArgument(f"unset='{unset}' is one text: give a list of keys, here ['{unset}'].")
        wanted = to_option_texts({} if set is None else set)
        alter = self._catalog.metastore.alter_table
        self._info = self._ask(lambda: alter(self.uuid, set_options=wanted, unset_options=tuple(unset)))
        self._catalog.attempts_ahead.forget(self.uuid)
        return self

    # Writing

    def append(
        self,
        data: Any,
        *,
        writer: str | None = None,
        identifier: int | None = None,
        previous_identifier: int | None = None,
        watermark: int | dt.datetime | None = None,
        properties: Mapping[str, str] | None = None,
        allow_empty: bool = False,
    ) -> WriteResult:
        """Adds rows; in a table with a primary key they take the place of those of the same key, as by `upsert`.

        Args:
            data: Anything with the Arrow C stream interface (pyarrow, polars, pandas, duckdb), or an iterator of
                such things, which is read piece by piece in bounded memory.
            writer: See the class, as for the following ones.
            identifier: See the class.
            previous_identifier: See the class.
            watermark: See the class.
            properties: See the class.
            allow_empty: See the class.
        """
        identity = CommitIdentity(writer, identifier, previous_identifier)
        return self._write(lambda part: part.append(data), identity, watermark, properties, allow_empty, adds=True)

    def upsert(
        self,
        data: Any,
        *,
        writer: str | None = None,
        identifier: int | None = None,
        previous_identifier: int | None = None,
        watermark: int | dt.datetime | None = None,
        properties: Mapping[str, str] | None = None,
        allow_empty: bool = False,
    ) -> WriteResult:
        """Adds rows to a table with a primary key, or replaces those of the same key; arguments as of `append`.

        Of several rows of one key the last one stays, or the one with the highest `sequence.field`.
        """
        identity = CommitIdentity(writer, identifier, previous_identifier)
        return self._write(lambda part: part.upsert(data), identity, watermark, properties, allow_empty, adds=True)

    def delete(
        self,
        keys: Any,
        *,
        writer: str | None = None,
        identifier: int | None = None,
        previous_identifier: int | None = None,
        watermark: int | dt.datetime | None = None,
        properties: Mapping[str, str] | None = None,
        allow_empty: bool = False,
    ) -> WriteResult:
        """Deletes rows by their key; keys without a row are no error. Arguments as of `append`.

        Args:
            keys: As `data` of `append`; only the columns of the primary key (and those of `sequence.field`, which
                decide also here) need to be there.
            writer: See the class, as for the following ones.
            identifier: See the class.
            previous_identifier: See the class.
            watermark: See the class.
            properties: See the class.
            allow_empty: See the class.
        """
        identity = CommitIdentity(writer, identifier, previous_identifier)
        return self._write(lambda part: part.delete(keys), identity, watermark, properties, allow_empty)

    def write(
        self,
        data: Any,
        *,
        writer: str | None = None,
        identifier: int | None = None,
        previous_identifier: int | None = None,
        watermark: int | dt.datetime | None = None,
        properties: Mapping[str, str] | None = None,
        allow_empty: bool = False,
    ) -> WriteResult:
        """Writes rows of all kinds, as a column `_row_kind` of `+I -U +U -D` says, or the table's `rowkind.field`.

        Arguments as of `append`. `-U` and `-D` remove the row of their key and need no more than the key.
        """
        identity = CommitIdentity(writer, identifier, previous_identifier)
        return self._write(lambda part: part.write(data), identity, watermark, properties, allow_empty)

    def overwrite(
        self,
        data: Any,
        partition: Mapping[str, Any] | str | None = None,
        *,
        writer: str | None = None,
        identifier: int | None = None,
        previous_identifier: int | None = None,
        watermark: int | dt.datetime | None = None,
        properties: Mapping[str, str] | None = None,
        allow_empty: bool = False,
    ) -> WriteResult:
        """Replaces what is in the table, or in partitions of it, when the commit takes effect (SEMANTICS.md 7.2).

        Args:
            data: As of `append`; no rows empty what is named.
            partition: None: the whole table. A dict of values by partition column, some columns are enough: these
                partitions; the rows may leave the columns out. "dynamic": the partitions that the rows lie in.
            writer: See the class, as for the following ones.
            identifier: See the class.
            previous_identifier: See the class.
            watermark: See the class.
            properties: See the class.
            allow_empty: See the class.
        """
        identity = CommitIdentity(writer, identifier, previous_identifier)
        return self._write(lambda part: part.overwrite(data, partition), identity, watermark, properties, allow_empty)

    # Reading

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: str | None = None,  # noqa: A002
        limit: int | None = None,
        *,
        snapshot_id: int | None = None,
        timestamp: int | dt.datetime | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Scan:
        """Plans a read of the table; all arguments are checked here, and the snapshot is settled.

        Args:
            columns: Names of the columns to return, in this order; None: all.
            filter: An SQL condition, for instance `price > 9.5 AND dt = DATE '2024-05-01'`.
            limit: At most so many rows.
            snapshot_id: Read the state at this snapshot.
            timestamp: Read the state at the newest snapshot committed at or before this time: a datetime with a time
                zone, or milliseconds since the epoch.
            options: Scan options by key, for instance `{"scan.snapshot-id": "3"}`.

        Raises:
            InvalidArgument: An argument is not possible; named, with the remedy.
            NotFound: There is no such snapshot, or the table was dropped.
            SnapshotExpired: The snapshot is no longer kept.
        """
        return self._ask(
            lambda: plan_scan(
                self._catalog,
                self._info,
                columns=columns,
                filter=filter,
                limit=limit,
                snapshot_id=snapshot_id,
                timestamp=timestamp,
                options=options,
            )
        )

    def changes(
        self,
        after: int = 0,
        until: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        filter: str | None = None,  # noqa: A002
        limit: int | None = None,
        raw: bool = False,
    ) -> Scan:
        """Plans a read of what the snapshots behind `after`, up to and with `until`, changed, in their order.

        Of a table with a primary key each change comes with the row that was there before: `+I` for a new row, `-D`
        with the old values for one that went, `-U` old and `+U` new for one that became another; one change a key and
        snapshot, and none where no column that is read has changed (SEMANTICS.md 3.3). Applied to the state at `after`
        they give the state at `until`, but for what overwrites in between replaced (`skipped_snapshots`).

        Args:
            after: Excluded; 0: from the first snapshot that is kept.
            until: Included; None: the newest.
            columns: Names of the columns to return, `_row_kind` and `_snapshot_id` among them if they are wanted; None:
                all and these two.
            filter: An SQL condition on the table's columns.
            limit: At most so many rows.
            raw: Rows as they were written instead: the last row a key of each commit, deletes with whatever values
                they carried. Makes no difference for append tables, whose rows are always as written.

        Raises:
            InvalidArgument: An argument is not possible; named, with the remedy.
            NotFound: The table has no snapshot `after` yet.
            SnapshotExpired: A snapshot of the range is no longer kept.
        """
        check_limit(limit)
        check_range(after, until)
        last = until
        if last is None:
            last = self._refresh().latest_snapshot_id
            if after > last:
                raise NotFound(
                    f"Snapshot {after} of {self.name} does not exist: its newest snapshot is {last}.",
                    reason="SNAPSHOT_NOT_FOUND",
                    metadata={"snapshot_id": str(after), "latest": str(last)},
                )
        return self._ask(
            lambda: plan_changes(
                self._catalog,
                self._info,
                after=after,
                until=last,
                columns=columns,
                filter=filter,
                limit=limit,
                raw=raw,
                overwrites=not raw and TableOptions(self._info.options).get(STREAMING_READ_OVERWRITE),
            )
        )

    def subscribe(
        self,
        scan_mode: str | None = None,
        consumer_id: str | None = None,
        auto_commit: bool = True,
        *,
        columns: Sequence[str] | None = None,
        filter: str | None = None,  # noqa: A002
        options: Mapping[str, Any] | None = None,
    ) -> Subscription:
        """Subscribes to the table's changes: batches come as they are committed, without asking again and again.

        Each batch has `data`, `snapshot_id` and `table`. In a table with a primary key the last column, `_row_kind`,
        says what became of each row, as of `changes`. Use it in a `with` statement, or close it.

        Args:
            scan_mode: Where to begin: `latest-full` (the default: with the rows there are), `latest`, `from-snapshot`,
                `from-snapshot-full`, `from-timestamp`, `from-file-creation-time`, `compacted-full`; see the page on
                options, which has those that belong to them, too.
            consumer_id: Keep the position in the metastore under this name. Whoever subscribes with it again goes on
                behind the last snapshot that was done, and who did before is fenced.
            auto_commit: A snapshot is done when the batch behind its last one is asked for; False: when `commit` is
                called.
            columns: Names of the columns; None: all.
            filter: An SQL condition on the table's columns.
            options: Options of subscriptions by key, for instance `{"scan.snapshot-id": "3"}`.

        Raises:
            InvalidArgument: An argument is not possible, or two of them contradict each other.
            NotFound: There is no such snapshot.
            SnapshotExpired: The consumer's next change is no longer kept.
        """
        info = self._refresh()
        return self._ask(
            lambda: subscribe(
                self._catalog,
                info,
                scan_mode=scan_mode,
                consumer_id=consumer_id,
                auto_commit=auto_commit,
                columns=columns,
                filter=filter,
                options=options,
            )
        )

    @property
    def consumers(self) -> Consumers:
        """Named readers of the table: `.list()`, `.reset(id, snapshot_id)`, `.delete(id)`."""
        return Consumers(self._catalog.metastore, self.uuid, self._ask)

    def snapshots(self, limit: int | None = None) -> pa.Table:
        """Lists the snapshots that are kept, oldest first.

        Args:
            limit: Only the newest so many; None: all.

        Returns:
            Columns id, kind, committed_at (UTC), watermark (milliseconds since the epoch), schema_id, rows (in live
            files, those that merging hides included), added_rows, writer, identifier, properties.
        """
        check_limit(limit)
        return to_snapshots_table(self._ask(lambda: list_snapshots(self._catalog.metastore, self.uuid, limit)))

    def files(self, snapshot_id: int | None = None) -> pa.Table:
        """Lists the files that are live at a snapshot.

        Args:
            snapshot_id: None: the newest.

        Returns:
            Columns path, partition (a struct of the partition columns), bucket, level, rows, bytes, min_key, max_key
            (as text, cut where they are long), added_snapshot; by partition, bucket and order.
        """
        at = settle_state(snapshot_id)
        plan = self._ask(lambda: self._catalog.metastore.plan(PlanRequest(self.uuid, at)))
        return to_files_table(plan)

    # Within

    def _write(
        self,
        write: Callable[[TransactionTable], None],
        identity: CommitIdentity,
        watermark: int | dt.datetime | None,
        properties: Mapping[str, str] | None,
        allow_empty: bool,
        adds: bool = False,
    ) -> WriteResult:
        transaction = Transaction(self._catalog, identity, make_note(watermark, properties, allow_empty))

        def write_all() -> TransactionResult | None:
            with transaction:
                # A field of row kinds makes any write one that may take rows away.
                only_adds = adds and ROWKIND_FIELD.key not in self._info.options
                table = transaction.write_to(self.uuid, only_adds=only_adds)
                self._info = table.info
                write(table)
            return transaction.result

        result = self._ask(write_all)
        (snapshot_id,) = result.snapshot_ids.values()
        return WriteResult(snapshot_id, result.already_applied)

    def _refresh(self) -> TableInfo:
        self._info = self._ask(lambda: self._catalog.metastore.get_table_by_uuid(self.uuid))
        return self._info

    def _ask(self, question: Callable[[], Any]) -> Any:
        """Asks; when the table is gone says so in terms of this handle."""
        try:
            return question()
        except NotFound as error:
            if error.reason != "TABLE_NOT_FOUND":
                raise
            raise NotFound(
                f"Table {self.name} was dropped since this handle was made (uuid {self.uuid}). If a table of that name "
                f"exists again, it is another one: get it by catalog.table('{self.name}').",
                reason=error.reason,
                metadata=error.metadata,
            ) from error
