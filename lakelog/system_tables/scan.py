"""Reads of system tables, for the SDK, SQL and Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakelog.annotations import OptionValue, TimeLike
from lakelog.arguments import to_option_texts
from lakelog.context import Context
from lakelog.errors import InvalidArgument
from lakelog.format.filter.condition import Filter, parse_filter
from lakelog.format.tables.plan import AtSnapshot
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.schema import TableSchema
from lakelog.frames import to_pandas, to_polars
from lakelog.options.declared.reads_and_writes import INCREMENTAL_BETWEEN
from lakelog.options.values import ScanOptions
from lakelog.reads.reading import check_names, resolve_state
from lakelog.reads.scan import check_limit
from lakelog.reads.scan_planning import plan_scan
from lakelog.reads.tag_range import resolve_range
from lakelog.system_tables.changes import ChangeRows
from lakelog.system_tables.columns import conform
from lakelog.system_tables.declaration import OfCatalog, OfRows, OfTable
from lakelog.system_tables.read_optimized import list_top_levels
from lakelog.system_tables.registry import SystemName
from lakelog.system_tables.states import find_snapshot, plan_without_files
from lakelog.system_tables.wanted import Wanted

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from lakelog.reads.reading import State


class SystemScan:
    """The rows of a system table; `SystemTable.scan` makes it. Fixed when it is made, as a scan of a table.

    Args:
        name: The system table, `database.table$files`.
        schema: The columns of the result.
        read: Reads the rows; may be called several times.
        limit: At most this many rows; None: all.
        snapshot_id: The snapshot that is shown, or the last one whose changes are; 0: it shows no snapshot.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        read: Callable[[], Iterator[pa.RecordBatch]],
        limit: int | None,
        snapshot_id: int = 0,
    ) -> None:
        self.table_name = name
        self.schema = schema
        self.snapshot_id = snapshot_id
        self._read = read
        self._limit = limit

    def __repr__(self) -> str:
        return f"<scan of {self.table_name}: columns {', '.join(self.schema.names)}>"

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Reads the rows batch by batch; none of the batches is empty. Raises as `Scan.to_batches`."""
        left = self._limit
        for batch in self._read():
            if left == 0:
                return
            rows = batch.num_rows if left is None else min(left, batch.num_rows)
            if rows:
                yield batch.slice(0, rows)
            left = None if left is None else left - rows

    def to_arrow(self) -> pa.Table:
        """Reads all rows into one pyarrow table."""
        return pa.Table.from_batches(list(self.to_batches()), self.schema)

    def to_pandas(self) -> pd.DataFrame:
        """Reads all rows into a pandas data frame; needs pandas."""
        return to_pandas(self.to_arrow)

    def to_polars(self) -> pl.DataFrame:
        """Reads all rows into a polars data frame; needs polars."""
        return to_polars(self.to_arrow)

    def count(self) -> int:
        """Counts the rows."""
        return sum(batch.num_rows for batch in self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream, so that any consumer of one takes them, also a write."""
        reader = pa.RecordBatchReader.from_batches(self.schema, self.to_batches())
        return reader.__arrow_c_stream__(requested_schema)


def plan_system_scan(
    context: Context,
    name: SystemName,
    info: TableInfo | None,
    *,
    columns: Sequence[str] | None = None,
    filter: str | None = None,  # noqa: A002
    limit: int | None = None,
    snapshot_id: int | None = None,
    timestamp: TimeLike | None = None,
    tag: str | None = None,
    options: Mapping[str, OptionValue] | None = None,
) -> SystemScan:
    """Plans a read of a system table; arguments as of `lakelog.Table.scan`. Metadata is read now.

    Args:
        context: The metastore, stores, caches and clock.
        name: The system table.
        info: The table that it belongs to, as it is now; None: the catalog.
        columns: Names of columns; None: all.
        filter: A condition on its columns.
        limit: At most this many rows.
        snapshot_id: The state to show.
        timestamp: The state to show.
        tag: The state to show.
        options: Scan options by key; `incremental-between` only for changes.

    Raises:
        InvalidArgument: An argument is not possible; named, with the remedy.
        NotFound: There is no such snapshot or tag.
        SnapshotExpired: The snapshot is no longer kept.
    """
    check_limit(limit)
    given = ScanOptions(to_option_texts({} if options is None else options))
    state = resolve_state(snapshot_id, timestamp, given, tag)
    between = _find_between(context, name, info, given, state)
    check_past(name, state)
    state, table_schema = _fix_state(context, name, info, state)
    schema = name.declaration.to_schema(table_schema)
    names = check_names(columns, schema.names, str(name))
    condition = None if filter is None else parse_filter(filter, schema)
    needed = frozenset(names) | frozenset(() if condition is None else condition.columns)
    wanted = Wanted(schema, table_schema, needed, condition, state, between)
    returned = pa.schema([schema.field(each) for each in names])
    read, shown = _open(context, name, info, wanted, returned)
    return SystemScan(str(name), returned, read, limit, shown)


def _open(
    context: Context, name: SystemName, info: TableInfo | None, wanted: Wanted, returned: pa.Schema
) -> tuple[Callable[[], Iterator[pa.RecordBatch]], int]:
    """What reads the rows, and the snapshot that they show."""
    declaration = name.declaration
    if isinstance(declaration, OfCatalog):
        return _to_reader(declaration.read(context, wanted), wanted, returned), 0
    assert info is not None, "it belongs to a table"
    if isinstance(declaration, OfTable):
        shown = wanted.state.snapshot_id if isinstance(wanted.state, AtSnapshot) else 0
        return _to_reader(declaration.read(context, info, wanted), wanted, returned), shown
    assert isinstance(declaration, OfRows), "there are three kinds"
    if declaration.has_changes:
        rows = ChangeRows(context, info, declaration, wanted)
        return lambda: _pick(rows.read_batches(), wanted.filter, returned), rows.until
    state = wanted.state.snapshot_id if isinstance(wanted.state, AtSnapshot) else None
    scan = plan_scan(
        context,
        info,
        columns=returned.names,
        filter=None if wanted.filter is None else wanted.filter.sql,
        limit=None,
        snapshot_id=state,
        timestamp=None,
        options=None,
        levels=list_top_levels(info),
    )
    return lambda: _pick(scan.to_batches(), None, returned), scan.snapshot_id


def _to_reader(rows: pa.Table, wanted: Wanted, returned: pa.Schema) -> Callable[[], Iterator[pa.RecordBatch]]:
    needed = pa.schema([field for field in wanted.schema if field.name in wanted.columns])
    found = conform(rows, needed) if len(needed) else rows
    if wanted.filter is not None:
        found = found.filter(wanted.filter.to_arrow())
    batches = found.select(returned.names).to_batches()
    return lambda: iter(batches)


def _pick(batches: Iterator[pa.RecordBatch], condition: Filter | None, returned: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The wanted rows and columns of each batch."""
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        if condition is not None:
            rows = rows.filter(condition.to_arrow())
        yield from conform(rows, returned).to_batches()


def check_past(name: SystemName, state: State) -> None:
    """Raises InvalidArgument if a state is named, and the system table shows only the present one. Pure."""
    declaration = name.declaration
    has_past = isinstance(declaration, OfRows) or (isinstance(declaration, OfTable) and declaration.has_past)
    if state is not None and not has_past:
        raise InvalidArgument(
            f"'{name}' shows only the present state. Leave snapshot, time and tag (AS OF) out, or read $files, "
            "$partitions, $buckets, $ro or the changes, which have a past.",
            metadata={"table": str(name)},
        )


def _find_between(
    context: Context, name: SystemName, info: TableInfo | None, given: ScanOptions, state: State
) -> tuple[int, int] | None:
    between = given.get(INCREMENTAL_BETWEEN)
    declaration = name.declaration
    takes_range = isinstance(declaration, OfRows) and declaration.has_changes
    if between is None:
        return None
    if not takes_range or info is None:
        raise InvalidArgument(
            f"'{name}' shows no changes, so it takes no '{INCREMENTAL_BETWEEN.key}'. Leave the option out, or read "
            "$audit_log, $changelog or $binlog.",
            metadata={"option": INCREMENTAL_BETWEEN.key},
        )
    if state is not None:
        raise InvalidArgument(
            f"Option '{INCREMENTAL_BETWEEN.key}' reads what snapshots changed, so no snapshot, time or tag may be "
            "given with it. Leave one out.",
            reason="CONTRADICTING_OPTIONS",
        )
    resolved = resolve_range(context.metastore, info, between)
    return resolved.after, resolved.until


def _fix_state(
    context: Context, name: SystemName, info: TableInfo | None, state: State
) -> tuple[State, TableSchema | None]:
    """The snapshot of a state, and the schema of the table to show it with: of changes always the present one."""
    if info is None:
        return None, None
    if state is None:
        return None, info.schema
    if isinstance(name.declaration, OfRows) and name.declaration.has_changes:
        return AtSnapshot(find_snapshot(context.metastore, info, state)), info.schema
    plan = plan_without_files(context.metastore, info, state)
    assert plan.snapshot is not None, "a state that was named exists"
    return AtSnapshot(plan.snapshot.snapshot_id), plan.schema
