"""Reads of system tables, for the SDK, SQL and Spark."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from lakelog.annotations import OptionValue, TimeLike
from lakelog.arguments import to_option_texts
from lakelog.context import Context
from lakelog.errors import InvalidArgument
from lakelog.format.filter.condition import parse_filter
from lakelog.format.tables.plan import AtSnapshot
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.schema import TableSchema
from lakelog.frames import to_pandas, to_polars
from lakelog.frames.html_table import show_first
from lakelog.options.declared.reads_and_writes import INCREMENTAL_BETWEEN
from lakelog.options.values import ScanOptions
from lakelog.reads.reading import check_names, resolve_state
from lakelog.reads.scan import check_limit
from lakelog.reads.scan_planning import plan_scan
from lakelog.reads.tag_range import resolve_range
from lakelog.system_tables.columns import conform, pick_rows
from lakelog.system_tables.declaration import OfCatalog, OfRows, OfTable
from lakelog.system_tables.registry import SystemName
from lakelog.system_tables.rows.changes import BINLOG, ChangeRows
from lakelog.system_tables.rows.read_optimized import list_top_levels
from lakelog.system_tables.states import find_snapshot, plan_without_files
from lakelog.system_tables.wanted import Wanted

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from lakelog.reads.reading import State
    from lakelog.reads.scan import Scan


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
        # Closed here, so that a snapshot that is leased for the read is released at once.
        with closing(cast(Generator[pa.RecordBatch, None, None], self._read())) as batches:
            for batch in batches:
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

    def _repr_html_(self) -> str:
        """The first rows, for notebooks; never fails."""
        return show_first(lambda: self, repr(self))


@dataclass(frozen=True)
class SystemRead:
    """A read of a system table whose arguments are resolved.

    Args:
        name: The system table.
        info: The table that it belongs to; None: the catalog.
        wanted: What is read.
        returned: The columns of the result.
    """

    name: SystemName
    info: TableInfo | None
    wanted: Wanted
    returned: pa.Schema

    @property
    def table(self) -> TableInfo:
        """The table that it belongs to."""
        assert self.info is not None, "it belongs to a table"
        return self.info

    @property
    def is_packed(self) -> bool:
        """Whether its rows are updates with both of their rows."""
        # Not by identity: the read may come from another process.
        return self.name.declaration.name == BINLOG.name

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that was named; None: none."""
        state = self.wanted.state
        return state.snapshot_id if isinstance(state, AtSnapshot) else None

    def with_columns(self, names: Sequence[str]) -> SystemRead:
        """The same read of some of its columns, in this order. Pure."""
        condition = self.wanted.filter
        needed = frozenset(names) | frozenset(() if condition is None else condition.columns)
        returned = pa.schema([self.returned.field(name) for name in names])
        return replace(self, wanted=replace(self.wanted, columns=needed), returned=returned)


def plan_system_read(
    context: Context,
    name: SystemName,
    info: TableInfo | None,
    *,
    columns: Sequence[str] | None = None,
    filter: str | None = None,  # noqa: A002
    snapshot_id: int | None = None,
    timestamp: TimeLike | None = None,
    tag: str | None = None,
    options: Mapping[str, OptionValue] | None = None,
) -> SystemRead:
    """Resolves the arguments of a read of a system table; they are those of `lakelog.Table.scan`.

    Args:
        context: The metastore, stores, caches and clock.
        name: The system table.
        info: The table that it belongs to, as it is now; None: the catalog.
        columns: Names of columns; None: all.
        filter: A condition on its columns.
        snapshot_id: The state to show.
        timestamp: The state to show.
        tag: The state to show.
        options: Scan options by key; `incremental-between` only for changes.

    Raises:
        InvalidArgument: An argument is not possible; named, with the remedy.
        NotFound: There is no such snapshot or tag.
        SnapshotExpired: The snapshot is no longer kept.
    """
    given = ScanOptions(to_option_texts({} if options is None else options))
    state = resolve_state(snapshot_id, timestamp, given, tag)
    between = _find_between(context, name, info, given, state)
    check_past(name, state)
    state, table_schema = _fix_state(context, name, info, state)
    schema = name.declaration.to_schema(table_schema)
    names = check_names(columns, schema.names, str(name))
    condition = None if filter is None else parse_filter(filter, schema)
    wanted = Wanted(schema, table_schema, frozenset(schema.names), condition, state, between)
    return SystemRead(name, info, wanted, schema).with_columns(names)


def plan_system_scan(
    context: Context, name: SystemName, info: TableInfo | None, *, limit: int | None = None, **arguments: Any
) -> SystemScan:
    """Plans a read of a system table, and reads metadata now; arguments and errors as of `plan_system_read`."""
    check_limit(limit)
    read = plan_system_read(context, name, info, **arguments)
    declaration = name.declaration
    if not isinstance(declaration, OfRows):
        batches = read_metadata(context, read).to_batches()
        return SystemScan(str(name), read.returned, lambda: (each for each in batches), limit, read.snapshot_id or 0)
    if declaration.has_changes:
        rows = ChangeRows(context, read.table, declaration, read.wanted)
        condition = read.wanted.filter
        return SystemScan(
            str(name),
            read.returned,
            lambda: pick_rows(rows.read_batches(), condition, read.returned),
            limit,
            rows.until,
        )
    scan = _plan_state(context, read)
    return SystemScan(
        str(name), read.returned, lambda: pick_rows(scan.to_batches(), None, read.returned), limit, scan.snapshot_id
    )


def read_metadata(context: Context, read: SystemRead) -> pa.Table:
    """The rows of a system table that shows metadata."""
    declaration, wanted = read.name.declaration, read.wanted
    if isinstance(declaration, OfCatalog):
        rows = declaration.read(context, wanted)
    else:
        assert isinstance(declaration, OfTable), "others show rows of the table"
        rows = declaration.read(context, read.table, wanted)
    needed = pa.schema([field for field in wanted.schema if field.name in wanted.columns])
    found = conform(rows, needed) if len(needed) else rows
    if wanted.filter is not None:
        found = found.filter(wanted.filter.to_arrow())
    return found.select(read.returned.names)


def _plan_state(context: Context, read: SystemRead) -> Scan:
    condition = read.wanted.filter
    return plan_scan(
        context,
        read.table,
        columns=read.returned.names,
        filter=None if condition is None else condition.sql,
        limit=None,
        snapshot_id=read.snapshot_id,
        timestamp=None,
        options=None,
        levels=list_top_levels(read.table),
    )


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
