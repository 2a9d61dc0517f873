"""`$audit_log`, `$changelog` and `$binlog`: the changes of a table as rows. `Table.changes` shows the same ones.

Which updates there are must not depend on the columns that a query happens to read. Changelog files say it themselves.
For snapshots without one, a reader compares rows (semantics 3.3), so then all columns are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lakelog.format.filter.condition import Filter, parse_filter
from lakelog.format.filter.tree import AllOf, all_of
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.format.types.schema import TableSchema
from lakelog.options.declared.tables import STREAMING_READ_OVERWRITE
from lakelog.options.values import TableOptions
from lakelog.reads.change_plan import has_changelog_producer, split_by_changelog
from lakelog.reads.change_range import BEGIN_BETWEEN, find_begin, naming_what_is_kept
from lakelog.reads.complete_changes import DEFAULT_TIMEOUT_S, plan_when_complete
from lakelog.reads.scan_planning import plan_changes
from lakelog.storage.scan.file_scan import SNAPSHOT_ID_COLUMN
from lakelog.system_tables.columns import to_times
from lakelog.system_tables.declaration import NUMBER, TEXT, TIME, Column, OfRows
from lakelog.system_tables.rows.before_and_after import pack_updates
from lakelog.system_tables.states import find_snapshot

if TYPE_CHECKING:
    from lakelog.client.metastore.metastore import Metastore
    from lakelog.context import Context
    from lakelog.format.tables.table import TableInfo
    from lakelog.reads.scan import Scan
    from lakelog.system_tables.wanted import Wanted

COMMIT_TIMESTAMP_COLUMN: Final = "_commit_timestamp"

_KIND: Final = Column(ROW_KIND_COLUMN, TEXT, "`+I` a new row, `-U` and `+U` an update, `-D` a row that is gone.")
_SNAPSHOT: Final = Column(SNAPSHOT_ID_COLUMN, NUMBER, "The snapshot that changed it.")

AUDIT_LOG: Final = OfRows(
    "audit_log",
    "All retained changes, each with its row kind, followed by the columns of the table: who was what before. As of "
    "Apache Paimon.",
    (_KIND,),
)
CHANGELOG: Final = OfRows(
    "changelog",
    "The same changes with snapshot and time, for consumers that go on from a snapshot. Conditions on `_snapshot_id` "
    "select what is read. As the change data feed of Delta, and the changelog view of Iceberg.",
    (
        _KIND,
        _SNAPSHOT,
        Column(COMMIT_TIMESTAMP_COLUMN, TIME, "When that was committed."),
    ),
)
BINLOG: Final = OfRows(
    "binlog",
    "The same changes with one row for an update: each column of the table is an array of its value before and after, "
    "or of the only one. As of Apache Paimon.",
    (
        Column(ROW_KIND_COLUMN, TEXT, "`+I` a new row, `+U` an update, `-D` a row that is gone."),
        _SNAPSHOT,
    ),
    to_type=lambda data_type: pa.list_(data_type),
)


class ChangeRows:
    """The changes that a read of one of these tables shows; fixed when it is made.

    Args:
        context: The metastore, stores, caches and clock.
        info: The table.
        declaration: Which of the tables.
        wanted: What to show.

    Raises:
        SnapshotExpired: The range begins before what is retained.
        Unavailable: A changelog was still pending after a minute.
    """

    def __init__(self, context: Context, info: TableInfo, declaration: OfRows, wanted: Wanted) -> None:
        self._declaration = declaration
        self._info = info
        self._wanted = wanted
        self.after, self.until = find_change_range(context.metastore, info, wanted)
        self._scan: Scan | None = None
        if self.after < self.until:
            with naming_what_is_kept(context.metastore, info, self.after, BEGIN_BETWEEN):
                self._scan = self._plan(context)

    def read_batches(self) -> Iterator[pa.RecordBatch]:
        """The changes with all wanted columns; conditions on the table's own columns are applied already."""
        if self._scan is None:
            return
        snapshots = self._scan.range_snapshots
        batches = self._scan.to_batches()
        if self._declaration is BINLOG:
            batches = pack_updates(batches, self._info.schema.primary_key)
        for batch in batches:
            yield _with_times(batch, snapshots) if self._wanted.needs(COMMIT_TIMESTAMP_COLUMN) else batch

    def _plan(self, context: Context) -> Scan:
        if self._shows_all_columns(None):
            return self._plan_columns(context, self._info.schema.arrow.names)
        own = {each.name for each in self._declaration.columns}
        names = [name for name in self._info.schema.arrow.names if name in self._wanted.columns - own]
        if self._declaration is BINLOG:
            names = list(dict.fromkeys([*names, *self._info.schema.primary_key]))
        scan = self._plan_columns(context, names)
        # An altered option leaves older snapshots as they are.
        if self._shows_all_columns(scan.range_snapshots):
            return self._plan_columns(context, self._info.schema.arrow.names)
        return scan

    def _shows_all_columns(self, snapshots: Sequence[Snapshot] | None) -> bool:
        """Whether rows are compared: expected by the table's option, or known of the snapshots."""
        if not self._info.schema.primary_key:
            return False
        if snapshots is None:
            return not has_changelog_producer(self._info)
        return any(not has_changelog for has_changelog, _ in split_by_changelog(snapshots))

    def _plan_columns(self, context: Context, names: Sequence[str]) -> Scan:
        metastore, info = context.metastore, self._info
        overwrites = TableOptions(info.options).get(STREAMING_READ_OVERWRITE)

        def plan() -> Scan:
            return plan_changes(
                context,
                info,
                after=self.after,
                until=self.until,
                columns=[*names, ROW_KIND_COLUMN, SNAPSHOT_ID_COLUMN],
                parse=self._make_parser(),
                raw=False,
                overwrites=overwrites,
            )

        return plan_when_complete(metastore, info, self.until, DEFAULT_TIMEOUT_S, plan)

    def _make_parser(self) -> Callable[[TableSchema], Filter | None]:
        """Resolves the part of the condition that only columns of the table decide."""
        condition = self._wanted.filter
        if condition is None or self._declaration is BINLOG:
            return lambda schema: None
        return lambda schema: _take_own(parse_filter(condition.sql, self._declaration.to_schema(schema)), schema)


def _take_own(condition: Filter, schema: TableSchema) -> Filter | None:
    parts = condition.tree.operands if isinstance(condition.tree, AllOf) else (condition.tree,)
    known = set(schema.arrow.names)
    own = [part for part in parts if known.issuperset(Filter(condition.sql, condition.schema, part).columns)]
    return Filter(condition.sql, schema.arrow, all_of(own)) if own else None


def find_change_range(metastore: Metastore, info: TableInfo, wanted: Wanted) -> tuple[int, int]:
    """The snapshots to show: after the first up to the second one; equal for none."""
    if wanted.between is not None:
        after, until = wanted.between
    else:
        until = find_snapshot(metastore, info, wanted.state)
        after = find_begin(metastore, info, until, raw=False) if until else 0
    first, last = wanted.bounds_of(SNAPSHOT_ID_COLUMN)
    after = after if first is None else max(after, first - 1)
    until = until if last is None else min(until, last)
    return after, max(after, until)


def _with_times(batch: pa.RecordBatch, snapshots: Sequence[Snapshot]) -> pa.RecordBatch:
    ids = np.array([each.snapshot_id for each in snapshots], np.int64)
    times = to_times(each.committed_at_ms for each in snapshots)
    places = np.searchsorted(ids, batch.column(SNAPSHOT_ID_COLUMN).to_numpy())
    return batch.append_column(COMMIT_TIMESTAMP_COLUMN, times.take(pa.array(places)))
