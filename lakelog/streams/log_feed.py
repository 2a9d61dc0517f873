"""A table's log snapshot by snapshot: which records are whose, and that none of them is missing (SEMANTICS.md 4.5).

1. A snapshot is handed out once all of its records have come, never in part.
2. Where it ends is known from what the publisher has told the metastore; or from records of a later one in each
   partition, since snapshots follow each other in all of them.
3. Whatever may be missing is an error, never a gap: its reader then takes the files.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from lakelog.client.metastore import Metastore
from lakelog.errors import HistoryDiverged, SnapshotExpired, Unavailable
from lakelog.format.log_state import LogInfo
from lakelog.format.snapshot import Snapshot
from lakelog.log.columns import concat_fetched, take_fetched
from lakelog.log.protocol import Log, LogReader
from lakelog.log.records import FetchedRecords
from lakelog.reads.log_ways import LOG_TOO_SHORT

_FETCHED: Final = 20_000
"""Records at a time."""

_FETCH_S: Final = 0.5
_PAUSES_S: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
"""Between questions whether a snapshot is published by now: mostly it is within some milliseconds."""

_PATIENCE_S: Final = 10.0
"""So long nothing may happen to what is waited for: else its publisher stands still, and the files are there."""


class LogFeed:
    """Reads the log of one table. One thread reads, any may close.

    Args:
        metastore: Knows the log and how far it is published.
        table_uuid: The table.
        open_log: The brokers of a log, by its options.
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
        # By partition: the newest snapshot of which a record has come.
        self._seen: dict[int, int] = {}

    @property
    def topic(self) -> str:
        """Where the records came from, for messages."""
        return self._info.topic if self._info is not None else ""

    def read(self, snapshots: Sequence[Snapshot]) -> Iterator[list[tuple[Snapshot, FetchedRecords]]]:
        """Hands out the records of some snapshots that follow each other; blocks until they are published.

        Args:
            snapshots: At least one, rising.

        Yields:
            The snapshots that brought records, with all of them, in the order of partition and offset; those together
            that were known to be whole at the same moment.

        Raises:
            SnapshotExpired: The log does not hold them all (any more).
            Unavailable: The brokers do not answer, the publisher stands still, or it was closed.
            HistoryDiverged: A record is of another history.
        """
        first, last = snapshots[0].snapshot_id, snapshots[-1].snapshot_id
        waiting = {each.snapshot_id: each for each in snapshots}
        reader, info = self._seek(first)
        ends: tuple[int, ...] | None = None
        told_at, pause = time.monotonic(), 0
        while True:
            if ends is None:
                ends = self._find_ends(last, info)
                if ends is not None:
                    self._take_new_partitions(reader, ends)
            positions = reader.positions()
            # Before its end is known there may be partitions that are not read yet.
            behind = None if ends is None else [p for p, end in enumerate(ends) if positions.get(p, 0) < end]
            ready = first - 1 if behind is None else min([last, *(self._seen.get(p, first) - 1 for p in behind)])
            whole = [each for each in waiting if each <= ready]
            if whole and any(each in self._buffer for each in whole):
                yield [self._take(waiting.pop(each)) for each in whole if each in self._buffer]
            if behind == []:
                self._served = last
                # Of snapshots that nobody has asked for.
                self._buffer = {each: parts for each, parts in self._buffer.items() if each > last}
                return
            if self._closed.is_set():
                raise Unavailable(f"The log {info.topic} is not read any more: the subscription was closed.")
            records = reader.fetch(_FETCHED, _FETCH_S if ends is not None else _PAUSES_S[pause])
            if len(records):
                self._keep(records, first)
                told_at, pause = time.monotonic(), 0
            elif time.monotonic() - told_at > _PATIENCE_S:
                raise Unavailable(
                    f"Snapshot {last} is not in the log {info.topic} {_PATIENCE_S:.0f} s after it was committed.",
                    reason="LOG_BEHIND",
                )
            else:
                pause = min(pause + 1, len(_PAUSES_S) - 1)

    def _seek(self, first: int) -> tuple[LogReader, LogInfo]:
        """The reader, standing where it has passed no record of a snapshot from `first` on."""
        if self._reader is not None and self._info is not None and first > self._served:
            return self._reader, self._info
        self.leave()
        info = self._metastore.get_log(self._table_uuid)
        if first <= info.starts_after:
            raise SnapshotExpired(
                f"The log {info.topic} begins behind snapshot {info.starts_after}.", reason=LOG_TOO_SHORT
            )
        known = self._metastore.find_log_offsets(self._table_uuid, until=first - 1)
        reader = self._open_log(info.options).open_reader(info.topic)
        try:
            earliest = reader.list_offsets(earliest=True)
            begin = known.offsets if known is not None else ()
            # Of a partition that nothing is known of all has to be there.
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

    def _find_ends(self, last: int, info: LogInfo) -> tuple[int, ...] | None:
        """Where the snapshot ends in each partition, or one behind it; None: it is not published yet."""
        state = self._metastore.get_publish_state(self._table_uuid)
        if state.generation != info.generation:
            raise SnapshotExpired(
                f"The log {info.topic} began anew behind snapshot {state.snapshot_id}.", reason=LOG_TOO_SHORT
            )
        if state.snapshot_id < last:
            return None
        if state.snapshot_id > last:
            known = self._metastore.find_log_offsets(self._table_uuid, until=last)
            if known is not None and known.snapshot_id == last:
                return known.offsets
        return state.offsets

    def _take_new_partitions(self, reader: LogReader, ends: Sequence[int]) -> None:
        positions = reader.positions()
        if len(ends) > len(positions):
            # Positions are of what was handed out, so that nothing is lost by going on at them.
            reader.assign({p: positions.get(p, 0) for p in range(len(ends))})

    def _keep(self, records: FetchedRecords, first: int) -> None:
        # Records without a snapshot were sent before their commit, or are somebody else's.
        ids = records.snapshot_ids.fill_null(-1).to_numpy(zero_copy_only=False)
        for partition in np.unique(records.partitions).tolist():
            newest = int(ids[records.partitions == partition].max())
            self._seen[partition] = max(self._seen.get(partition, 0), newest)
        for snapshot_id in np.unique(ids[ids >= first]).tolist():
            self._buffer.setdefault(snapshot_id, []).append(take_fetched(records, ids == snapshot_id))

    def _take(self, snapshot: Snapshot) -> tuple[Snapshot, FetchedRecords]:
        records = concat_fetched(self._buffer.pop(snapshot.snapshot_id))
        self._check_history(snapshot, records)
        return snapshot, take_fetched(records, np.lexsort((records.offsets, records.partitions)))

    def _check_history(self, snapshot: Snapshot, records: FetchedRecords) -> None:
        uuids = records.uuids.unique().to_pylist()
        if uuids != [snapshot.snapshot_uuid.encode()]:
            raise HistoryDiverged(
                f"The log {self.topic} has records of a snapshot {snapshot.snapshot_id} that is another than the"
                f" table's: the metastore was restored to an earlier state. Stop, and compare what was read with the"
                f" table; `lakelog log restart` begins the log anew.",
                metadata={"topic": self.topic, "snapshot_id": str(snapshot.snapshot_id)},
            )

    def leave(self) -> None:
        """Forgets where it stands; the next read finds it anew. By the thread that reads."""
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
