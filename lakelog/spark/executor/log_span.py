"""Reads ranges of a topic's partitions to their ends, as one batch of a stream needs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from lakelog.errors import Unavailable
from lakelog.format.tables.snapshot import Snapshot
from lakelog.log.columns import concat_fetched, take_fetched
from lakelog.log.protocol import LogReader
from lakelog.log.records import FetchedRecords
from lakelog.reads.changes import EMITTED_ROWS
from lakelog.reads.log.records import check_history, to_snapshot_ids
from lakelog.reads.log.stall import STALL_S, LogStallTimer

_FETCHED: Final = 20_000
"""Records per fetch."""

_FETCH_S: Final = 0.5


@dataclass(frozen=True)
class SpanPart:
    """Records of one partition, in its order.

    Args:
        partition: The partition's number.
        records: At least one.
        is_whole: Whether all of the partition's records up to the last of these snapshots have been handed out.
    """

    partition: int
    records: FetchedRecords
    is_whole: bool


class LogSpan:
    """Reads the records of some snapshots out of ranges of partitions.

    Memory: as many records as are handled together, and for each partition the records of the incomplete snapshot.

    Args:
        reader: The reader of the topic.
        topic: The topic's name, for messages.
        starts: First offsets by partition.
        ends: End offsets of the same partitions.
        snapshots: The snapshots whose records are wanted, rising; others are skipped.
        whole: Never hand out a part of a snapshot, however large it is.
    """

    def __init__(
        self,
        reader: LogReader,
        topic: str,
        starts: Mapping[int, int],
        ends: Mapping[int, int],
        snapshots: Sequence[Snapshot],
        *,
        whole: bool,
    ) -> None:
        self._reader = reader
        self._topic = topic
        self._starts = starts
        self._open = dict(ends)
        self._whole = whole
        self._ids = np.array([each.snapshot_id for each in snapshots], np.int64)
        self._uuids = pa.array([each.snapshot_uuid.encode() for each in snapshots], pa.binary())
        self._held: dict[int, list[FetchedRecords]] = {}
        self._count = 0
        self._behind = 0

    def read(self) -> Iterator[SpanPart]:
        """Yields the records, by partition; the partitions come in any order.

        Raises:
            SnapshotExpired: The log does not hold all of them (any more); reason `LOG_TOO_SHORT`.
            Unavailable: No broker answers, or no record comes.
            HistoryDiverged: A record belongs to another history.
        """
        self._close_ended(self._starts)
        if not self._open:
            return
        self._reader.assign({each: self._starts[each] for each in self._open})
        stall_timer, positions = LogStallTimer(), self._reader.positions()
        while self._open:
            records = self._reader.fetch(_FETCHED, _FETCH_S)
            self._keep(records)
            before, positions = positions, self._reader.positions()
            # Partitions that are done may receive more for as long as a writer writes.
            has_moved = any(positions.get(each, 0) != before.get(each, 0) for each in self._open)
            if has_moved:
                stall_timer.renew()
            elif stall_timer.is_over:
                raise Unavailable(
                    f"The log {self._topic} hands out no record for {STALL_S:.0f} s, though more were published.",
                    reason="LOG_BEHIND",
                )
            for partition in self._close_ended(positions):
                yield from self._hand_out(partition, np.iinfo(np.int64).max, is_whole=True)
            if self._count > EMITTED_ROWS:
                yield from self._hand_out_whole()
            if has_moved:
                # The caller may have been busy with what was handed out.
                stall_timer.renew()
            if self._behind > _FETCHED and self._open:
                # Stop reading partitions that are done; to assign the others again takes a tenth of a second.
                self._reader.assign({each: positions[each] for each in self._open})
                self._behind = 0

    def _close_ended(self, positions: Mapping[int, int]) -> list[int]:
        ended = [each for each, end in self._open.items() if positions.get(each, 0) >= end]
        for each in ended:
            del self._open[each]
        return ended

    def _keep(self, records: FetchedRecords) -> None:
        """Holds wanted records, and counts what arrives in partitions that are done."""
        ids = to_snapshot_ids(records)
        places = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        wanted = self._ids[places] == ids
        for partition in np.unique(records.partitions).tolist():
            own = records.partitions == partition
            if partition not in self._open:
                self._behind += int(np.count_nonzero(own))
                continue
            part = take_fetched(records, own & wanted)
            if len(part):
                check_history(part, self._uuids.take(pa.array(places[own & wanted])), self._topic)
                self._held.setdefault(partition, []).append(part)
                self._count += len(part)

    def _hand_out_whole(self) -> Iterator[SpanPart]:
        """The records of each partition up to the last whole snapshot; or all records if these are too few."""
        for partition, parts in list(self._held.items()):
            yield from self._hand_out(partition, int(parts[-1].snapshot_ids[-1].as_py()) - 1, is_whole=True)
        if self._count > EMITTED_ROWS and not self._whole:
            for partition in list(self._held):
                yield from self._hand_out(partition, np.iinfo(np.int64).max, is_whole=False)

    def _hand_out(self, partition: int, until: int, *, is_whole: bool) -> Iterator[SpanPart]:
        parts = self._held.pop(partition, None)
        if parts is None:
            return
        records = concat_fetched(parts)
        # Within a partition they are in the order of their offsets, and so of their snapshots.
        ids = records.snapshot_ids.to_numpy(zero_copy_only=False)
        count = int(np.searchsorted(ids, until, side="right"))
        if count < len(records):
            self._held[partition] = [take_fetched(records, slice(count, len(records)))]
        if count:
            self._count -= count
            yield SpanPart(partition, take_fetched(records, slice(0, count)), is_whole)
