"""Changes of rows by expressions and by comparison with other rows: a part of `lakelog.Table`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

from lakelog.annotations import Condition, Parameters, Rows
from lakelog.results import MergeResult, UpdateResult, WriteResult
from lakelog.sdk.tables.handle import TableHandle
from lakelog.sdk.transaction import Transaction
from lakelog.writes.commit_options import CommitOptions, read_commit_options
from lakelog.writes.ingest import to_table
from lakelog.writes.row_changes.clauses import Assignments, Clause, RowCounts, check_clauses
from lakelog.writes.run_again import run_again

if TYPE_CHECKING:
    # It imports sqlglot, which takes longer than all else that a program imports to connect.
    from lakelog.sdk.row_changes import RowChanges


@dataclass(frozen=True)
class CountedWrite:
    """The commit of a change of rows, and how many it changed; None: it was applied before."""

    result: WriteResult
    counts: RowCounts | None


class TableRowChanges(TableHandle):
    """The changes; see `lakelog.Table` for what they have in common with other writes."""

    def update(
        self,
        set: Assignments,  # noqa: A002
        where: Condition | None = None,
        *,
        params: Parameters | None = None,
        **commit: Unpack[CommitOptions],
    ) -> UpdateResult:
        """Gives columns of some rows new values, all in one commit.

        If another commit wrote to the same buckets meanwhile, the rows are read again, at most 20 times.

        Args:
            set: New values by column. A text is an SQL expression over the row's columns as they were: `{"price":
                "price * 1.1"}`; it needs DuckDB (extra `lakelog[sql]`), unless it is a column. Every other value is
                itself; `lakelog.literal("paid")` is a text. A value must fit its column without loss. Columns of the
                primary key, partition columns of such a table, and those of `sequence.field` cannot be updated.
            where: Which rows, as `filter` of `scan`; None: all of them.
            params: Values of `:name` parameters, in the condition and the expressions.
            **commit: Writer, watermark and so on: see `CommitOptions`.

        Raises:
            InvalidArgument: A column, an expression or a value is not possible; named. Nothing was written.
            CommitConflict: As for all writes; also if others came first 20 times.
        """
        done = change_rows(self, "update", lambda changes: changes.update(set, where, params), commit)
        updated = None if done.counts is None else done.counts.updated
        return UpdateResult(done.result.snapshot_id, done.result.already_applied, updated)

    def merge(
        self,
        source: Rows,
        on: str | Sequence[str],
        *clauses: Clause,
        params: Parameters | None = None,
        **commit: Unpack[CommitOptions],
    ) -> MergeResult:
        """Compares the rows of a source with those of the table, and updates, deletes and inserts, all in one commit.

        For example::

            orders.merge(
                changes,
                ["id"],
                lakelog.when_matched("source.op = 'D'").delete(),
                lakelog.when_matched().update_all(),
                lakelog.when_not_matched("source.op <> 'D'").insert_all(),
            )

        Of the clauses for a row, the first one whose condition holds wins. If another commit wrote to the same buckets
        meanwhile, the merge is done again, at most 20 times. The rows of the source are held in memory, those of the
        table are not.

        Args:
            source: Rows, as `data` of `append`. Columns that no clause uses are ignored.
            on: Columns that both have and that must be equal, or an SQL condition such as
                `"target.id = source.id AND target.dt = '2024-05-01'"`. A NULL matches nothing.
            *clauses: What happens: `lakelog.when_matched`, `lakelog.when_not_matched` (rows of the source without a row
                in the table), `lakelog.when_not_matched_by_source` (the opposite). Values and columns are as of
                `update`, with `source.` and `target.` before columns that both have. Conditions and expressions need
                DuckDB (extra `lakelog[sql]`). `update_all` and `insert_all` write the source's columns like an upsert.
            params: Values of `:name` parameters, in all conditions and expressions.
            **commit: Writer, watermark and so on: see `CommitOptions`.

        Raises:
            InvalidArgument: A clause, a column, an expression or a value is not possible; named. Or several rows of the
                source would change one row of the table, or make one row; shows them. Nothing was written.
            CommitConflict: As for all writes; also if others came first 20 times.
        """
        from lakelog.writes.row_changes.on_condition import check_on

        checked, matched_by = check_clauses(clauses), check_on(on)
        rows = to_table(source, self.schema)
        done = change_rows(self, "merge", lambda changes: changes.merge(rows, matched_by, checked, params), commit)
        return to_merge_result(done)

    def _change_once(self, call: str, change: Callable[[RowChanges], RowCounts], commit: CommitOptions) -> CountedWrite:
        identity, commit_metadata, guards = read_commit_options(call, commit)
        applied = self._find_applied(identity.writer, identity.identifier)
        if applied is not None:
            return CountedWrite(applied, None)
        transaction = Transaction(self._context, self._writes, identity, commit_metadata)
        with transaction:
            table = transaction.write_to(self.uuid, guards=guards)
            self._info = table.info
            counts = table._change_rows(call, change)
        assert transaction.result is not None, "it was committed"
        (snapshot_id,) = transaction.result.snapshot_ids.values()
        was_applied = transaction.result.already_applied
        return CountedWrite(WriteResult(snapshot_id, was_applied), None if was_applied else counts)

    def _find_applied(self, writer: str | None, identifier: int | None) -> WriteResult | None:
        """The result of this commit if it was the writer's last one: its rows may not be as they were before it."""
        if writer is None or identifier is None:
            return None
        progress = self._context.metastore.get_writer_progress(writer, self.uuid)
        if progress.last_identifier != identifier:
            return None
        return WriteResult(progress.snapshot_id, True)


def change_rows(
    table: TableRowChanges, call: str, change: Callable[[RowChanges], RowCounts], commit: CommitOptions
) -> CountedWrite:
    """Changes rows by one commit, again where another one came first. Blocks.

    Args:
        table: The table.
        call: The call or the statement, for messages.
        change: Gets what reads and changes the rows; called for each try.
        commit: As of all writes.

    Raises:
        InvalidArgument: The change is not possible; nothing was written.
        CommitConflict: As for all writes; also if others came first 20 times.
    """
    # Wrong arguments come before anything is asked for.
    read_commit_options(call, commit)
    return table._request(lambda: run_again(table._context, commit, lambda: table._change_once(call, change, commit)))


def to_merge_result(done: CountedWrite) -> MergeResult:
    """The result of a merge with its counts. Pure."""
    result, counts = done.result, done.counts
    if counts is None:
        return MergeResult(result.snapshot_id, result.already_applied, None, None, None, None)
    by_action = counts.updated, counts.deleted, counts.inserted, counts.upserted
    return MergeResult(result.snapshot_id, result.already_applied, *by_action)
