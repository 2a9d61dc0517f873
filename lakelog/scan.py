"""Reads of a table: a state of it, or what snapshots added, as Arrow, pandas or polars."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.arguments import to_option_texts
from lakelog.changes import NormalizedChanges
from lakelog.errors import InvalidArgument
from lakelog.format.files import FILE_SCHEMA
from lakelog.format.filter import Filter, parse_filter
from lakelog.format.plan import InRange, Plan
from lakelog.format.rowkind import ROW_KIND_COLUMN
from lakelog.format.schema import TableSchema
from lakelog.format.snapshot import SnapshotKind
from lakelog.options.call_options import INCREMENTAL_BETWEEN
from lakelog.options.values import ScanOptions, TableOptions
from lakelog.reading import check_columns, plan_files, settle_state, to_names, to_scan_columns
from lakelog.storage.caches import Caches
from lakelog.storage.file_scan import SNAPSHOT_ID_COLUMN, FileScan, ScanColumns
from lakelog.storage.live_file import LiveFile, to_live_files
from lakelog.storage.parquet_writer import plan_file_schema
from lakelog.storage.superseded import MergePolicy, to_merge_policy

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from lakelog.catalog import Catalog
    from lakelog.format.table import TableInfo


class RowSource(Protocol):
    """Where the rows of a scan come from; picklable without its caches."""

    @property
    def files(self) -> Sequence[LiveFile]:
        """The data files it is about."""

    @property
    def returned_schema(self) -> pa.Schema:
        """The columns that are returned."""

    def read_batches(self) -> Iterator[pa.RecordBatch]:
        """Reads the rows; a generator, which ends the read when it is closed. None of the batches is empty."""

    def count_rows(self) -> int:
        """Counts the rows that `read_batches` gives."""

    def with_caches(self, caches: Caches | None) -> RowSource:
        """Itself with the caches of a process, or with none, to be taken to another one."""


class Scan:
    """The rows of a table at one snapshot, or what some snapshots added; `Table.scan` and `Table.changes` make it.

    The snapshot is settled when it is made: however often it is read, the rows are the same. Threads may share it. It
    pickles, with the list of files it reads.

    Args:
        catalog: Where the table is.
        plan: What to read.
        rows: How to read it.
        limit: At most so many rows; None: all.
        with_overwrites: Of changes: what overwrites changed is among them.
    """

    def __init__(
        self, catalog: Catalog, plan: Plan, rows: RowSource, limit: int | None, *, with_overwrites: bool = False
    ) -> None:
        self._catalog = catalog
        self._plan = plan
        self._rows = rows
        self._limit = limit
        self._with_overwrites = with_overwrites

    def __reduce__(self) -> tuple[object, ...]:
        # A cache is of one process; where the scan arrives it takes that catalog's.
        rows = self._rows.with_caches(None)
        return (_rebuild_scan, (self._catalog, self._plan, rows, self._limit, self._with_overwrites))

    def __repr__(self) -> str:
        at = f"snapshot {self.snapshot_id}" if self.snapshot_id else "no snapshot yet"
        limit = "" if self._limit is None else f", at most {self._limit} rows"
        names = ", ".join(self.schema.names)
        return f"<scan of {self._plan.table.name} at {at}: {len(self._rows.files)} files, columns {names}{limit}>"

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that is read, or the last of the range; None where there is none to read."""
        return None if self._plan.snapshot is None else self._plan.snapshot.snapshot_id

    @property
    def snapshot_uuid(self) -> str:
        """The uuid of that snapshot; empty where there is none."""
        return "" if self._plan.snapshot is None else self._plan.snapshot.snapshot_uuid

    @property
    def skipped_snapshots(self) -> tuple[int, ...]:
        """Ids of the snapshots that overwrote rows, of which the changes show nothing; rising (SEMANTICS.md 5.2)."""
        if self._with_overwrites:
            return ()
        return tuple([each.snapshot_id for each in self._plan.range_snapshots if each.kind is SnapshotKind.OVERWRITE])

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return self._rows.returned_schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Reads the rows batch by batch, in memory that does not depend on how many there are.

        Yields:
            Batches with the columns of `schema`, none of them empty. Closing the iterator early ends the read.

        Raises:
            DataCorrupted: A file is damaged or missing; named.
        """
        left = self._limit
        if left == 0:
            return
        batches = self._rows.read_batches()
        try:
            for batch in batches:
                if left is None:
                    yield batch
                    continue
                rows = min(left, batch.num_rows)
                yield batch.slice(0, rows)
                left -= rows
                if left == 0:
                    return
        finally:
            batches.close()  # type: ignore[attr-defined]

    def to_arrow(self) -> pa.Table:
        """Reads all rows into one pyarrow table."""
        return pa.Table.from_batches(list(self.to_batches()), self.schema)

    def to_pandas(self) -> pd.DataFrame:
        """Reads all rows into a pandas data frame; needs pandas."""
        try:
            import pandas
        except ImportError as error:
            raise InvalidArgument("to_pandas() needs pandas, which is not installed: pip install pandas.") from error
        frame = self.to_arrow().to_pandas()
        assert isinstance(frame, pandas.DataFrame)
        return frame

    def to_polars(self) -> pl.DataFrame:
        """Reads all rows into a polars data frame; needs polars."""
        try:
            import polars
        except ImportError as error:
            raise InvalidArgument("to_polars() needs polars, which is not installed: pip install polars.") from error
        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def count(self) -> int:
        """Counts the rows; opens no file where what the metastore knows is enough."""
        count = self._rows.count_rows()
        return count if self._limit is None else min(count, self._limit)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream, so that a scan may be given to whatever takes one, also to a write."""
        reader = pa.RecordBatchReader.from_batches(self.schema, self.to_batches())
        return reader.__arrow_c_stream__(requested_schema)


def plan_scan(
    catalog: Catalog,
    info: TableInfo,
    *,
    columns: Sequence[str] | None,
    filter: str | None,  # noqa: A002
    limit: int | None,
    snapshot_id: int | None,
    timestamp: int | dt.datetime | None,
    options: Mapping[str, Any] | None,
    files_since_ms: int | None = None,
) -> Scan:
    """Plans a read of a table's state; arguments as of `lakelog.table.Table.scan`.

    With `files_since_ms` only of the files that were committed at or after this time, in milliseconds since the epoch.
    """
    given = ScanOptions(to_option_texts({} if options is None else options))
    between = given.get(INCREMENTAL_BETWEEN)
    at = settle_state(snapshot_id, timestamp, given)
    check_limit(limit)
    if between is not None:
        if at is not None:
            raise InvalidArgument(
                f"Option '{INCREMENTAL_BETWEEN.key}' reads what snapshots added, so no snapshot or time may be given "
                "with it. Leave one out.",
                reason="CONTRADICTING_OPTIONS",
            )
        return plan_changes(
            catalog,
            info,
            after=between[0],
            until=between[1],
            columns=to_names(columns) if columns is not None else info.schema.arrow.names,
            filter=filter,
            limit=limit,
            without_deletes=True,
        )
    plan, parsed = plan_files(catalog.metastore, info, at, _parser(filter))
    schema = plan.schema
    policy = _to_policy(plan)
    names = check_columns(columns, schema, str(info.name))
    live = to_live_files(plan.files)
    if files_since_ms is not None:
        # What is left out is older than what stays, so that no row comes back that a newer one had replaced.
        live = [file for file in live if file.order_time_ms >= files_since_ms]
    files = FileScan(
        catalog.open_store(plan.table),
        live,
        schema,
        to_scan_columns(names, schema, parsed),
        policy,
        catalog.caches.positions,
    )
    return Scan(catalog, plan, files, limit)


def plan_changes(
    catalog: Catalog,
    info: TableInfo,
    *,
    after: int,
    until: int,
    columns: Sequence[str] | None,
    filter: str | None,  # noqa: A002
    limit: int | None = None,
    raw: bool = True,
    overwrites: bool = False,
    without_deletes: bool = False,
) -> Scan:
    """Plans a read of what the snapshots behind `after`, up to and with `until`, changed.

    Of an append table that is what they added. Of a table with a primary key it is the keyed changes, each with its old
    row; or, with `raw`, what was written: the last row a key of each commit, also where a commit had more rows than a
    writer's buffer and so wrote several runs (SEMANTICS.md 3.3). Snapshots that compacted show nothing, and so do those
    that overwrote, unless `overwrites` asks for their difference, or for their new rows where there is no key
    (SEMANTICS.md 5.2).
    """
    if after == until:
        parsed = _parser(filter)(info.schema)
        plan = Plan(info, info.schema, {}, None, FILE_SCHEMA.empty_table())
    else:
        plan, parsed = plan_files(catalog.metastore, info, InRange(after, until), _parser(filter))
    kinds = {SnapshotKind.APPEND}
    if overwrites and (raw or not plan.schema.primary_key):
        kinds.add(SnapshotKind.OVERWRITE)
    shown = {each.snapshot_id for each in plan.range_snapshots if each.kind in kinds}
    files = [file for file in to_live_files(plan.files) if file.added_snapshot in shown]
    files.sort(key=lambda file: (file.added_snapshot, file.partition, file.bucket, file.order_ordinal))
    own = (ROW_KIND_COLUMN, SNAPSHOT_ID_COLUMN)
    names = check_columns(columns, plan.schema, str(info.name), own)
    if columns is None:
        names = (*names, *own)
    policy = _to_policy(plan)
    store = catalog.open_store(plan.table)
    rows: RowSource
    if policy is not None and not raw:
        breaks = [each.snapshot_id for each in plan.range_snapshots if each.kind is SnapshotKind.OVERWRITE]
        table = dataclasses.replace(plan.table, schema=plan.schema)
        columns_read = to_scan_columns(names, plan.schema, parsed)
        rows = NormalizedChanges(
            catalog.metastore, store, table, files, breaks, columns_read, policy, catalog.caches, overwrites
        )
    else:
        rows = FileScan(
            store,
            files,
            plan.schema,
            _to_change_columns(names, plan.schema, parsed, without_deletes),
            None if policy is None else dataclasses.replace(policy, keeps_deletes=True),
            catalog.caches.positions,
        )
    return Scan(catalog, plan, rows, limit, with_overwrites=overwrites)


def check_limit(limit: int | None) -> None:
    """Raises InvalidArgument for what is no number of rows."""
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
        raise InvalidArgument(f"limit={limit!r:.80} is no number of rows: give 0 or more.", metadata={"field": "limit"})


def check_range(after: int, until: int | None) -> None:
    """Raises InvalidArgument for what are no snapshot ids, and for ids in the wrong order."""
    for name, value in (("after", after), ("until", until)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            raise InvalidArgument(f"{name}={value!r:.80} is no snapshot id: give 0 or more.", metadata={"field": name})
    if until is not None and until < after:
        raise InvalidArgument(
            f"until={until} lies before after={after}, so there is nothing between them: after is excluded and until "
            "included. Swap them, or leave until out for the newest snapshot.",
            metadata={"field": "until", "value": str(until)},
        )


def _rebuild_scan(catalog: Catalog, plan: Plan, rows: RowSource, limit: int | None, with_overwrites: bool) -> Scan:
    return Scan(catalog, plan, rows.with_caches(catalog.caches), limit, with_overwrites=with_overwrites)


def _parser(condition: str | None) -> Callable[[TableSchema], Filter | None]:
    return lambda schema: None if condition is None else parse_filter(condition, schema.arrow)


def _to_policy(plan: Plan) -> MergePolicy | None:
    return to_merge_policy(plan.schema, TableOptions(plan.table.options)) if plan.schema.primary_key else None


def _to_change_columns(
    names: tuple[str, ...], schema: TableSchema, parsed: Filter | None, without_deletes: bool
) -> ScanColumns:
    # What was written may be deletes, which know no more than their key.
    columns = to_scan_columns(names, schema, parsed, plan_file_schema(schema, with_row_kind=False))
    if without_deletes or ROW_KIND_COLUMN in names:
        columns = dataclasses.replace(columns, read=(*columns.read, pa.field(ROW_KIND_COLUMN, pa.int8())))
    if not without_deletes:
        return columns
    return dataclasses.replace(
        columns,
        filter=_is_addition() if columns.filter is None else columns.filter & _is_addition(),
        filter_columns=(*columns.filter_columns, ROW_KIND_COLUMN),
    )


def _is_addition() -> pc.Expression:
    kind = pc.field(ROW_KIND_COLUMN)
    return kind.is_null() | (kind == 0) | (kind == 2)
