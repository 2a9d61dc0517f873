"""Reads of a table: a state, or what snapshots added, as Arrow, pandas or polars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import pyarrow as pa

from lakelog.client.cancellation import check_cancelled
from lakelog.context import Context
from lakelog.errors import InvalidArgument
from lakelog.format.commit.request import TableGuard
from lakelog.format.tables.plan import Plan
from lakelog.format.tables.snapshot import Snapshot
from lakelog.frames import to_pandas, to_polars
from lakelog.frames.html_table import show_first
from lakelog.options.values import TableOptions
from lakelog.progress.tracking import track
from lakelog.progress.work import Work
from lakelog.reads.change_plan import find_overwrites
from lakelog.reads.row_source import RowSource
from lakelog.storage.merging.merge_policy import MergePolicy, to_merge_policy
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.read_counts import ReadCounts, ReadMetrics

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


def track_reading(table: str, files: Sequence[LiveFile], limit: int | None) -> AbstractContextManager[Work]:
    """A work of `lakelog.progress`, to count the rows that a scan returns.

    The total is that of the rows in its files. Merging and filters hide some of them, so the end may come early.
    """
    rows = sum(file.row_count for file in files)
    return track(f"reading {table}", "rows", rows if limit is None else min(rows, limit))


class Scan:
    """The rows of a table at one snapshot, or what some snapshots added; `Table.scan` and `Table.changes` make it.

    The snapshot is fixed when the scan is made: however often it is read, the rows are the same. Threads may share it.
    It pickles, with the list of files it reads.

    Args:
        context: The metastore, stores, caches and clock.
        plan: What to read.
        rows: How to read it.
        limit: At most this many rows; None: all.
        with_overwrites: For changes: whether they include what overwrites changed.
        counts: Counts what is read; None: its own.
        reads_from: The earliest snapshot that is needed; None: the first that the plan names.
        of_changelogs: For changes: whether only changelog files are read, which can be retained longer than states.
        guard: For a state: what must be unchanged for a commit that relies on it.
    """

    def __init__(
        self,
        context: Context,
        plan: Plan,
        rows: RowSource,
        limit: int | None,
        *,
        with_overwrites: bool = False,
        counts: ReadCounts | None = None,
        reads_from: int | None = None,
        of_changelogs: bool = False,
        guard: TableGuard | None = None,
    ) -> None:
        self._context = context
        self._plan = plan
        self._counts = counts or ReadCounts()
        self._rows = rows.counted_by(self._counts)
        self._limit = limit
        self._with_overwrites = with_overwrites
        self._reads_from = reads_from
        self._of_changelogs = of_changelogs
        self._guard = guard
        if self.skipped_snapshots:
            self._counts.add(ReadMetrics(snapshots_skipped=len(self.skipped_snapshots)))

    def __reduce__(self) -> tuple[object, ...]:
        # A cache belongs to one process; an unpickled scan uses the cache of its catalog.
        rows = self._rows.with_caches(None)
        more = (self._with_overwrites, self._reads_from, self._of_changelogs, self._guard)
        return (_rebuild_scan, (self._context, self._plan, rows, self._limit, *more))

    def __repr__(self) -> str:
        at = f"snapshot {self.snapshot_id}" if self.snapshot_id else "no snapshot yet"
        limit = "" if self._limit is None else f", at most {self._limit} rows"
        names = ", ".join(self.schema.names)
        return f"<scan of {self._plan.table.name} at {at}: {len(self._rows.files)} files, columns {names}{limit}>"

    @property
    def table_name(self) -> str:
        """The table that is read, `database.table`."""
        return str(self._plan.table.name)

    @property
    def snapshot_id(self) -> int:
        """The snapshot that is read, or the last of the range; 0 if there is none.

        Pass it to a write that depends on what was read: `table.overwrite(rows, if_snapshot=scan.snapshot_id)`.
        """
        return 0 if self._plan.snapshot is None else self._plan.snapshot.snapshot_id

    @property
    def snapshot_uuid(self) -> str:
        """The uuid of that snapshot; empty if there is none."""
        return "" if self._plan.snapshot is None else self._plan.snapshot.snapshot_uuid

    @property
    def watermark_ms(self) -> int | None:
        """The watermark of that snapshot, in milliseconds since the epoch; None if there is none."""
        return None if self._plan.snapshot is None else self._plan.snapshot.watermark_ms

    def to_guard(self) -> TableGuard:
        """Returns what must be unchanged for a commit that relies on these rows; `Transaction.guard` takes the scan.

        These are the places where rows that the filter selects can lie, also rows that do not exist yet: partitions, if
        it gives each partition column some values, and only some of their buckets, if it does so for the bucket key;
        else the whole table.

        Raises:
            InvalidArgument: The scan shows changes, and not the table's state.
        """
        if self._guard is None:
            name = self.table_name
            raise InvalidArgument(
                f"This scan shows what changed in {name}, and a guard needs the rows of a snapshot. Read them with "
                f"scan(), or guard the whole table: tx.table('{name}', if_snapshot={self.snapshot_id}).",
                metadata={"field": "scan", "table": name},
            )
        return self._guard

    @property
    def skipped_snapshots(self) -> tuple[int, ...]:
        """Ids of the snapshots that overwrote rows, which the changes do not show; rising (semantics 5.2)."""
        if self._with_overwrites:
            return ()
        return tuple(find_overwrites(self._plan.range_snapshots))

    @property
    def range_snapshots(self) -> Sequence[Snapshot]:
        """For changes: the snapshots whose changes are read, rising."""
        return self._plan.range_snapshots

    @property
    def metrics(self) -> ReadMetrics:
        """What was read so far, and what was skipped: files, row groups, bytes."""
        return self._counts.metrics

    @property
    def files(self) -> Sequence[LiveFile]:
        """The data files that are read, without those that the filter excludes."""
        return self._rows.files

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return self._rows.returned_schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Reads the rows batch by batch; the memory does not depend on their number.

        Yields:
            Batches with the columns of `schema`, none of them empty. Closing the iterator early ends the read.

        Raises:
            DataCorrupted: A file is damaged or missing; named.
            SnapshotExpired: A file is missing, and so is the snapshot. A long read has a snapshot lease, so this only
                happens to reads that begin, or wait, while their snapshot expires.
        """
        left = self._limit
        if left == 0:
            return
        batches = self._rows.read_batches(limit=left)
        with self._leased():
            try:
                for batch in batches:
                    check_cancelled()
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
        with track_reading(str(self._plan.table.name), self.files, self._limit) as work:
            batches = []
            for batch in self.to_batches():
                batches.append(batch)
                work.advance(batch.num_rows)
        return pa.Table.from_batches(batches, self.schema)

    def to_pandas(self) -> pd.DataFrame:
        """Reads all rows into a pandas data frame; needs pandas."""
        return to_pandas(self.to_arrow)

    def to_polars(self) -> pl.DataFrame:
        """Reads all rows into a polars data frame; needs polars."""
        return to_polars(self.to_arrow)

    def count(self) -> int:
        """Counts the rows; opens no file if the metastore knows enough."""
        with track(f"counting rows of {self._plan.table.name}"), self._leased():
            count = self._rows.count_rows()
        return count if self._limit is None else min(count, self._limit)

    def _leased(self) -> AbstractContextManager[None]:
        """Leases the snapshot for a long read."""
        plan = self._plan
        if plan.snapshot is None or not self._rows.files:
            return nullcontext()
        first = plan.range_snapshots[0] if plan.range_snapshots else plan.snapshot
        needed = first.snapshot_id if self._reads_from is None else self._reads_from
        return self._context.leased_reads.reading(
            plan.table, max(needed, 1), is_range=bool(plan.range_snapshots), of_changelogs=self._of_changelogs
        )

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream, so that a scan can be passed to any consumer of one, including a write."""
        reader = pa.RecordBatchReader.from_batches(self.schema, self.to_batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        """The first rows, for notebooks; never fails."""
        return show_first(lambda: self, repr(self))


def check_limit(limit: int | None, name: str = "limit") -> None:
    """Raises InvalidArgument if the limit is not a number of rows."""
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
        raise InvalidArgument(f"{name}={limit!r:.80} is no number of rows: give 0 or more.", metadata={"field": name})


def _rebuild_scan(
    context: Context,
    plan: Plan,
    rows: RowSource,
    limit: int | None,
    with_overwrites: bool,
    reads_from: int | None,
    of_changelogs: bool,
    guard: TableGuard | None,
) -> Scan:
    return Scan(
        context,
        plan,
        rows.with_caches(context.caches),
        limit,
        with_overwrites=with_overwrites,
        reads_from=reads_from,
        of_changelogs=of_changelogs,
        guard=guard,
    )


def find_policy(plan: Plan) -> MergePolicy | None:
    """What decides between rows of one key; None: the table has no key."""
    return to_merge_policy(plan.schema, TableOptions(plan.table.options)) if plan.schema.primary_key else None
