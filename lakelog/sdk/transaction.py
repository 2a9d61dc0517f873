"""Transactions: writes to one or more tables that become visible together, or not at all.

Every write of the SDK is one:

1. All tables of a transaction share one attempt, which owns their files (`lakelog.writes.attempt`).
2. The commit is repeated until its outcome is known: it is idempotent by (table, writer, identifier).
"""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa

from lakelog.annotations import Condition, Parameters, Rows, SnapshotLike, Value
from lakelog.arguments import check_flag, parse_table_name
from lakelog.client.cancellation import check_cancelled
from lakelog.clock import RandomIds
from lakelog.context import Context
from lakelog.errors import InvalidArgument, LakelogError
from lakelog.format.commit.guards import meet_guards
from lakelog.format.commit.request import (
    CommitRequest,
    CommitResult,
    RemoveEverything,
    RemovePartitionValues,
    RestoreState,
    TableGuard,
)
from lakelog.format.commit.writer_names import make_one_time_name
from lakelog.format.tables.table import TableInfo
from lakelog.options.declared.tables import SEQUENCE_FIELD
from lakelog.options.values import TableOptions
from lakelog.progress.tracking import current_work
from lakelog.reads.reading import find_snapshot_at
from lakelog.reads.scan import Scan
from lakelog.reads.scan_planning import plan_scan
from lakelog.results import TransactionResult
from lakelog.sdk.conditions import to_deletion
from lakelog.storage.write.row_normalizer import KindSource, RowNormalizer
from lakelog.writes.attempt import CommitAttempt, Repeating
from lakelog.writes.changelog.commit_changelog import commit_lookups
from lakelog.writes.commit_metadata import CommitIdentity, CommitMetadata, name_dropped_table
from lakelog.writes.commit_options import NO_GUARDS, Guards
from lakelog.writes.ingest import to_batches, to_table
from lakelog.writes.overwrite import StaticPartition, check_dynamic, to_restore, to_static_partition
from lakelog.writes.row_changes.clauses import Assignments, Clause, RowCounts, check_clauses
from lakelog.writes.row_changes.latest_deletes import LatestDeletes, needs_latest
from lakelog.writes.row_changes.row_removal import KnownRows, check_takes_deletes, remove_matching
from lakelog.writes.table_write import TableWrite
from lakelog.writes.write_state import WriteState

if TYPE_CHECKING:
    from lakelog.sdk.row_changes import RowChanges


class Transaction:
    """Writes that are committed together when the `with` block ends, and aborted when it ends with an exception.

    Used without `with`, it needs `commit` or `abandon`; if it is forgotten with rows in it, it warns and commits
    nothing. Only one thread at a time may use it. `result` says what became of it.

    Args:
        context: The metastore, stores, caches and clock.
        writes: State that it shares with other writes of its catalog.
        identity: The commit's writer and identifier.
        commit_metadata: What the commit says besides its rows; holds for every table.
    """

    def __init__(
        self, context: Context, writes: WriteState, identity: CommitIdentity, commit_metadata: CommitMetadata
    ) -> None:
        self._context = context
        self._writes = writes
        self._identity = identity
        self._commit_metadata = commit_metadata
        self._writer_name: str = identity.writer or make_one_time_name("sdk", RandomIds().new_id())
        self._epoch = writes.epoch_of(self._writer_name)
        self._begun_at_s = context.clock.monotonic_s()
        self._table_writes: dict[str, TableWrite] = {}
        self._read_guards: list[TableGuard] = []
        self._guarded_names: dict[str, str] = {}
        self._attempt = CommitAttempt(
            context.metastore, self._writer_name, identifier=identity.identifier, epoch=self._epoch
        )
        self._ended = False
        self._failure: BaseException | None = None
        self.result: TransactionResult | None = None
        """What became of it; None until the `with` block has ended."""

    def __repr__(self) -> str:
        state = "ended" if self._ended else "open"
        names = ", ".join(str(write.info.name) for write in self._table_writes.values())
        return f"<lakelog transaction, {state}, {names}>"

    def table(self, name: str, *, if_snapshot: int | None = None, if_unchanged: int | None = None) -> TransactionTable:
        """Returns a table to write to, or only to guard, by its full name `database.table`.

        Args:
            name: The table.
            if_snapshot: See `CommitOptions`. It also refuses the transaction if nothing is written to this table: use
                it to guard tables that were read to decide what is written to others. A transaction that writes to no
                table checks nothing.
            if_unchanged: See `CommitOptions`; only for a table that is written to.

        Raises:
            InvalidArgument: A guard is not a snapshot's id.
            NotFound: There is no such table; names the nearest ones.
        """
        info = self._context.metastore.get_table(parse_table_name(name))
        return self.write_to(info.table_uuid, guards=Guards(if_snapshot, if_unchanged))

    def guard(self, scan: Scan) -> None:
        """Refuses the transaction (CommitConflict) if another commit changed what a scan has read.

        If the scan's filter gives each partition column some values, only these partitions must be unchanged, and only
        some of their buckets, if it does so for the bucket key; also where the scan found no row. Else it is the whole
        table. Compactions change nothing. A transaction that writes to no table checks nothing.

        Args:
            scan: What was read, from any catalog of the same metastore: `seen = table.scan(filter="k = 1")`.

        Raises:
            InvalidArgument: It is not a scan, or one that shows changes, and not the state of a table.
        """
        self._check_open()
        if not isinstance(scan, Scan):
            raise InvalidArgument(
                f"A {type(scan).__name__} is not a scan, which knows the snapshot that it reads. Give the scan whose "
                "rows were read: seen = table.scan(...), rows = seen.to_arrow(), tx.guard(seen).",
                metadata={"field": "scan"},
            )
        guard = scan.to_guard()
        self._read_guards.append(guard)
        self._guarded_names[guard.table_uuid] = scan.table_name

    def write_to(self, table_uuid: str, *, only_adds: bool = False, guards: Guards = NO_GUARDS) -> TransactionTable:
        """Returns a table to write to, by its uuid; it joins the transaction's attempt in its current state.

        Args:
            table_uuid: The table.
            only_adds: Its rows are all +I, so no option that can change affects them, and an attempt that was opened
                ahead is good enough.
            guards: Snapshots since which nothing may have changed, in addition to earlier guards of the table.

        Raises:
            NotFound: The table was dropped.
        """
        self._check_open()
        if table_uuid not in self._table_writes:
            if only_adds and not self._attempt.attempt_id:
                info = self._attempt.take_ahead(self._writes.attempts_ahead, table_uuid)
            else:
                info = self._attempt.join(table_uuid)
            options = TableOptions(info.options)
            joined = TableWrite(
                info, options, self._context.open_store(info), RowNormalizer(str(info.name), info.schema, options)
            )
            self._attempt.add_store(joined.store, lambda: joined.paths)
            self._table_writes[table_uuid] = joined
        write = self._table_writes[table_uuid]
        write.guards = write.guards.meet(guards)
        return TransactionTable(self, write)

    def __del__(self) -> None:
        # Nothing is aborted here: the metastore may be gone, and the orphan collector knows the attempt. SUBTLE: if the
        # constructor failed, for instance because of an invalid identity, no attribute is set.
        if getattr(self, "_ended", True) or not any(write.was_written for write in self._table_writes.values()):
            return
        names = ", ".join(str(write.info.name) for write in self._table_writes.values() if write.was_written)
        warnings.warn(
            f"A transaction that wrote to {names} was neither committed nor given up, so nothing of it is visible. "
            "Use it by 'with catalog.transaction() as tx:', or call commit().",
            ResourceWarning,
            source=self,
            stacklevel=2,
        )

    def __reduce__(self) -> NoReturn:
        raise InvalidArgument(
            "A transaction cannot be pickled or copied: its rows and its commit belong to one process. Pickle the "
            "catalog, and begin a transaction where it is unpickled."
        )

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.commit()
        else:
            self.abandon()

    def commit(self) -> TransactionResult:
        """Commits; the end of a `with` block calls it by itself.

        Raises:
            InvalidArgument: A write in the transaction failed, though its error was caught.
            CommitConflict: Another commit changed what this one assumed; nothing happened and no file is left.
            OutcomeUnknown: The answer was lost. Repeating the same writes under the same writer and identifier is safe.
        """
        self._check_open()
        failure = self._failure
        if failure is not None:
            self.abandon()
            raise InvalidArgument(
                "A write of this transaction failed, so it cannot be committed: part of that write's rows would be "
                "missing. Nothing of it is visible. Begin a new transaction."
            ) from failure
        if not any(write.was_written for write in self._table_writes.values()):
            self.abandon()
            self.result = TransactionResult({}, False)
            return self.result
        try:
            for write in self._table_writes.values():
                _check_guard(write)
                write.finish(self._context, self._attempt.attempt_id)
        except BaseException:
            self.abandon()
            raise
        self.result = self._read_answer(self._commit_lookups())
        self._end()
        return self.result

    def _commit_lookups(self) -> CommitResult:
        """Commits, and looks changelogs up again for as long as others change the same buckets meanwhile."""
        lookups = [write.lookup for write in self._table_writes.values() if write.lookup is not None]
        try:
            return commit_lookups(lookups, self._try_commit, self._context.clock, self._context.rng)
        except BaseException as error:
            self.abandon()
            if isinstance(error, LakelogError):
                names = {table_uuid: str(write.info.name) for table_uuid, write in self._table_writes.items()}
                dropped = name_dropped_table(error, self._guarded_names | names)
                if dropped is not None:
                    raise dropped from error
            raise

    def _try_commit(self) -> CommitResult:
        return self._attempt.commit(self._make_request(), Repeating(self._context.clock, self._context.rng))

    def abandon(self) -> None:
        """Aborts the transaction: nothing becomes visible, and the files written are deleted. Idempotent."""
        if self._ended:
            return
        self._end()
        if self._attempt.is_open:
            self._give_up()

    def _end(self) -> None:
        self._ended = True
        for write in self._table_writes.values():
            write.stop_sending()

    def _check_open(self) -> None:
        if self._ended:
            raise InvalidArgument("This transaction has ended. Begin a new one with catalog.transaction().")

    def _give_up(self) -> None:
        """Aborts the attempt and deletes its files, which then certainly can never be committed."""
        # The error's traceback holds this transaction and the rows that were being written.
        self._failure = None
        for table_uuid in self._table_writes:
            self._writes.attempts_ahead.forget(table_uuid)
        for write in self._table_writes.values():
            if write.writer is not None:
                write.writer.abort()
                write.writer = None
        self._attempt.abandon()

    # The commit

    def _make_request(self) -> CommitRequest:
        whole = [
            TableGuard(write.info.table_uuid, write.guards.if_snapshot)
            for write in self._table_writes.values()
            if write.guards.if_snapshot is not None
        ]
        return CommitRequest(
            writer=self._writer_name,
            identifier=self._identity.identifier or 0,
            changes=tuple(
                self._writes.rest_on_last(self._writer_name, write.to_change(self._commit_metadata))
                for write in self._table_writes.values()
                if write.was_written
            ),
            attempt_id=self._attempt.attempt_id,
            epoch=self._epoch,
            previous_identifier=self._identity.previous_identifier,
            guards=meet_guards((*self._read_guards, *whole)),
        )

    def _read_answer(self, answer: CommitResult) -> TransactionResult:
        self._writes.note_commit(self._writer_name, answer.results)
        return TransactionResult(
            {str(self._table_writes[result.table_uuid].info.name): result.snapshot_id for result in answer.results},
            self._attempt.was_applied_before,
        )


def _check_guard(write: TableWrite) -> None:
    if write.guards.if_unchanged is not None and not write.was_written:
        raise InvalidArgument(
            f"if_unchanged={write.guards.if_unchanged} guards only what is written to {write.info.name}, and nothing "
            "is written to it. Give if_snapshot, which guards the whole table.",
            metadata={"field": "if_unchanged", "table": str(write.info.name)},
        )


class TransactionTable:
    """A table inside a transaction. Its writes become visible with the transaction."""

    def __init__(self, transaction: Transaction, write: TableWrite) -> None:
        self._transaction = transaction
        self._table_write = write

    def __repr__(self) -> str:
        return f"<{self._table_write.info.name} inside a transaction>"

    @property
    def info(self) -> TableInfo:
        """The table as it was when it joined the transaction."""
        return self._table_write.info

    def append(self, data: Rows, *, fill_missing: bool = False) -> None:
        """Adds rows; see `lakelog.Table.append`."""
        self._write(data, KindSource.INSERTS, fill_missing=fill_missing)

    def upsert(self, data: Rows, *, fill_missing: bool = False) -> None:
        """Adds rows, or replaces rows of the same key; see `lakelog.Table.upsert`."""
        self._check_has_key("upsert")
        self._write(data, KindSource.INSERTS, fill_missing=fill_missing)

    def delete(self, keys: Rows, *, latest: bool = False) -> None:
        """Deletes the rows of some keys; see `lakelog.Table.delete`.

        With `latest` the rows are looked up once, so the transaction is refused (CommitConflict) if another commit
        wrote to the same buckets meanwhile: begin it again. The lookup sees no rows of the transaction itself.
        """
        self._check_has_key("delete")
        check_flag(latest, "latest")
        write = self._table_write
        if not (latest and needs_latest(write.info)):
            self._write(keys, KindSource.DELETES)
            return
        if write.was_written:
            raise InvalidArgument(
                f"{write.info.name} was written to before in this transaction, and latest=True looks only at rows that "
                "are committed. Delete first, or give the deletes a sequence value.",
                metadata={"table": str(write.info.name)},
            )
        context = self._transaction._context
        deletes = LatestDeletes(context.metastore, write.store, write.info, context.caches)
        write.guards = write.guards.meet(Guards(if_unchanged=deletes.base_snapshot_id))
        taken = (write.row_normalizer.take(batch, KindSource.FOUND_DELETES)[0] for batch in to_batches(keys))
        found = (deletes.find(rows) for rows in taken)
        # A lookup of many keys may take long, so their snapshot is leased as for a read.
        with context.leased_reads.reading(write.info, max(deletes.base_snapshot_id, 1)):
            self._write(found, KindSource.FOUND_DELETES)

    def delete_where(self, filter: Condition, *, params: Parameters | None = None) -> int:  # noqa: A002
        """Deletes the rows that fulfil a condition; see `lakelog.Table.delete_where`.

        They are looked for now, once. So the transaction is refused (CommitConflict) if another commit compacts or
        removes files that have such rows, or with a primary key, if it writes to the same buckets: begin it again. The
        search sees no rows of the transaction itself.

        Returns:
            How many rows were found.
        """
        return self._delete_where(to_deletion(filter, params), KnownRows())

    def _delete_where(self, condition: str, known: KnownRows) -> int:
        """As `delete_where`, with what earlier tries have found."""
        transaction, write = self._transaction, self._table_write
        transaction._check_open()
        if write.was_written:
            raise InvalidArgument(
                f"{write.info.name} was written to before in this transaction, and delete_where looks only at rows "
                "that are committed. Delete first, or in a transaction of its own.",
                metadata={"table": str(write.info.name)},
            )
        if write.info.schema.primary_key:
            check_takes_deletes(write.info)
            return self._delete_found(condition)
        try:
            return remove_matching(transaction._context, write, transaction._attempt.attempt_id, condition, known)
        except BaseException as error:
            transaction._failure = error
            raise

    def _delete_found(self, condition: str) -> int:
        """Deletes the rows of a table with a primary key by their keys, which must be unchanged until the commit."""
        write, context = self._table_write, self._transaction._context
        schema = write.info.schema
        names = dict.fromkeys((*schema.primary_key, *write.options.get(SEQUENCE_FIELD)))
        found = plan_scan(
            context,
            write.info,
            columns=list(names),
            filter=condition,
            limit=None,
            snapshot_id=None,
            timestamp=None,
            options=None,
        )
        write.guards = write.guards.meet(Guards(if_unchanged=found.snapshot_id))
        counts: list[int] = []

        def count(batch: pa.RecordBatch) -> pa.RecordBatch:
            counts.append(batch.num_rows)
            return batch

        self._write(map(count, found.to_batches()), KindSource.FOUND_DELETES)
        return sum(counts)

    def write(self, data: Rows, *, fill_missing: bool = False) -> None:
        """Writes rows of all kinds; see `lakelog.Table.write`."""
        self._write(data, KindSource.COLUMN, fill_missing=fill_missing)

    def update(
        self,
        set: Assignments,  # noqa: A002
        where: Condition | None = None,
        *,
        params: Parameters | None = None,
    ) -> int:
        """Gives columns of some rows new values; see `lakelog.Table.update`.

        The rows are read once, so the transaction is refused (CommitConflict) if another commit wrote to the same
        buckets meanwhile: begin it again. The read sees no rows of the transaction itself.

        Returns:
            How many rows got new values.
        """
        return self._change_rows("update", lambda changes: changes.update(set, where, params)).updated

    def merge(
        self, source: Rows, on: str | Sequence[str], *clauses: Clause, params: Parameters | None = None
    ) -> RowCounts:
        """Compares the table's rows with others; see `lakelog.Table.merge`, and for conflicts `update`."""
        checked = check_clauses(clauses)
        rows = to_table(source, self._table_write.info.schema.arrow)
        return self._change_rows("merge", lambda changes: changes.merge(rows, on, checked, params))

    def _change_rows(self, call: str, change: Callable[[RowChanges], RowCounts]) -> RowCounts:
        """Changes rows that are read in this transaction.

        Args:
            call: The call, for messages.
            change: Gets what changes the rows of this table.
        """
        # Imported here: it imports sqlglot, which takes longer than all else that a program imports to connect.
        from lakelog.sdk.row_changes import RowChanges

        self._transaction._check_open()
        write = self._table_write
        if write.was_written:
            raise InvalidArgument(
                f"{write.info.name} was written to before in this transaction, and {call}() sees only rows that are "
                f"committed. Call {call}() in a transaction of its own.",
                metadata={"table": str(write.info.name)},
            )
        try:
            transaction = self._transaction
            attempt_id, guard = transaction._attempt.attempt_id, transaction._read_guards.append
            return change(RowChanges(transaction._context, write, attempt_id, self._write, guard))
        except BaseException as error:
            if write.was_written:
                self._transaction._failure = error
            raise

    def overwrite(
        self, data: Rows, partition: Mapping[str, Value] | str | None = None, *, fill_missing: bool = False
    ) -> None:
        """Replaces the table, or partitions of it; see `lakelog.Table.overwrite`."""
        write = self._table_write
        if write.was_written:
            raise InvalidArgument(
                f"{write.info.name} was written to before in this transaction. Overwrite it first, or in a "
                "transaction of its own.",
                metadata={"table": str(write.info.name)},
            )
        static: StaticPartition | None = None
        if partition is None:
            write.removal = RemoveEverything()
        elif isinstance(partition, str):
            check_dynamic(partition, write.info)
            write.is_dynamic = True
        else:
            static = to_static_partition(partition, write.info)
            write.removal = RemovePartitionValues(static.encoded)
        self._write(data, KindSource.INSERTS, static, fill_missing=fill_missing)

    def rollback_to(self, snapshot_id_or_tag: SnapshotLike) -> None:
        """Restores an earlier state of the table; see `lakelog.Table.rollback_to`."""
        self._transaction._check_open()
        write = self._table_write
        if write.was_written:
            raise InvalidArgument(
                f"{write.info.name} was written to before in this transaction. Roll it back in a transaction of its "
                "own.",
                metadata={"table": str(write.info.name)},
            )
        wanted = snapshot_id_or_tag
        if isinstance(wanted, dt.date):
            metastore = self._transaction._context.metastore
            wanted = find_snapshot_at(metastore, write.info.table_uuid, wanted, "snapshot_id_or_tag")
        write.removal = to_restore(wanted)
        write.was_written = True

    def _check_has_key(self, verb: str) -> None:
        if not self._table_write.info.schema.primary_key:
            raise InvalidArgument(
                f"Table {self._table_write.info.name} has no primary key, so {verb}() cannot find the rows it means."
                " Use append(), or overwrite() to replace partitions.",
                metadata={"table": str(self._table_write.info.name)},
            )

    def _write(
        self, data: Rows, source: KindSource, static: StaticPartition | None = None, *, fill_missing: bool = False
    ) -> None:
        self._transaction._check_open()
        check_flag(fill_missing, "fill_missing")
        if isinstance(self._table_write.removal, RestoreState):
            raise InvalidArgument(
                f"{self._table_write.info.name} is rolled back by this transaction. Write to it in one of its own,"
                " after this.",
                metadata={"table": str(self._table_write.info.name)},
            )
        try:
            self._write_batches(data, source, static, fill_missing)
        except BaseException as error:
            # Some batches may be written already: even a caller that catches the error must not commit half of a write.
            self._transaction._failure = error
            raise

    def _write_batches(
        self, data: Rows, source: KindSource, static: StaticPartition | None, fill_missing: bool
    ) -> None:
        write = self._table_write
        write.was_written = True
        work = current_work()
        rows = getattr(data, "num_rows", None)
        if work is not None and isinstance(rows, int):
            work.total = rows
        for batch in to_batches(data, fill_missing=fill_missing):
            check_cancelled()
            if static is not None:
                batch = static.fill_in(batch)
            table, kinds = write.take(batch, source, fill_missing)
            attempt_id = self._transaction._attempt.attempt_id
            age_s = self._transaction._context.clock.monotonic_s() - self._transaction._begun_at_s
            write.send_uncommitted(self._transaction._writes.uncommitted_senders, attempt_id, age_s, table, kinds)
            write.open_writer(attempt_id).write(table, kinds)
            if work is not None:
                work.advance(batch.num_rows)
