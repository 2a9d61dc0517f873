"""Reads a log in memory."""

from __future__ import annotations

import time
from collections.abc import Mapping

from lakelog.errors import InternalError, NotFound, SnapshotExpired
from lakelog.log.columns import NO_RECORDS, concat_fetched
from lakelog.log.memory.cluster import MemoryCluster
from lakelog.log.memory.faults import Step, to_unavailable
from lakelog.log.memory.partition import MemoryPartition
from lakelog.log.protocol import LogReader
from lakelog.log.records import FetchedRecords, LogSnapshot, TailRecord


class MemoryReader(LogReader):
    """See `lakelog.log.protocol.LogReader`. With a timeout of 0 it never waits, as simulations need."""

    def __init__(self, cluster: MemoryCluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._positions: dict[int, int] | None = None

    def list_offsets(self, *, timestamp_ms: int | None = None, earliest: bool = False) -> tuple[int, ...]:
        with self._cluster.changed:
            partitions = self._get_partitions()
            if earliest:
                return tuple(partition.first for partition in partitions)
            if timestamp_ms is None:
                return tuple(partition.stable_end for partition in partitions)
            return tuple(partition.find_time(timestamp_ms) for partition in partitions)

    def read_tail(self) -> list[TailRecord]:
        with self._cluster.changed:
            tails = [(partition.number, partition.read_last()) for partition in self._get_partitions()]
        return [_to_tail(number, last) for number, last in tails if len(last)]

    def assign(self, offsets: Mapping[int, int]) -> None:
        count = len(self._get_partitions())
        foreign = sorted(partition for partition in offsets if not 0 <= partition < count)
        if foreign:
            raise NotFound(
                f"The topic {self._topic} has the partitions 0 to {count - 1}, and none of number {foreign[0]}.",
                metadata={"topic": self._topic, "partition": str(foreign[0])},
            )
        self._positions = dict(offsets)

    def fetch(self, max_records: int, timeout_s: float) -> FetchedRecords:
        if self._positions is None:
            raise InternalError(f"The reader of the topic {self._topic} has no partitions yet.")
        if self._cluster.faults.take(Step.FETCH) is not None:
            raise to_unavailable(Step.FETCH)
        deadline = time.monotonic() + timeout_s
        with self._cluster.changed:
            while True:
                records = self._read(self._positions, max_records)
                left_s = deadline - time.monotonic()
                if len(records) or left_s <= 0:
                    return records
                self._cluster.changed.wait(left_s)

    def _read(self, positions: dict[int, int], max_records: int) -> FetchedRecords:
        partitions = self._get_partitions()
        parts: list[FetchedRecords] = []
        left = max_records
        for number, offset in sorted(positions.items()):
            partition = partitions[number]
            if not partition.first <= offset <= partition.end:
                if parts:
                    break
                raise self._to_too_short(partition, offset)
            if left == 0:
                break
            part, positions[number] = partition.read(offset, left)
            if len(part):
                parts.append(part)
                left -= len(part)
        return concat_fetched(parts) if parts else NO_RECORDS

    def _to_too_short(self, partition: MemoryPartition, offset: int) -> SnapshotExpired:
        earliest, latest = partition.first, partition.stable_end
        return SnapshotExpired(
            f"Partition {partition.number} of the topic {self._topic} is to be read from offset {offset} on, but it"
            f" holds offsets {earliest} to {latest}.",
            reason="LOG_TOO_SHORT",
            metadata={
                "topic": self._topic,
                "partition": str(partition.number),
                "offset": str(offset),
                "earliest": str(earliest),
                "latest": str(latest),
            },
        )

    def positions(self) -> dict[int, int]:
        return dict(self._positions or {})

    def close(self) -> None:
        pass

    def _get_partitions(self) -> list[MemoryPartition]:
        return self._cluster.get_topic(self._topic).partitions


def _to_tail(partition: int, last: FetchedRecords) -> TailRecord:
    offset = int(last.offsets[0])
    snapshot_id, uuid, index = last.snapshot_ids[0].as_py(), last.uuids[0].as_py(), last.indexes[0].as_py()
    if snapshot_id is None or uuid is None or index is None:
        return TailRecord(partition, offset, None)
    return TailRecord(partition, offset, LogSnapshot(snapshot_id, uuid.decode()), index + 1)
