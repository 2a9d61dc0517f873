"""What a subscription reads of one table: the rows it begins with, and the changes of snapshots."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakelog.context import Context
from lakelog.errors import NotFound
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, RowKind
from lakelog.reads.change_plan import describe_skipped, has_changelog_producer, is_overwrite
from lakelog.reads.scan_planning import plan_changes, plan_scan
from lakelog.reads.streams.batch import StreamBatch
from lakelog.storage.parquet.batches import join_small_batches
from lakelog.storage.parquet.read_counts import ReadCounts
from lakelog.storage.parquet.writer import plan_file_schema
from lakelog.storage.scan.file_scan import SNAPSHOT_ID_COLUMN

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StreamView:
    """What is shown of a table.

    Args:
        columns: Names of the columns; None: all.
        filter: An SQL condition that each row shown fulfils; None: none.
        raw: Rows as they were written, without looking up old ones.
        overwrites: What overwrites changed, too.
    """

    columns: tuple[str, ...] | None
    filter: str | None
    raw: bool
    overwrites: bool


@dataclass(frozen=True)
class ShownState:
    """The rows of a state.

    Args:
        snapshot_uuid: Of the snapshot whose state it is.
        watermark_ms: Of the table by then.
        batches: The rows; read as they are asked for.
    """

    snapshot_uuid: str
    watermark_ms: int | None
    batches: Iterator[StreamBatch]


class StreamTable:
    """One table as a subscription shows it.

    Args:
        context: Where the table is.
        table: The table.
        view: What to show.
        counts: Told of what is read.
    """

    def __init__(self, context: Context, table: TableInfo, view: StreamView, counts: ReadCounts) -> None:
        self._context = context
        self._table = table
        self._view = view
        self._counts = counts

    @property
    def name(self) -> str:
        """`database.table`."""
        return str(self._table.name)

    @property
    def info(self) -> TableInfo:
        """The table as it was when it was subscribed to."""
        return self._table

    def read_state(self, snapshot_id: int, files_since_ms: int | None) -> ShownState:
        """The rows on which the changes behind a snapshot lead on; blocks.

        They are those at the snapshot, but where full compactions tell changes: there they are what these have told.

        Args:
            snapshot_id: The snapshot.
            files_since_ms: Of files committed at or after this time; None: of all.
        """
        scan = plan_scan(
            self._context,
            self._table,
            columns=self._view.columns,
            filter=self._view.filter,
            limit=None,
            snapshot_id=snapshot_id,
            timestamp=None,
            options=None,
            files_since_ms=files_since_ms,
            baseline=not self._view.raw,
            counts=self._counts,
        )
        rows = join_small_batches(scan.to_batches())
        batches = (StreamBatch(self._with_kind(each), snapshot_id, self.name) for each in rows)
        return ShownState(scan.snapshot_uuid, scan.watermark_ms, batches)

    def read_changes(self, snapshots: Sequence[Snapshot]) -> Iterator[StreamBatch]:
        """What some snapshots, which have one schema, changed, one after the other; blocks.

        Args:
            snapshots: At least one, each right behind the one before.

        Yields:
            Batches of rising snapshots, the rows of each of one snapshot; none of a snapshot that shows nothing.
        """
        for batch in self._read_files(snapshots, self._columns()):
            snapshot_id: int = batch.column(SNAPSHOT_ID_COLUMN)[0].as_py()
            yield StreamBatch(batch.drop_columns([SNAPSHOT_ID_COLUMN]), snapshot_id, self.name)

    def _read_files(self, snapshots: Sequence[Snapshot], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """What some snapshots changed by their files, in these columns, with the snapshot's id."""
        scan = plan_changes(
            self._context,
            self._table,
            after=snapshots[0].snapshot_id - 1,
            until=snapshots[-1].snapshot_id,
            columns=columns,
            filter=self._view.filter,
            raw=self._view.raw,
            overwrites=self._view.overwrites,
            counts=self._counts,
        )
        if scan.skipped_snapshots:
            _log.warning("%s", describe_skipped(self._table.name, scan.skipped_snapshots))
        yield from scan.to_batches()

    def close(self) -> None:
        """Ends what a read waits for, from any thread; idempotent."""

    def release(self) -> None:
        """Closes what reading has opened, by the thread that reads; a later read opens it anew. Idempotent."""

    def is_skipped(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot overwrote rows, and nothing of that is shown."""
        return is_overwrite(snapshot) and not self._view.overwrites

    def to_dropped(self) -> NotFound:
        """What is said when the table is no longer there."""
        return to_dropped(self.name)

    def _columns(self) -> list[str]:
        names = self._table.schema.arrow.names if self._view.columns is None else list(self._view.columns)
        kind = [ROW_KIND_COLUMN] if self._table.schema.primary_key and ROW_KIND_COLUMN not in names else []
        return [*names, *kind, SNAPSHOT_ID_COLUMN]

    def _with_kind(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self._table.schema.primary_key:
            return batch
        if batch.num_columns and (self._view.raw or has_changelog_producer(self._table)):
            # As the changes behind them have it, where deletes may know only their key.
            stored = plan_file_schema(self._table.schema, with_row_kind=False)
            fields = [each.with_nullable(stored.field(each.name).nullable) for each in batch.schema]
            batch = pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields))
        kinds = pa.repeat(pa.scalar(RowKind.INSERT.text), batch.num_rows)
        return batch.append_column(pa.field(ROW_KIND_COLUMN, pa.string(), nullable=False), kinds)


def to_dropped(name: str) -> NotFound:
    """What is said where a table that is read is no longer there. Pure."""
    return NotFound(
        f"Table {name} was dropped, so no change will come any more.",
        reason="TABLE_NOT_FOUND",
        metadata={"table": name},
    )
