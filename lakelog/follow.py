"""Following one table: the rows it begins with, then what each snapshot changes, as the metastore tells of it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakelog.change_plan import has_changelog_producer
from lakelog.client.metastore import Watch, WatchPosition
from lakelog.errors import NotFound, SnapshotExpired
from lakelog.format.rowkind import ROW_KIND_COLUMN, RowKind
from lakelog.format.snapshot import Snapshot
from lakelog.format.table import TableInfo
from lakelog.scan_planning import plan_changes, plan_scan
from lakelog.storage.file_scan import SNAPSHOT_ID_COLUMN
from lakelog.storage.parquet_writer import plan_file_schema
from lakelog.stream_batch import Position, Progress, StreamBatch
from lakelog.stream_start import StreamStart, start_over

if TYPE_CHECKING:
    from lakelog.catalog import Catalog


@dataclass(frozen=True)
class StreamView:
    """What is shown of a table.

    Args:
        columns: Names of the columns; None: all.
        filter: An SQL condition that each row shown fulfils; None: none.
        raw: Rows as they were written, without looking up old ones.
        overwrites: What overwrites changed, too.
        last_watermark_ms: It ends before the first snapshot with a greater watermark; None: it does not end.
        expired: What happens when the next change is no longer kept: fail, earliest or full.
    """

    columns: tuple[str, ...] | None
    filter: str | None
    raw: bool
    overwrites: bool
    last_watermark_ms: int | None
    expired: str


class TableFollower:
    """Implements `lakelog.subscription.Follower` for one table.

    Args:
        catalog: Where the table is.
        table: The table.
        start: Where to begin.
        view: What to show.
    """

    def __init__(self, catalog: Catalog, table: TableInfo, start: StreamStart, view: StreamView) -> None:
        self._catalog = catalog
        self._table = table
        self._start = start
        self._view = view
        self._closed = threading.Event()
        self._watch: Watch | None = None

    def follow(self) -> Iterator[Progress]:
        """Hands out the rows to begin with, then each change; blocks; ends when closed."""
        start = self._start
        while not self._closed.is_set():
            try:
                yield from self._follow_from(start)
            except SnapshotExpired:
                if self._view.expired == "fail":
                    raise
                start = start_over(self._catalog.metastore, self._table, self._view.expired)
            except NotFound as error:
                # Dropped before its watch was open, or while a plan was asked for.
                raise (self._dropped() if error.reason == "TABLE_NOT_FOUND" else error) from error
            else:
                return

    def close(self) -> None:
        """Ends `follow`, from any thread; idempotent."""
        self._closed.set()
        watch = self._watch
        if watch is not None:
            watch.close()

    def _follow_from(self, start: StreamStart) -> Iterator[Progress]:
        if start.full_at is not None:
            if (yield from self._show_rows(start)):
                return
        else:
            yield Progress(None, Position(start.after, start.after_uuid))
        position = WatchPosition(self._table.table_uuid, start.after, start.after_uuid)
        with closing(self._catalog.metastore.watch([position])) as watch:
            self._watch = watch
            if self._closed.is_set():
                return
            for event in watch:
                shown = self._within_watermark(event.snapshots)
                for _, group in itertools.groupby(shown, lambda each: (each.schema_id, _is_before(each, start))):
                    yield from self._show_changes(list(group), start)
                if len(shown) < len(event.snapshots):
                    return
                if event.dropped:
                    raise self._dropped()

    def _show_rows(self, start: StreamStart) -> Generator[Progress, None, bool]:
        """Hands out the rows to begin with; returns whether they are the end, for their watermark is beyond it."""
        assert start.full_at is not None, "it begins with rows"
        scan = plan_scan(
            self._catalog,
            self._table,
            columns=self._view.columns,
            filter=self._view.filter,
            limit=None,
            snapshot_id=start.full_at,
            timestamp=None,
            options=None,
            files_since_ms=start.files_since_ms,
        )
        held: StreamBatch | None = None
        for batch in scan.to_batches():
            if held is not None:
                yield Progress(held, None)
            held = StreamBatch(self._with_kind(batch), start.full_at, str(self._table.name))
        yield Progress(held, Position(start.full_at, scan.snapshot_uuid))
        bound, reached = self._view.last_watermark_ms, scan.watermark_ms
        return bound is not None and reached is not None and reached > bound

    def _show_changes(self, snapshots: Sequence[Snapshot], start: StreamStart) -> Iterator[Progress]:
        uuids = {each.snapshot_id: each.snapshot_uuid for each in snapshots}
        last = Position(snapshots[-1].snapshot_id, snapshots[-1].snapshot_uuid)
        if _is_before(snapshots[-1], start):
            yield Progress(None, last)
            return
        scan = plan_changes(
            self._catalog,
            self._table,
            after=snapshots[0].snapshot_id - 1,
            until=last.snapshot_id,
            columns=self._columns(),
            filter=self._view.filter,
            raw=self._view.raw,
            overwrites=self._view.overwrites,
        )
        held: StreamBatch | None = None
        for batch in scan.to_batches():
            # Rows of a batch come of one snapshot.
            snapshot_id: int = batch.column(SNAPSHOT_ID_COLUMN)[0].as_py()
            if held is not None:
                done = held.snapshot_id != snapshot_id
                yield Progress(held, Position(held.snapshot_id, uuids[held.snapshot_id]) if done else None)
            held = StreamBatch(batch.drop_columns([SNAPSHOT_ID_COLUMN]), snapshot_id, str(self._table.name))
        yield Progress(held, last)

    def _dropped(self) -> NotFound:
        return NotFound(
            f"Table {self._table.name} was dropped, so no change will come any more.",
            reason="TABLE_NOT_FOUND",
            metadata={"table": str(self._table.name)},
        )

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

    def _within_watermark(self, snapshots: Sequence[Snapshot]) -> list[Snapshot]:
        bound = self._view.last_watermark_ms
        if bound is None:
            return list(snapshots)
        return list(
            itertools.takewhile(lambda each: each.watermark_ms is None or each.watermark_ms <= bound, snapshots)
        )


def _is_before(snapshot: Snapshot, start: StreamStart) -> bool:
    """Whether a snapshot's changes are passed over."""
    early = start.first_time_ms is not None and snapshot.committed_at_ms < start.first_time_ms
    return early or snapshot.snapshot_id < start.first_snapshot
