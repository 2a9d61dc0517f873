"""Updates and merges inside a transaction: reads the rows, and writes what follows from them.

1. Everything is checked before a row is read or written.
2. Rows are read at the snapshot that the table had when it joined the transaction. What is written relies on the rows
   that were read, so the commit guards the buckets and partitions that it writes to; and where an insert relies on no
   row being anywhere, all places that were read.
3. In a table with a primary key changes are ordinary rows of kind +I, +U and -D, so that streams, changelogs and the
   log get them as from any other write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from lakelog.annotations import Condition, Parameters
from lakelog.context import Context
from lakelog.errors import InvalidArgument
from lakelog.format.keys.ordering import single_array
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, RowKind, is_retract
from lakelog.options.declared.tables import SEQUENCE_FIELD
from lakelog.reads.scan import Scan
from lakelog.reads.scan_planning import plan_scan
from lakelog.reads.state_lookup import StateLookup
from lakelog.sdk.conditions import to_condition
from lakelog.storage.write.row_normalizer import KindSource
from lakelog.writes.commit_options import Guards
from lakelog.writes.row_changes.assignments import bind_known
from lakelog.writes.row_changes.clauses import Action, Assignments, Clause, Rows
from lakelog.writes.row_changes.evaluation import Evaluator
from lakelog.writes.row_changes.expressions import Column
from lakelog.writes.row_changes.keyed_rows import plan_target, read_target, to_portions
from lakelog.writes.row_changes.merging import ChangedRows, MergeRun, RowCounts, check_new_keys, show_rows
from lakelog.writes.row_changes.plan import Names, plan_merge, plan_update, to_output_table
from lakelog.writes.table_write import TableWrite

Sink = Callable[[pa.Table, KindSource], None]
"""Writes rows of the table to the transaction."""


class RowChanges:
    """Changes rows of one table in a transaction. For one use.

    Args:
        context: The metastore, stores and caches.
        write: The table's part of the transaction, to which nothing was written yet.
        sink: Writes rows of it.
        guard: Guards what a scan has read.
    """

    def __init__(self, context: Context, write: TableWrite, sink: Sink, guard: Callable[[Scan], None]) -> None:
        self._context = context
        self._write = write
        self._info = write.info
        self._sink = sink
        self._guard = guard

    def rely_on(self, snapshot_id: int) -> None:
        """Refuses the commit if any row of the table was written since a snapshot: for a source that comes from it."""
        self._write.guards = self._write.guards.meet(Guards(if_snapshot=snapshot_id))

    def update(self, given: Assignments, where: Condition | None, params: Parameters | None, names: Names) -> RowCounts:
        """Gives columns of some rows new values; see `lakelog.Table.update`."""
        counts = RowCounts()
        text = where if isinstance(where, str) else None
        with Evaluator() as evaluator:
            clause = plan_update(self._info, given, text, names, params, evaluator)
            condition = to_condition(where if text is None else bind_known(text, params), None)
            self._begin()
            scan = self._scan(condition)
            for rows in to_portions(scan.to_batches()):
                labelled = rows.rename_columns([f"t.{name}" for name in rows.schema.names])
                output = to_output_table(clause, labelled, evaluator, self._info.schema.arrow)
                self._write_changes(ChangedRows(Action.UPDATE, output, np.empty(0, np.int64)), counts)
        return counts

    def merge(
        self,
        source: pa.Table,
        on: str | Sequence[str],
        clauses: Sequence[Clause],
        params: Parameters | None,
        names: Names,
    ) -> RowCounts:
        """Compares the rows of the table with those of a source; see `lakelog.Table.merge`."""
        counts = RowCounts()
        with Evaluator() as evaluator:
            plan = plan_merge(self._info, source.schema, on, clauses, names, params, evaluator)
            run = MergeRun(plan, source, evaluator)
            if plan.is_upsert:
                self._upsert(run, counts)
                return counts
            self._begin()
            scan = plan_target(self._context, run)
            if plan.clauses_of(Rows.NOT_MATCHED) and not plan.matches_by_key:
                self._guard(scan)
            inserted: list[pa.Table] = []
            for changed in self._run(run, scan):
                self._write_changes(changed, counts)
                if changed.action is Action.INSERT:
                    inserted.append(changed.rows)
            check_new_keys(self._info, inserted)
            if not plan.matches_by_key:
                self._check_keys_are_new(inserted)
        return counts

    def _begin(self) -> None:
        self._write.was_written = True
        self._write.guards = self._write.guards.meet(Guards(if_unchanged=self._info.latest_snapshot_id))

    def _scan(self, condition: str | None) -> Scan:
        return plan_scan(
            self._context,
            self._info,
            columns=None,
            filter=condition,
            limit=None,
            snapshot_id=self._info.latest_snapshot_id or None,
            timestamp=None,
            options=None,
        )

    def _run(self, run: MergeRun, scan: Scan) -> Iterator[ChangedRows]:
        for portion in read_target(self._context, self._write.store, run, scan):
            yield from run.take(portion)
        yield from run.finish()

    def _upsert(self, run: MergeRun, counts: RowCounts) -> None:
        """Writes each row of the source; which of them replace others, need not be known."""
        run.check_source_keys()
        self._write.was_written = True
        outputs = run.plan.clauses[0].outputs
        rows = run.source.select([each.name for each in outputs.values() if isinstance(each, Column)])
        self._sink(rows.rename_columns(list(outputs)), KindSource.INSERTS)
        counts.upserted += rows.num_rows

    def _write_changes(self, changed: ChangedRows, counts: RowCounts) -> None:
        rows = changed.rows
        if changed.action is Action.UPDATE:
            kinds = pa.array([RowKind.UPDATE_AFTER.text], pa.string()).take(pa.array(np.zeros(rows.num_rows, np.int8)))
            self._sink(rows.append_column(ROW_KIND_COLUMN, kinds), KindSource.COLUMN)
        else:
            self._sink(rows, KindSource.INSERTS if changed.action is Action.INSERT else KindSource.FOUND_DELETES)
        counts.add(changed.action, rows.num_rows)

    def _check_keys_are_new(self, inserted: Sequence[pa.Table]) -> None:
        """Checks that no inserted row has the key of a row that is there, which it would replace.

        Raises:
            InvalidArgument: One has; names some.
        """
        info = self._info
        key = list(info.schema.primary_key)
        if not key or not inserted or not info.latest_snapshot_id:
            return
        normal = [self._write.row_normalizer.take(rows, KindSource.INSERTS)[0] for rows in inserted]
        keys = pa.concat_tables(normal).select(key)
        sequence = self._write.row_normalizer.options.get(SEQUENCE_FIELD)
        columns = list(dict.fromkeys((*key, *sequence)))
        lookup = StateLookup(self._context.metastore, self._write.store, info, columns, self._context.caches)
        with self._context.leased_reads.reading(info, info.latest_snapshot_id):
            found = lookup.find(keys, info.latest_snapshot_id)
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
