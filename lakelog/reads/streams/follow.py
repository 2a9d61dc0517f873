"""Follows tables: the rows they begin with, then the changes of each commit, as the metastore reports it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Final

from lakelog.client.metastore.metastore import (
    Metastore,
    ReadyWatch,
    ReadyWatches,
    Watch,
    WatchEvent,
    WatchPosition,
)
from lakelog.errors import HistoryDiverged, NotFound, SnapshotExpired
from lakelog.format.commit.order import MAX_KNOWN, Commit, CommitOrder
from lakelog.format.tables.snapshot import Snapshot
from lakelog.reads.expired_position import GO_ON_WITH_OPTION, to_expired_position
from lakelog.reads.stream_start import StreamStart, start_over
from lakelog.reads.streams.batch import IDLE, Position, Progress, StreamBatch
from lakelog.reads.streams.table import StreamTable
from lakelog.storage.parquet.batches import join_small_batches
from lakelog.storage.parquet.read_counts import ReadCounts, ReadMetrics

_MAX_ROWS: Final = 1 << 17
_MAX_BYTES: Final = 32 << 20
"""A snapshot of at most this size is one batch."""


class TablesFollower:
    """Implements `lakelog.reads.streams.feeds.Follower` for one table or several.

    `CommitOrder` orders the commits. The snapshots of a table in one of its answers are planned and read together, and
    shown commit by commit.

    Args:
        metastore: Reports commits.
        tables: What to show of each table, and where to begin.
        counts: Counts what the tables read.
        last_watermark_ms: A table ends before the first snapshot with a greater watermark; None: it does not end.
        expired: What happens when the next change has expired: fail, earliest or full.
        complete: Show a snapshot once its changelog and those before it are attached; rows as they were written need
            none.
        on_begin: Called with the new beginnings if the tables begin again.
        on_close: Called when it is closed, perhaps more than once.
        ready_watches: Opens its watches, so that it yields `IDLE` instead of waiting; None: it waits.
    """

    def __init__(
        self,
        metastore: Metastore,
        tables: Sequence[tuple[StreamTable, StreamStart]],
        counts: ReadCounts,
        *,
        last_watermark_ms: int | None,
        expired: str,
        complete: bool,
        on_begin: Callable[[Sequence[StreamStart]], None],
        on_close: Callable[[], None] = lambda: None,
        ready_watches: ReadyWatches | None = None,
    ) -> None:
        self._metastore = metastore
        self._ready_watches = ready_watches
        self.notify: Callable[[], None] = lambda: None
        """Called, from any thread, when something has come after `IDLE`."""
        self._counts = counts
        self._tables = {table.info.table_uuid: table for table, _ in tables}
        self._starts = {table.info.table_uuid: start for table, start in tables}
        self._last_watermark_ms = last_watermark_ms
        self._expired = expired
        self._complete = complete
        self._on_begin = on_begin
        self._on_close = on_close
        # The number of the next rows that the reader already has.
        self._to_skip: dict[str, int] = {}
        # Snapshots that were handed out, perhaps including parts of an unfinished commit.
        self._shown: dict[str, Position] = {}
        # Snapshots that were skipped since the last reported position, by table: each is reported once, also to a
        # reader whose connection breaks in between.
        self._skipped: dict[str, list[int]] = {}
        self._closed = threading.Event()
        self._watch: Watch | ReadyWatch | None = None

    @property
    def waits(self) -> bool:
        """Whether `follow` blocks while nothing comes, and does not yield `IDLE`."""
        return self._ready_watches is None

    @property
    def metrics(self) -> ReadMetrics:
        """What was read so far."""
        return self._counts.metrics

    def follow(self) -> Iterator[Progress]:
        """Yields the initial rows, then each commit; blocks; ends when closed."""
        try:
            yield from self._follow_on()
        finally:
            for table in self._tables.values():
                table.release()

    def _follow_on(self) -> Iterator[Progress]:
        while not self._closed.is_set():
            begun = self._starts
            try:
                yield from self._follow()
            except SnapshotExpired as error:
                if self._expired == "fail":
                    raise self._explain_expired() or error from error
                self._starts = self._start_over()
                if self._starts == begun:
                    # It would fail again, for instance if rows that the oldest snapshot replaced are no longer known.
                    raise
                self._on_begin(list(self._starts.values()))
            except NotFound as error:
                # A table was dropped before the watch was open, or during planning. Or a known snapshot is lost.
                raise (self._to_dropped(error) or _to_diverged(error) or error) from error
            else:
                return

    def close(self) -> None:
        """Ends `follow`, from any thread; idempotent."""
        self._closed.set()
        watch = self._watch
        if watch is not None:
            watch.close()
        for table in self._tables.values():
            table.close()
        self._on_close()

    def _explain_expired(self) -> SnapshotExpired | None:
        """The error for the table whose position expired; None: no table's, so something else has expired."""
        tables = list(self._tables.values())
        found = self._metastore.list_latest([table.info.table_uuid for table in tables])
        for table, kept in zip(tables, found, strict=True):
            shown = self._shown.get(table.info.table_uuid)
            after = self._starts[table.info.table_uuid].after if shown is None else shown.snapshot_id
            if after < kept.earliest_change_id - 1:
                return to_expired_position(
                    "The stream",
                    table.name,
                    after,
                    earliest=kept.earliest_change_id,
                    latest=kept.snapshot_id,
                    remedy=GO_ON_WITH_OPTION,
                )
        return None

    def _follow(self) -> Iterator[Progress]:
        self._shown = {}
        self._to_skip = {uuid: start.skip_rows for uuid, start in self._starts.items() if start.skip_rows}
        positions = {uuid: Position(start.after, start.after_uuid) for uuid, start in self._starts.items()}
        order = CommitOrder(
            {uuid: (at.snapshot_id, at.snapshot_uuid) for uuid, at in positions.items()},
            last_watermark_ms=self._last_watermark_ms,
            max_known=MAX_KNOWN,
            first=next((uuid for uuid in self._to_skip if self._starts[uuid].full_at is None), None),
        )
        yield from self._show_states(order, positions)
        if order.has_ended:
            return
        watch, events = self._open_watch(positions)
        with closing(watch), closing(events):
            self._watch = watch
            if not self._closed.is_set():
                yield from self._show_events(events, order)

    def _open_watch(
        self, positions: Mapping[str, Position]
    ) -> tuple[Watch | ReadyWatch, Generator[WatchEvent | Progress]]:
        if self._ready_watches is not None:
            ready = self._ready_watches.open(list(positions), complete=self._complete, notify=lambda: self.notify())
            return ready, (IDLE if event is None else event for event in ready)
        watched = [WatchPosition(uuid, at.snapshot_id, at.snapshot_uuid) for uuid, at in positions.items()]
        watch = self._metastore.watch(watched, complete=self._complete)
        return watch, self._listen(watch)

    def _show_events(self, events: Iterator[WatchEvent | Progress], order: CommitOrder) -> Iterator[Progress]:
        for event in events:
            if isinstance(event, Progress):
                yield event
                continue
            order.add(event.table_uuid, event.snapshots, more=event.more)
            yield from self._show_ready(order)
            if order.has_ended:
                return
            if event.dropped:
                raise self._tables[event.table_uuid].to_dropped()

    def _listen(self, watch: Watch) -> Generator[WatchEvent | Progress]:
        """Events of the watch, and what is shown in between; reads the next one when all of one was shown."""
        yield from watch

    def _show_states(self, order: CommitOrder, positions: dict[str, Position]) -> Iterator[Progress]:
        """Yields the initial rows. The position moves when those of all tables are done.

        A table whose watermark is beyond the end is reported as ended.
        """
        held: StreamBatch | None = None
        bound = self._last_watermark_ms
        for uuid, start in self._starts.items():
            if start.full_at is not None:
                state = self._tables[uuid].read_state(start.full_at, start.files_since_ms)
                for batch in self._without_received(uuid, state.batches):
                    if held is not None:
                        yield Progress(held, None)
                    held = batch
                self._to_skip.pop(uuid, None)
                positions[uuid] = Position(start.full_at, state.snapshot_uuid)
                if bound is not None and state.watermark_ms is not None and state.watermark_ms > bound:
                    order.end(uuid)
            self._shown[uuid] = positions[uuid]
        # If a reader already has a part of what comes next, its position would undo that.
        reached = {self._tables[uuid].name: at for uuid, at in positions.items() if uuid not in self._to_skip}
        if held is not None or reached:
            yield Progress(held, reached)

    def _show_ready(self, order: CommitOrder) -> Iterator[Progress]:
        while not self._closed.is_set():
            commits = order.take()
            if commits:
                yield from self._show_commits(commits)
                continue
            wanted = order.list_wanted()
            if not wanted:
                return
            for uuid, after in wanted:
                page = self._metastore.list_snapshots(uuid, after=after)
                if page.snapshots and page.snapshots[0].snapshot_id != after + 1:
                    raise SnapshotExpired(
                        f"Snapshot {after + 1} of {self._tables[uuid].name} expired before it was read; the earliest "
                        f"one kept is {page.earliest_change_id}.",
                        metadata={"snapshot_id": str(after + 1), "earliest": str(page.earliest_change_id)},
                    )
                if page.latest_snapshot_id < after:
                    raise HistoryDiverged(
                        f"{self._tables[uuid].name} was read up to snapshot {after}, but its newest one is "
                        f"{page.latest_snapshot_id}: the metastore was restored to an earlier state. Stop, and compare "
                        "what was read with the table.",
                        metadata={"table": self._tables[uuid].name, "snapshot_id": str(after)},
                    )
                until = page.complete_until if self._complete else page.latest_snapshot_id
                found = [each for each in page.snapshots if each.snapshot_id <= until]
                if found:
                    order.add(uuid, found, more=until > found[-1].snapshot_id)
                else:
                    order.has_no_more(uuid)

    def _show_commits(self, commits: Sequence[Commit]) -> Iterator[Progress]:
        done: dict[str, Position] = {}
        with ExitStack() as stack:
            cursors = {uuid: stack.enter_context(closing(self._open(uuid, commits))) for uuid in self._tables}
            for commit in commits:
                held: StreamBatch | None = None
                for uuid, snapshot in commit.snapshots.items():
                    batches = _join_small(cursors[uuid].read_snapshot(snapshot.snapshot_id))
                    for batch in self._without_received(uuid, batches):
                        if held is not None:
                            yield Progress(held, None)
                        elif done:
                            # So a position is always right before a commit of which the reader has a part.
                            yield self._to_done(None, done)
                            done = {}
                        held = batch
                    self._shown[uuid] = Position(snapshot.snapshot_id, snapshot.snapshot_uuid)
                reached = {self._tables[uuid].name: self._shown[uuid] for uuid in commit.snapshots}
                self._to_skip.clear()
                done |= reached
                self._note_skipped(commit)
                if held is not None:
                    yield self._to_done(held, done)
                    done = {}
        # Among commits that show nothing, only the last position is reported, since each stored position costs a call.
        if done:
            yield self._to_done(None, done)

    def _note_skipped(self, commit: Commit) -> None:
        for uuid, snapshot in commit.snapshots.items():
            table = self._tables[uuid]
            if table.is_skipped(snapshot) and not _is_before(snapshot, self._starts[uuid]):
                self._skipped.setdefault(table.name, []).append(snapshot.snapshot_id)

    def _to_done(self, batch: StreamBatch | None, done: Mapping[str, Position]) -> Progress:
        skipped, self._skipped = self._skipped, {}
        return Progress(batch, done, skipped)

    def _without_received(self, uuid: str, batches: Iterator[StreamBatch]) -> Iterator[StreamBatch]:
        """Leaves out rows that the reader already has: they come in the same order each time."""
        for batch in batches:
            skipped = min(self._to_skip.get(uuid, 0), batch.data.num_rows)
            if skipped:
                self._to_skip[uuid] -= skipped
            if skipped < batch.data.num_rows:
                yield replace(batch, data=batch.data.slice(skipped)) if skipped else batch

    def _open(self, uuid: str, commits: Sequence[Commit]) -> _Cursor:
        start = self._starts[uuid]
        snapshots = [commit.snapshots[uuid] for commit in commits if uuid in commit.snapshots]
        shown = [each for each in snapshots if not _is_before(each, start)]
        if not shown:
            return _Cursor(iter(()))
        return _Cursor(self._tables[uuid].read_changes(shown))

    def _start_over(self) -> dict[str, StreamStart]:
        """Where to go on after a next change has expired: nothing that was shown comes again."""
        starts = start_over(self._metastore, [table.info for table in self._tables.values()], self._expired)
        if self._expired == "full":
            return dict(zip(self._tables, starts, strict=True))
        found = {}
        for uuid, start in zip(self._tables, starts, strict=True):
            old, at = self._starts[uuid], self._shown.get(uuid)
            if at is not None and at.snapshot_id >= start.after:
                start = StreamStart(at.snapshot_id, at.snapshot_uuid)
            found[uuid] = replace(start, first_snapshot=old.first_snapshot, first_time_ms=old.first_time_ms)
        return found

    def _to_dropped(self, error: NotFound) -> NotFound | None:
        if error.reason != "TABLE_NOT_FOUND":
            return None
        for table in self._tables.values():
            try:
                self._metastore.get_table_by_uuid(table.info.table_uuid)
            except NotFound:
                return table.to_dropped()
        return None


def _to_diverged(error: NotFound) -> HistoryDiverged | None:
    """The error for a snapshot that the watch reported, and that the metastore does not know any more."""
    if error.reason != "SNAPSHOT_NOT_FOUND":
        return None
    return HistoryDiverged(
        f"{error.message} It was there before: the metastore's database was restored, or has lost commits. Stop, and "
        "compare what was read with the table.",
        reason="SNAPSHOT_UNKNOWN",
        metadata=error.metadata,
    )


class _Cursor:
    """Reads the changes of a range of snapshots, snapshot by snapshot."""

    def __init__(self, batches: Iterator[StreamBatch]) -> None:
        self._batches = batches
        self._next: StreamBatch | None = None

    def read_snapshot(self, snapshot_id: int) -> Iterator[StreamBatch]:
        """The batches of a snapshot; the earlier ones were read before."""
        while True:
            if self._next is None:
                self._next = next(self._batches, None)
            if self._next is None or self._next.snapshot_id != snapshot_id:
                return
            batch, self._next = self._next, None
            yield batch

    def close(self) -> None:
        """Stops reading."""
        close = getattr(self._batches, "close", None)
        if close is not None:
            close()


def _join_small(batches: Iterator[StreamBatch]) -> Iterator[StreamBatch]:
    """Joins the batches of a small snapshot, of all buckets, into one."""
    first = next(batches, None)
    if first is not None:
        whole = itertools.chain([first], batches)
        joined = join_small_batches((each.data for each in whole), max_rows=_MAX_ROWS, max_bytes=_MAX_BYTES)
        yield from (replace(first, data=data) for data in joined)


def _is_before(snapshot: Snapshot, start: StreamStart) -> bool:
    """Whether a snapshot's changes are skipped."""
    early = start.first_time_ms is not None and snapshot.committed_at_ms < start.first_time_ms
    return early or snapshot.snapshot_id < start.first_snapshot
