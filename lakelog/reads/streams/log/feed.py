"""Reads a table's log snapshot by snapshot: finds each snapshot's records, and makes sure that none is missing (4.5).

1. A snapshot is returned once all of its records have arrived, never in part.
2. Its end is known from the publisher's report in the metastore; or from records of a later snapshot in each partition,
   since snapshots follow each other in all partitions.
3. Records that may be missing are an error, never a gap: the reader then uses the files.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import SnapshotExpired, Unavailable
from lakelog.format.log.state import LogInfo
from lakelog.format.tables.snapshot import Snapshot
from lakelog.log.columns import concat_fetched, take_fetched
from lakelog.log.protocol import Log, LogReader
from lakelog.log.records import FetchedRecords
from lakelog.reads.log.records import PAUSES_S, check_history, to_snapshot_ids
from lakelog.reads.log.sources import LOG_TOO_SHORT
from lakelog.reads.log.stall import STALL_S, LogStallTimer

_FETCHED: Final = 20_000
"""Records per fetch."""

_FETCH_S: Final = 0.5


@dataclass(frozen=True)
class _HighWatermark:
    """The point up to which records are known to be complete.

    Args:
        until: All up to this snapshot are published.
        ends: The end of this snapshot, or of a later one, in each partition.
    """

    until: int
    ends: tuple[int, ...]


class LogFeed:
    """Reads the log of one table. One thread reads, any thread may close.

    Args:
        metastore: Knows the log and how far it is published.
        table_uuid: The table.
        open_log: Opens the brokers of a log, by its options.
    """

    def __init__(self, metastore: Metastore, table_uuid: str, open_log: Callable[[Mapping[str, str]], Log]) -> None:
        self._metastore = metastore
        self._table_uuid = table_uuid
        self._open_log = open_log
        self._closed = threading.Event()
        self._info: LogInfo | None = None
        self._reader: LogReader | None = None
        self._served = 0
        self._buffer: dict[int, list[FetchedRecords]] = {}
        # By partition: the newest snapshot with a record that has arrived.
        self._seen: dict[int, int] = {}

    @property
    def topic(self) -> str:
        """The topic of the records, for messages."""
        return self._info.topic if self._info is not None else ""

    def read(self, snapshots: Sequence[Snapshot]) -> Generator[list[tuple[Snapshot, FetchedRecords]]]:
        """Yields the records of successive snapshots as they are published; blocks.

        A caller that stops before the end closes it before the next read.

        Args:
            snapshots: At least one, rising.

        Yields:
            The snapshots that brought records, with all of them, in the order of partition and offset; those that were
            found complete at the same moment come together.

        Raises:
            SnapshotExpired: The log does not hold them all (any more).
            Unavailable: The brokers do not answer, the publisher makes no progress, or the feed was closed.
            HistoryDiverged: A record belongs to another history.
        """
        first, last = snapshots[0].snapshot_id, snapshots[-1].snapshot_id
        done = False
        try:
            yield from self._read(first, last, {each.snapshot_id: each for each in snapshots})
            done = True
        finally:
            if not done:
                # Returned records are not kept: a caller that reads them again fetches them again.
                self.leave()
        self._served = last
        # These belong to snapshots that were not requested.
        self._buffer = {each: parts for each, parts in self._buffer.items() if each > last}

    def _read(
        self, first: int, last: int, waiting: dict[int, Snapshot]
    ) -> Iterator[list[tuple[Snapshot, FetchedRecords]]]:
        reader, info = self._seek(first)
        high_watermark = _HighWatermark(first - 1, ())
        stall_timer, pause = LogStallTimer(), 0
        while True:
            if high_watermark.until < last:
                high_watermark = self._find_high_watermark(last, info)
                self._take_new_partitions(reader, high_watermark.ends)
            positions = reader.positions()
            lagging = [p for p, end in enumerate(high_watermark.ends) if positions.get(p, 0) < end]
            # Beyond the high watermark there may be partitions that are not read yet.
            ready = min([high_watermark.until, *(self._seen.get(p, first) - 1 for p in lagging)])
            whole = [waiting.pop(each) for each in list(waiting) if each <= ready]
            logged = [self._take(each) for each in whole if each.snapshot_id in self._buffer]
            if logged:
                yield logged
                stall_timer.renew()
                pause = 0
            if high_watermark.until == last and not lagging:
                return
            if self._closed.is_set():
                raise _closed(info)
            records = reader.fetch(_FETCHED, _FETCH_S if high_watermark.until == last else PAUSES_S[pause])
            if len(records):
                self._keep(records, first)
            if high_watermark.until == last:
                # Partitions that are done may receive more for as long as a writer writes.
                now = reader.positions()
                has_moved = any(now.get(p, 0) != positions.get(p, 0) for p in lagging)
            else:
                # Offsets without records are no progress: a publisher whose transactions all fail is not worth waiting
                # for.
                has_moved = len(records) > 0
            if has_moved:
                stall_timer.renew()
                pause = 0
            elif stall_timer.is_over:
                raise _late(last, info)
            else:
                pause = min(pause + 1, len(PAUSES_S) - 1)

    def _seek(self, first: int) -> tuple[LogReader, LogInfo]:
        """Returns the reader at a place before which no record of a snapshot from `first` on lies."""
        if self._reader is not None and self._info is not None and first > self._served:
            return self._reader, self._info
        self.leave()
        info = self._metastore.get_log(self._table_uuid)
        if first <= info.starts_after:
            raise SnapshotExpired(
                f"The log {info.topic} begins behind snapshot {info.starts_after}.", reason=LOG_TOO_SHORT
            )
        self._await_published(first - 1, info)
        known = self._metastore.find_log_offsets(self._table_uuid, until=first - 1)
        reader = self._open_log(info.options).open_reader(info.topic)
        try:
            earliest = reader.list_offsets(earliest=True)
            begin = known.offsets if known is not None else ()
            # A partition without a known place is read from its beginning, which must still be there.
            starts = {p: begin[p] if p < len(begin) else 0 for p in range(len(earliest))}
            lost = next((p for p, offset in starts.items() if offset < earliest[p]), None)
            if lost is not None:
                raise SnapshotExpired(
                    f"Partition {lost} of the topic {info.topic} begins at offset {earliest[lost]}, and snapshot"
                    f" {first} may begin at {starts[lost]}.",
                    reason=LOG_TOO_SHORT,
                )
            reader.assign(starts)
        except BaseException:
            reader.close()
            raise
        self._reader, self._info = reader, info
        return reader, info

    def _await_published(self, before: int, info: LogInfo) -> None:
        """Waits until everything before the first wanted snapshot is published.

        Only then its end is known; a reader that begins earlier would fetch all of it, however large, in vain.
        """
        stall_timer, pause = LogStallTimer(), 0
        progress = (0, 0)
        while True:
            state = self._metastore.get_publish_state(self._table_uuid)
            if state.snapshot_id >= before or state.generation != info.generation:
                return
            before_this, progress = progress, (state.snapshot_id, state.next_index)
            if progress != before_this:
                stall_timer.renew()
            elif stall_timer.is_over:
                raise _late(before, info)
            if self._closed.wait(PAUSES_S[pause]):
                raise _closed(info)
            pause = min(pause + 1, len(PAUSES_S) - 1)

    def _find_high_watermark(self, last: int, info: LogInfo) -> _HighWatermark:
        """How far the log is published, `last` at most."""
        state = self._metastore.get_publish_state(self._table_uuid)
        if state.generation != info.generation:
            raise SnapshotExpired(
                f"The log {info.topic} began anew behind snapshot {state.snapshot_id}.", reason=LOG_TOO_SHORT
            )
        if state.snapshot_id > last:
            known = self._metastore.find_log_offsets(self._table_uuid, until=last)
            if known is not None and known.snapshot_id == last:
                return _HighWatermark(last, known.offsets)
        # The end of a later snapshot is good enough.
        return _HighWatermark(min(state.snapshot_id, last), state.offsets)

    def _take_new_partitions(self, reader: LogReader, ends: Sequence[int]) -> None:
        positions = reader.positions()
        if len(ends) > len(positions):
            # Positions count only returned records, so nothing is lost by going on from them.
            reader.assign({p: positions.get(p, 0) for p in range(len(ends))})

    def _keep(self, records: FetchedRecords, first: int) -> None:
        ids = to_snapshot_ids(records)
        for partition in np.unique(records.partitions).tolist():
            newest = int(ids[records.partitions == partition].max())
            self._seen[partition] = max(self._seen.get(partition, 0), newest)
        for snapshot_id in np.unique(ids[ids >= first]).tolist():
            self._buffer.setdefault(snapshot_id, []).append(take_fetched(records, ids == snapshot_id))

    def _take(self, snapshot: Snapshot) -> tuple[Snapshot, FetchedRecords]:
        records = concat_fetched(self._buffer.pop(snapshot.snapshot_id))
        check_history(records, pa.scalar(snapshot.snapshot_uuid.encode()), self.topic)
        return snapshot, take_fetched(records, np.lexsort((records.offsets, records.partitions)))

    def leave(self) -> None:
        """Forgets its place; the next read finds it again. Called by the thread that reads."""
        reader, self._reader = self._reader, None
        self._served = 0
        self._buffer.clear()
        self._seen.clear()
        if reader is not None:
            reader.close()

    def close(self) -> None:
        """Ends waiting, from any thread; idempotent."""
        self._closed.set()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._closed.is_set()


def _late(snapshot_id: int, info: LogInfo) -> Unavailable:
    return Unavailable(
        f"Snapshot {snapshot_id} is not in the log {info.topic} {STALL_S:.0f} s after it was committed.",
        reason="LOG_BEHIND",
    )


def _closed(info: LogInfo) -> Unavailable:
    return Unavailable(f"The log {info.topic} is not read any more: the subscription was closed.")
