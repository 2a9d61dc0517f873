"""Updates and merges inside a transaction: reads the rows, and writes what follows from them.

1. Everything is checked before a row is read or written.
2. Rows are read at the newest snapshot, and the commit relies on them: in a table with a primary key the buckets that
   it writes to must be unchanged, in an append table the files from which it removes rows. Where an insert relies on no
   row being anywhere, all places that were read must be unchanged.
3. In a table with a primary key changes are ordinary rows of kind +I, +U and -D, so that streams, changelogs and the
   log get them as from any other write. In an append table rows are removed by their positions, and new ones added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from lakelog.annotations import Condition, Parameters
from lakelog.context import Context
from lakelog.errors import InvalidArgument
from lakelog.format.commit.request import TableGuard
from lakelog.format.keys.ordering import single_array
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, RowKind, is_retract
from lakelog.options.declared.tables import SEQUENCE_FIELD
from lakelog.reads.state_lookup import StateLookup
from lakelog.sdk.conditions import to_condition
from lakelog.storage.write.row_normalizer import KindSource
from lakelog.writes.commit_options import Guards
from lakelog.writes.row_changes.assignments import bind_known
from lakelog.writes.row_changes.clauses import Action, Assignments, Clause, RowCounts, Rows
from lakelog.writes.row_changes.evaluation import Evaluator
from lakelog.writes.row_changes.expressions import Column
from lakelog.writes.row_changes.merging import ChangedRows, MergeRun, check_new_keys, show_rows
from lakelog.writes.row_changes.plan import (
    OWN_NAMES,
    Names,
    check_table,
    key_columns,
    plan_merge,
    plan_update,
    to_output_table,
)
from lakelog.writes.row_changes.selection import RowSelection
from lakelog.writes.row_changes.target_rows import Portion, TargetRows, find_filter
from lakelog.writes.table_write import TableWrite

Sink = Callable[[pa.Table, KindSource], None]
"""Writes rows of the table to the transaction."""


class RowChanges:
    """Changes rows of one table in a transaction. For one use.

    Args:
        context: The metastore, stores and caches.
        write: The table's part of the transaction, to which nothing was written yet.
        attempt_id: The transaction's attempt.
        sink: Writes rows of the table.
        guard: Gets what must be unchanged, besides what is written to.
    """

    def __init__(
        self,
        context: Context,
        write: TableWrite,
        attempt_id: str,
        sink: Sink,
        guard: Callable[[TableGuard], None],
    ) -> None:
        self._context = context
        self._write = write
        self._attempt_id = attempt_id
        self._info = write.info
        self._sink = sink
        self._guard = guard
        self._counts = RowCounts()

    def rely_on(self, snapshot_id: int) -> None:
        """Refuses the commit if any row of the table was written since a snapshot: for a source that comes from it."""
        self._write.guards = self._write.guards.meet(Guards(if_snapshot=snapshot_id))

    def update(
        self,
        given: Assignments,
        where: Condition | RowSelection | None,
        params: Parameters | None,
        names: Names = OWN_NAMES,
    ) -> RowCounts:
        """Gives columns of some rows new values; see `lakelog.Table.update`."""
        text = where if isinstance(where, str) else None
        with Evaluator() as evaluator:
            clause = plan_update(self._info, given, text, names, params, evaluator)
            if text is not None:
                where = bind_known(text, params)
            for portion in self._read(self._info.schema.arrow.names, where):
                labelled = portion.rows.rename_columns([f"t.{name}" for name in portion.rows.schema.names])
                output = to_output_table(clause, labelled, evaluator, self._info.schema.arrow)
                everywhere = np.arange(portion.rows.num_rows)
                self._write_portion(portion, [ChangedRows(Action.UPDATE, output, everywhere)])
        return self._counts

    def delete(self, where: RowSelection) -> RowCounts:
        """Deletes the rows of a selection."""
        check_table(self._info, {Action.DELETE})
        names = key_columns(self._info)
        for portion in self._read(names, where):
            everywhere = np.arange(portion.rows.num_rows)
            self._write_portion(portion, [ChangedRows(Action.DELETE, portion.rows.select(names), everywhere)])
        return self._counts

    def merge(
        self,
        source: pa.Table,
        on: str | Sequence[str],
        clauses: Sequence[Clause],
        params: Parameters | None,
        names: Names = OWN_NAMES,
    ) -> RowCounts:
        """Compares the rows of the table with those of a source; see `lakelog.Table.merge`."""
        with Evaluator() as evaluator:
            plan = plan_merge(self._info, source.schema, on, clauses, names, params, evaluator)
            run = MergeRun(plan, source, evaluator)
            if plan.is_upsert:
                self._upsert(run)
                return self._counts
            target = self._open(plan.target_columns, find_filter(run))
            if plan.clauses_of(Rows.NOT_MATCHED) and not plan.matches_by_key:
                self._guard(target.guard)
            for portion in target.read_for(run):
                self._write_portion(portion, list(run.take(portion.rows)))
            inserted = list(run.finish())
            check_new_keys(self._info, [each.rows for each in inserted])
            if not plan.matches_by_key_alone:
                self._check_keys_are_new([each.rows for each in inserted], target.snapshot_id)
            for changed in inserted:
                self._write_rows(changed)
        return self._counts

    def _read(self, columns: Sequence[str], where: Condition | RowSelection | None) -> Iterator[Portion]:
        """Reads the rows that fulfil a condition, and relies on what decides that."""
        if not isinstance(where, RowSelection):
            yield from self._open(columns, to_condition(where, None)).read()
            return
        schema, read = self._info.schema.arrow, dict[str, int]()
        target = self._open(list(dict.fromkeys((*columns, *where.columns(schema)))), where.filter(schema))
        with where.open(read) as find:
            for uuid, snapshot_id in read.items():
                if uuid != self._info.table_uuid:
                    self._guard(TableGuard(uuid, snapshot_id))
            if self._info.table_uuid in read:
                # The same snapshot decides which rows there are, and what the condition says of them.
                self.rely_on(target.snapshot_id)
            for portion in target.read():
                found = find(portion.rows)
                if len(found):
                    yield portion.take(found)

    def _open(self, columns: Sequence[str], condition: str | None) -> TargetRows:
        target = TargetRows(self._context, self._write.store, self._info, columns, condition)
        self._write.was_written = True
        if self._info.schema.primary_key:
            self._write.guards = self._write.guards.meet(Guards(if_unchanged=target.snapshot_id))
        return target

    def _upsert(self, run: MergeRun) -> None:
        """Writes each row of the source; which of them replace others, need not be known."""
        run.check_source_keys()
        self._write.was_written = True
        outputs = run.plan.clauses[0].outputs
        rows = run.source.select([each.name for each in outputs.values() if isinstance(each, Column)])
        self._sink(rows.rename_columns(list(outputs)), KindSource.INSERTS)
        self._counts.upserted += rows.num_rows

    def _write_portion(self, portion: Portion, changes: Sequence[ChangedRows]) -> None:
        if portion.places and changes:
            # SUBTLE: before rows are written, since a commit that removes rows is another kind of commit, whose new
            # rows do not go to the log.
            remover = self._write.open_remover(self._attempt_id)
            removed = np.sort(np.concatenate([changed.places for changed in changes]))
            for file, positions in portion.find_places(removed):
                remover.remove(file, positions)
        for changed in changes:
            self._write_rows(changed)

    def _write_rows(self, changed: ChangedRows) -> None:
        rows = changed.rows
        is_keyed = bool(self._info.schema.primary_key)
        if changed.action is Action.UPDATE and is_keyed:
            kinds = pa.array(np.full(len(changed.places), RowKind.UPDATE_AFTER.text))
            self._sink(rows.append_column(ROW_KIND_COLUMN, kinds), KindSource.COLUMN)
        elif changed.action is not Action.DELETE:
            self._sink(rows, KindSource.INSERTS)
        elif is_keyed:
            self._sink(rows, KindSource.FOUND_DELETES)
        self._counts.add(changed.action, len(changed.places) or rows.num_rows)

    def _check_keys_are_new(self, inserted: Sequence[pa.Table], snapshot_id: int) -> None:
        """Checks that no inserted row has the key of a row that is there, which it would replace.

        Raises:
            InvalidArgument: One has; names some.
        """
        info = self._info
        key = list(info.schema.primary_key)
        if not key or not inserted or not snapshot_id:
            return
        normal = [self._write.row_normalizer.take(rows, KindSource.INSERTS)[0] for rows in inserted]
        keys = pa.concat_tables(normal).select(key)
        sequence = self._write.row_normalizer.options.get(SEQUENCE_FIELD)
        columns = list(dict.fromkeys((*key, *sequence)))
        lookup = StateLookup(self._context.metastore, self._write.store, info, columns, self._context.caches)
        with self._context.leased_reads.reading(info, snapshot_id):
            found = lookup.find(keys, snapshot_id)
        gone = is_retract(single_array(found.column(ROW_KIND_COLUMN)))
        there = found.select(key).filter(pa.array(np.logical_not(gone)))
        if there.num_rows:
            raise InvalidArgument(
                f"An INSERT of the merge would replace rows of {info.name} that are there already, because rows "
                f"are not matched by the whole primary key ({', '.join(key)}): {show_rows(there)}. Match by the "
                "key, or give the new rows other keys.",
                reason="KEY_EXISTS",
                metadata={"table": str(info.name), "rows": show_rows(there)},
            )
