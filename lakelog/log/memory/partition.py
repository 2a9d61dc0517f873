"""One partition of a topic in memory: batches, ends of transactions, and what readers of committed records see."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lakelog.log.columns import NO_RECORDS, concat_fetched, take_fetched
from lakelog.log.records import FetchedRecords


class TransactionState(enum.Enum):
    """The state of a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(eq=False)
class MemoryTransaction:
    """One transaction.

    Args:
        partitions: The partitions that have its records, in the order of arrival.
        positions: Offset and metadata by (group, topic), committed with it.
    """

    state: TransactionState = TransactionState.OPEN
    partitions: list[MemoryPartition] = field(default_factory=list)
    positions: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)

    def end(self, state: TransactionState) -> None:
        """Writes its end into each of its partitions."""
        self.state = state
        for partition in self.partitions:
            partition.append_end(self)


@dataclass
class _Batch:
    first: int
    end: int
    records: FetchedRecords
    transaction: MemoryTransaction | None

    @property
    def is_open(self) -> bool:
        return self.transaction is not None and self.transaction.state is TransactionState.OPEN

    @property
    def is_visible(self) -> bool:
        return self.transaction is None or self.transaction.state is TransactionState.COMMITTED


class MemoryPartition:
    """Records at rising offsets; ends of transactions have offsets, too."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.first = 0
        self._batches: list[_Batch] = []
        self._end = 0

    def append(self, records: FetchedRecords, transaction: MemoryTransaction | None) -> int:
        """Appends records and sets their offsets; returns the offset after the last one."""
        first, self._end = self._end, self._end + len(records)
        placed = FetchedRecords(
            **{
                **vars(records),
                "offsets": np.arange(first, self._end, dtype=np.int64),
                "partitions": np.full(len(records), self.number, np.int32),
            }
        )
        self._batches.append(_Batch(first, self._end, placed, transaction))
        if transaction is not None and self not in transaction.partitions:
            transaction.partitions.append(self)
        return self._end

    def append_end(self, transaction: MemoryTransaction) -> None:
        """Appends a transaction's end, which no reader sees."""
        self._batches.append(_Batch(self._end, self._end + 1, NO_RECORDS, transaction))
        self._end += 1

    @property
    def end(self) -> int:
        """The offset after all records, committed or not."""
        return self._end

    @property
    def stable_end(self) -> int:
        """The end of the committed records: where the first open transaction begins."""
        return next((batch.first for batch in self._batches if batch.is_open), self._end)

    def read(self, offset: int, max_records: int) -> tuple[FetchedRecords, int]:
        """Committed records from an offset on, and the offset where the next read goes on."""
        parts, left, end = [], max_records, self.stable_end
        for batch in self._batches:
            if batch.end <= offset:
                continue
            if batch.first >= end or left == 0:
                break
            if batch.is_visible:
                start = int(np.searchsorted(batch.records.offsets, offset))
                part = take_fetched(batch.records, slice(start, start + left))
                if len(part):
                    parts.append(part)
                    left -= len(part)
                if start + len(part) < len(batch.records):
                    return concat_fetched(parts), int(part.offsets[-1]) + 1 if len(part) else offset
            offset = batch.end
        return concat_fetched(parts), offset

    def read_last(self) -> FetchedRecords:
        """The last committed record, or none."""
        end = self.stable_end
        for batch in reversed(self._batches):
            if batch.end <= end and batch.is_visible and len(batch.records):
                last = take_fetched(batch.records, slice(len(batch.records) - 1, len(batch.records)))
                return last if last.offsets[0] >= self.first else NO_RECORDS
        return NO_RECORDS

    def find_time(self, timestamp_ms: int) -> int:
        """The first offset of committed records that were appended then or later, else the end."""
        end = self.stable_end
        for batch in self._batches:
            late = np.flatnonzero(batch.records.timestamps_ms >= timestamp_ms)
            if len(late) and batch.is_visible and batch.first < end:
                return max(self.first, int(batch.records.offsets[late[0]]))
        return end

    def cut(self, offset: int) -> None:
        """Deletes the records before an offset, as retention does."""
        self.first = max(self.first, min(offset, self._end))
        kept = [batch for batch in self._batches if batch.end > self.first]
        for batch in kept:
            batch.records = take_fetched(batch.records, batch.records.offsets >= self.first)
        self._batches = kept

    def compact(self) -> None:
        """Retains only the last committed record of each key; offsets stay. Records without a key stay."""
        end = self.stable_end
        visible = [batch for batch in self._batches if batch.is_visible and batch.end <= end]
        keys = concat_fetched([batch.records for batch in visible]).keys
        if not len(keys):
            return
        codes = pa.array(keys).dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
        places = np.arange(len(codes))
        last = np.zeros(codes.max() + 2, np.int64)
        # If a key has several places, the last one stays.
        last[codes] = places
        keep = (last[codes] == places) | (codes < 0)
        start = 0
        for batch in visible:
            size = len(batch.records)
            batch.records = take_fetched(batch.records, keep[start : start + size])
            start += size
