"""Writes to a table, each a commit of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Unpack

from lakelog.annotations import Rows, SnapshotLike, Value
from lakelog.arguments import check_flag
from lakelog.client.connection.retry import RetryPolicy
from lakelog.errors import CommitConflict, SnapshotExpired
from lakelog.options.declared.tables import ROWKIND_FIELD
from lakelog.results import TransactionResult, WriteResult
from lakelog.sdk.tables.handle import TableHandle
from lakelog.sdk.transaction import Transaction, TransactionTable
from lakelog.writes.commit_options import CommitOptions, read_commit_options
from lakelog.writes.ingest import to_batches
from lakelog.writes.latest_deletes import MAX_TRIES, is_resolved_by_a_recheck, needs_latest


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
        policy = RetryPolicy()
        for tries in range(1, MAX_TRIES + 1):
            try:
                return self._write("delete", lambda table_write: table_write.delete(iter(held), latest=True), commit)
            except (CommitConflict, SnapshotExpired) as error:
                if tries == MAX_TRIES or not is_resolved_by_a_recheck(error, commit.get("if_unchanged")):
                    raise
            self._context.clock.sleep(policy.backoff_s(tries, self._context.rng()))
        raise AssertionError("the last try returns or raises")

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

        result = self._request(write_all)
        (snapshot_id,) = result.snapshot_ids.values()
        return WriteResult(snapshot_id, result.already_applied)
