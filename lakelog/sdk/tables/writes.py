"""Writes to a table, each a commit of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Unpack

from lakelog.annotations import Condition, Parameters, Rows, SnapshotLike, Value
from lakelog.arguments import check_flag
from lakelog.options.declared.tables import ROWKIND_FIELD
from lakelog.progress.tracking import track
from lakelog.results import DeleteResult, TransactionResult, WriteResult
from lakelog.sdk.conditions import to_deletion
from lakelog.sdk.tables.handle import TableHandle
from lakelog.sdk.transaction import Transaction, TransactionTable
from lakelog.tracing import spans
from lakelog.tracing.request_ids import request_id
from lakelog.writes.commit_options import CommitOptions, read_commit_options
from lakelog.writes.ingest import to_batches
from lakelog.writes.row_changes.latest_deletes import needs_latest
from lakelog.writes.row_changes.row_removal import KnownRows
from lakelog.writes.run_again import run_again


class TableWrites(TableHandle):
    """The writes; see `lakelog.Table` for what all of them have in common."""

    def append(self, data: Rows, *, fill_missing: bool = False, **commit: Unpack[CommitOptions]) -> WriteResult:
        """Adds rows; in a table with a primary key they replace the rows of the same key, as `upsert` does.

        Args:
            data: Rows: an object with the Arrow C stream interface (pyarrow, polars, pandas, duckdb), or an iterator of
                such objects, which is read step by step in bounded memory.
            fill_missing: Fill nullable columns that the data leaves out with NULL, also where the old row had a value;
                else missing columns are an error that names them. Dicts may then have different keys.
            **commit: Writer, watermark and so on: see `CommitOptions`.
        """
        return self._write(
            "append", lambda table_write: table_write.append(data, fill_missing=fill_missing), commit, adds=True
        )

    def upsert(self, data: Rows, *, fill_missing: bool = False, **commit: Unpack[CommitOptions]) -> WriteResult:
        """Adds rows to a table with a primary key, or replaces those of the same key; arguments as of `append`.

        Of several rows of one key the last one stays, or the one with the highest `sequence.field`.
        """
        return self._write(
            "upsert", lambda table_write: table_write.upsert(data, fill_missing=fill_missing), commit, adds=True
        )

    def delete(self, keys: Rows, *, latest: bool = False, **commit: Unpack[CommitOptions]) -> WriteResult:
        """Deletes rows by their key; keys without a row are no error. Arguments as of `append`.

        Args:
            keys: As `data` of `append`; only the columns of the primary key and those of `sequence.field` are needed. A
                delete removes the rows whose sequence value is not above its own, including rows that arrive late.
            latest: For a table with `sequence.field`: delete the rows that are there, whatever their sequence values,
                which need not be given. The rows are looked up, and again if another commit wrote to the same buckets
                meanwhile (for about 15 seconds); each delete gets the sequence value of its row. Keys without a row get
                no delete, so a row that arrives late stays. The keys are held in memory. In other tables a delete
                always removes the row that is there.
            **commit: Writer, watermark and so on: see `CommitOptions`.

        Raises:
            InvalidArgument: A key has no value for `sequence.field`, and `latest` was not given: it would delete
                nothing.
            CommitConflict: As for all writes; with `latest` also if others came first 20 times.
        """
        check_flag(latest, "latest")
        if not (latest and needs_latest(self._info)):
            return self._write("delete", lambda table_write: table_write.delete(keys, latest=latest), commit)
        held = list(to_batches(keys))

        def delete() -> WriteResult:
            return self._write("delete", lambda table_write: table_write.delete(iter(held), latest=True), commit)

        return run_again(self._context, commit, delete)

    def delete_where(
        self,
        filter: Condition,  # noqa: A002
        *,
        params: Parameters | None = None,
        **commit: Unpack[CommitOptions],
    ) -> DeleteResult:
        """Deletes the rows that fulfil a condition, as they are in the newest snapshot; all of them or none.

        In an append table the rows are left out from then on: the commit, an overwrite, writes their positions and no
        rows. Files of partitions that fulfil a condition on partition columns alone are removed without being read. The
        next compaction of a file drops its rows. Streams show such a commit as any overwrite (semantics 5.2). In a
        table with a primary key the rows are found and deleted by their keys, as `delete` does; streams show that.

        If another commit changed these rows first (with a primary key: the same buckets), it looks again, for about 15
        seconds; in an append table only into files that came meanwhile. Rows that are added meanwhile may stay.

        Args:
            filter: An SQL condition, as of `scan`. It is required: `overwrite([])` empties a table.
            params: Values of the condition's `:name` parameters.
            **commit: Writer, watermark and so on: see `CommitOptions`.

        Returns:
            The result of the commit, and how many rows it deleted.

        Raises:
            InvalidArgument: The condition is not possible, or the table takes no deletes (`ignore-delete`,
                `first-row`).
            CommitConflict: As for all writes, and if others came first 20 times.
        """
        condition, known = to_deletion(filter, params), KnownRows()

        def delete() -> DeleteResult:
            counts: list[int] = []
            result = self._write(
                "delete_where",
                lambda table_write: counts.append(table_write._delete_where(condition, known)),
                commit,
            )
            deleted = None if result.already_applied else counts[0]
            return DeleteResult(result.snapshot_id, result.already_applied, deleted)

        return run_again(self._context, commit, delete)

    def write(self, data: Rows, *, fill_missing: bool = False, **commit: Unpack[CommitOptions]) -> WriteResult:
        """Writes rows of all kinds: a column `_row_kind` of `+I -U +U -D`, or the table's `rowkind.field`, says which.

        Arguments as of `append`. `-U` and `-D` remove the row of their key and need only the key and the table's
        `sequence.field`: a batch with no other rows may leave the other columns out.
        """
        return self._write("write", lambda table_write: table_write.write(data, fill_missing=fill_missing), commit)

    def overwrite(
        self,
        data: Rows,
        partition: Mapping[str, Value] | str | None = None,
        *,
        fill_missing: bool = False,
        **commit: Unpack[CommitOptions],
    ) -> WriteResult:
        """Replaces the rows of the table, or of partitions of it, when the commit takes effect (semantics 7.2).

        Args:
            data: As of `append`; without rows it empties what `partition` names.
            partition: None: the whole table. A dict of values by partition column (some columns are enough): these
                partitions; the rows may leave the columns out. "dynamic": the partitions that contain the rows.
            fill_missing: As of `append`.
            **commit: Writer, watermark and so on: see `CommitOptions`.
        """
        return self._write(
            "overwrite", lambda table_write: table_write.overwrite(data, partition, fill_missing=fill_missing), commit
        )

    def rollback_to(
        self,
        snapshot_id_or_tag: SnapshotLike,
        **commit: Unpack[CommitOptions],
    ) -> WriteResult:
        """Restores the rows of an earlier snapshot, as they are when the commit takes effect.

        It is one more commit, an overwrite: no snapshot is lost, ids go on rising, and it can be rolled back as well.
        The table's schema and options stay as they are. Streams do not show it, unless `streaming-read-overwrite` says
        otherwise (semantics 7.3, 5.2).

        Args:
            snapshot_id_or_tag: A retained snapshot, by its id or by a tag; or a datetime with a time zone or a date:
                the newest snapshot that was committed at or before it. A text is always a tag.
            **commit: Writer, properties and so on: see `CommitOptions`.

        Returns:
            The result of the commit; `snapshot_id` None: the table has that state already.

        Raises:
            InvalidArgument: It is neither.
            NotFound: There is no such snapshot or tag.
            SnapshotExpired: The snapshot has expired.
        """
        return self._write("rollback_to", lambda table_write: table_write.rollback_to(snapshot_id_or_tag), commit)

    def _write(
        self, call: str, write: Callable[[TransactionTable], None], commit: CommitOptions, adds: bool = False
    ) -> WriteResult:
        with request_id(), spans.root_span(call, table=str(self._info.name)):
            return self._write_in_request(call, write, commit, adds)

    def _write_in_request(
        self, call: str, write: Callable[[TransactionTable], None], commit: CommitOptions, adds: bool
    ) -> WriteResult:
        identity, commit_metadata, guards = read_commit_options(call, commit)
        transaction = Transaction(self._context, self._writes, identity, commit_metadata)

        def write_all() -> TransactionResult | None:
            with transaction:
                # With a row-kind field, any write may remove rows.
                only_adds = adds and ROWKIND_FIELD.key not in self._info.options
                table = transaction.write_to(self.uuid, only_adds=only_adds, guards=guards)
                self._info = table.info
                write(table)
            return transaction.result

        with track(f"writing to {self._info.name}", "rows"):
            result = self._request(write_all)
        (snapshot_id,) = result.snapshot_ids.values()
        return WriteResult(snapshot_id, result.already_applied)
