"""Reads of a table: a state of it, or what snapshots added, as Arrow, pandas or polars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import pyarrow as pa

from lakelog.context import Context
from lakelog.errors import InvalidArgument
from lakelog.format.tables.plan import Plan
from lakelog.frames import to_pandas, to_polars
from lakelog.options.values import TableOptions
from lakelog.reads.change_plan import find_overwrites
from lakelog.reads.row_source import RowSource
from lakelog.storage.merging.deletion_vectors import MergePolicy, to_merge_policy
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.read_counts import ReadCounts, ReadMetrics

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class Scan:
    """The rows of a table at one snapshot, or what some snapshots added; `Table.scan` and `Table.changes` make it.

    The snapshot is settled when it is made: however often it is read, the rows are the same. Threads may share it. It
    pickles, with the list of files it reads.

    Args:
        context: Where the table is.
        plan: What to read.
        rows: How to read it.
        limit: At most so many rows; None: all.
        with_overwrites: Of changes: what overwrites changed is among them.
        counts: Told of what is read; None: its own.
        reads_from: The earliest snapshot that is needed; None: the first that the plan names.
        of_changelogs: Of changes: nothing but changelog files is read, which may be kept longer than states.
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
    ) -> None:
        self._context = context
        self._plan = plan
        self._counts = counts or ReadCounts()
        self._rows = rows.counted_by(self._counts)
        self._limit = limit
        self._with_overwrites = with_overwrites
        self._reads_from = reads_from
        self._of_changelogs = of_changelogs
        if self.skipped_snapshots:
            self._counts.add(ReadMetrics(snapshots_skipped=len(self.skipped_snapshots)))

    def __reduce__(self) -> tuple[object, ...]:
        # A cache is of one process; where the scan arrives it takes that catalog's.
        rows = self._rows.with_caches(None)
        more = (self._with_overwrites, self._reads_from, self._of_changelogs)
        return (_rebuild_scan, (self._context, self._plan, rows, self._limit, *more))

    def __repr__(self) -> str:
        at = f"snapshot {self.snapshot_id}" if self.snapshot_id else "no snapshot yet"
        limit = "" if self._limit is None else f", at most {self._limit} rows"
        names = ", ".join(self.schema.names)
        return f"<scan of {self._plan.table.name} at {at}: {len(self._rows.files)} files, columns {names}{limit}>"

    @property
    def snapshot_id(self) -> int:
        """The snapshot that is read, or the last of the range; 0 where there is none to read.

        Give it to a write that rests on what was read: `table.overwrite(rows, if_snapshot=scan.snapshot_id)`.
        """
        return 0 if self._plan.snapshot is None else self._plan.snapshot.snapshot_id

    @property
    def snapshot_uuid(self) -> str:
        """The uuid of that snapshot; empty where there is none."""
        return "" if self._plan.snapshot is None else self._plan.snapshot.snapshot_uuid

    @property
    def watermark_ms(self) -> int | None:
        """The watermark of that snapshot, in milliseconds since the epoch; None where there is none."""
        return None if self._plan.snapshot is None else self._plan.snapshot.watermark_ms

    @property
    def skipped_snapshots(self) -> tuple[int, ...]:
        """Ids of the snapshots that overwrote rows, of which the changes show nothing; rising (semantics 5.2)."""
        if self._with_overwrites:
            return ()
        return tuple(find_overwrites(self._plan.range_snapshots))

    @property
    def metrics(self) -> ReadMetrics:
        """What was read so far, and what could be left out: files, row groups, bytes."""
        return self._counts.metrics

    @property
    def files(self) -> Sequence[LiveFile]:
        """The data files that are read, those left out that the filter rules out."""
        return self._rows.files

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
            SnapshotExpired: A file is missing, and so is the snapshot. One that lasts is held, so that this only meets
                reads that begin, or wait, while theirs expires.
        """
        left = self._limit
        if left == 0:
            return
        batches = self._rows.read_batches()
        with self._leased():
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
        return to_pandas(self.to_arrow)

    def to_polars(self) -> pl.DataFrame:
        """Reads all rows into a polars data frame; needs polars."""
        return to_polars(self.to_arrow)

    def count(self) -> int:
        """Counts the rows; opens no file where what the metastore knows is enough."""
        with self._leased():
            count = self._rows.count_rows()
        return count if self._limit is None else min(count, self._limit)

    def _leased(self) -> AbstractContextManager[None]:
        """Holds what is read, if that lasts."""
        plan = self._plan
        if plan.snapshot is None or not self._rows.files:
            return nullcontext()
        first = plan.range_snapshots[0] if plan.range_snapshots else plan.snapshot
        needed = first.snapshot_id if self._reads_from is None else self._reads_from
        return self._context.leased_reads.reading(
            plan.table, max(needed, 1), is_range=bool(plan.range_snapshots), of_changelogs=self._of_changelogs
        )

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream, so that a scan may be given to whatever takes one, also to a write."""
        reader = pa.RecordBatchReader.from_batches(self.schema, self.to_batches())
        return reader.__arrow_c_stream__(requested_schema)


def check_limit(limit: int | None, name: str = "limit") -> None:
    """Raises InvalidArgument for what is no number of rows."""
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
) -> Scan:
    return Scan(
        context,
        plan,
        rows.with_caches(context.caches),
        limit,
        with_overwrites=with_overwrites,
        reads_from=reads_from,
        of_changelogs=of_changelogs,
    )


def find_policy(plan: Plan) -> MergePolicy | None:
    """What decides between rows of one key; None: there is no key."""
    return to_merge_policy(plan.schema, TableOptions(plan.table.options)) if plan.schema.primary_key else None
