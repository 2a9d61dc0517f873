"""What a subscription reads of one table: the initial rows, and the changes of snapshots."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakelog.context import Context
from lakelog.errors import NotFound
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, RowKind
from lakelog.reads.change_plan import describe_skipped, has_changelog_producer, is_overwrite
from lakelog.reads.continued_columns import ContinuedColumns, find_shown
from lakelog.reads.scan_planning import plan_changes, plan_scan
from lakelog.reads.streams.batch import StreamBatch
from lakelog.storage.parquet.batches import join_small_batches
from lakelog.storage.parquet.read_counts import ReadCounts
from lakelog.storage.parquet.writer import plan_file_schema
from lakelog.storage.scan.file_scan import SNAPSHOT_ID_COLUMN

_log = logging.getLogger(__name__)

GO_ON: Final = (
    "Subscribe again with columns and filters that the table has now: a consumer goes on behind its position, and "
    "without one, scan_mode='from-snapshot' and the option 'scan.snapshot-id' = '{}' begin there."
)
"""How a subscription goes on after a change of columns that ends it."""


@dataclass(frozen=True)
class StreamView:
    """What is shown of a table.

    Args:
        columns: Names of the columns; None: all.
        filter: An SQL condition that each row shown fulfils; None: none.
        raw: Rows as they were written, without looking up old ones.
        overwrites: Whether to show what overwrites changed.
    """

    columns: tuple[str, ...] | None
    filter: str | None
    raw: bool
    overwrites: bool


@dataclass(frozen=True)
class ShownState:
    """The rows of a state.

    Args:
        snapshot_uuid: The uuid of the state's snapshot.
        watermark_ms: The table's watermark at this snapshot.
        batches: The rows; read on demand.
    """

    snapshot_uuid: str
    watermark_ms: int | None
    batches: Iterator[StreamBatch]


class StreamTable:
    """One table as a subscription shows it.

    Args:
        context: The metastore, stores, caches and clock.
        table: The table.
        view: What to show.
        counts: Counts what is read.
    """

    def __init__(self, context: Context, table: TableInfo, view: StreamView, counts: ReadCounts) -> None:
        self._context = context
        self._table = table
        self._view = view
        self._counts = counts
        shown = find_shown(table, view.columns, view.filter)
        self._continued = ContinuedColumns(table, shown, GO_ON)

    @property
    def name(self) -> str:
        """`database.table`."""
        return str(self._table.name)

    @property
    def info(self) -> TableInfo:
        """The table as it was at the subscription."""
        return self._table

    def read_state(self, snapshot_id: int, files_since_ms: int | None) -> ShownState:
        """Returns the rows to which the changes after a snapshot apply; blocks.

        They are the rows at the snapshot. But if full compactions emit changes, they are what these have emitted.

        Args:
            snapshot_id: The snapshot.
            files_since_ms: Only of files committed at or after this time; None: of all.
        """
        scan = plan_scan(
            self._context,
            self._table,
            columns=self._names(),
            filter=self._view.filter,
            limit=None,
            snapshot_id=snapshot_id,
            timestamp=None,
            options=None,
            files_since_ms=files_since_ms,
            baseline=not self._view.raw,
            continued=self._continued,
            counts=self._counts,
        )
        rows = join_small_batches(scan.to_batches())
        batches = (StreamBatch(self._with_kind(each), snapshot_id, self.name) for each in rows)
        return ShownState(scan.snapshot_uuid, scan.watermark_ms, batches)

    def read_changes(self, snapshots: Sequence[Snapshot]) -> Iterator[StreamBatch]:
        """Yields the changes of successive snapshots with one schema; blocks.

        Args:
            snapshots: At least one, each right after the one before.

        Yields:
            Batches of rising snapshots, the rows of each of one snapshot; none of a snapshot that shows nothing.
        """
        for batch in self._read_files(snapshots, self._columns()):
            snapshot_id: int = batch.column(SNAPSHOT_ID_COLUMN)[0].as_py()
            yield StreamBatch(batch.drop_columns([SNAPSHOT_ID_COLUMN]), snapshot_id, self.name)

    def _read_files(self, snapshots: Sequence[Snapshot], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The changes of some snapshots by their files, in these columns, with the snapshot's id."""
        scan = plan_changes(
            self._context,
            self._table,
            after=snapshots[0].snapshot_id - 1,
            until=snapshots[-1].snapshot_id,
            columns=columns,
            filter=self._view.filter,
            raw=self._view.raw,
            overwrites=self._view.overwrites,
            continued=self._continued,
            counts=self._counts,
        )
        if scan.skipped_snapshots:
            _log.warning("%s", describe_skipped(self._table.name, scan.skipped_snapshots))
        yield from scan.to_batches()

    def close(self) -> None:
        """Ends the waiting of a read, from any thread; idempotent."""

    def release(self) -> None:
        """Closes what reading has opened, in the thread that reads; a later read opens it again. Idempotent."""

    def is_skipped(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot overwrote rows, and the stream does not show it."""
        return is_overwrite(snapshot) and not self._view.overwrites

    def to_dropped(self) -> NotFound:
        """The error when the table no longer exists."""
        return to_dropped(self.name)

    def _names(self) -> list[str]:
        return self._table.schema.arrow.names if self._view.columns is None else list(self._view.columns)

    def _columns(self) -> list[str]:
        names = self._names()
        kind = [ROW_KIND_COLUMN] if self._table.schema.primary_key and ROW_KIND_COLUMN not in names else []
        return [*names, *kind, SNAPSHOT_ID_COLUMN]

    def _with_kind(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self._table.schema.primary_key:
            return batch
        if batch.num_columns and (self._view.raw or has_changelog_producer(self._table)):
            # Like the changes after them, where deletes may know only their key.
            stored = plan_file_schema(self._table.schema, with_row_kind=False)
            fields = [each.with_nullable(stored.field(each.name).nullable) for each in batch.schema]
            batch = pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields))
        kinds = pa.repeat(pa.scalar(RowKind.INSERT.text), batch.num_rows)
        return batch.append_column(pa.field(ROW_KIND_COLUMN, pa.string(), nullable=False), kinds)


def to_dropped(name: str) -> NotFound:
    """The error when a table that is read no longer exists. Pure."""
    return NotFound(
        f"Table {name} was dropped, so no change will come any more.",
        reason="TABLE_NOT_FOUND",
        metadata={"table": name},
    )
