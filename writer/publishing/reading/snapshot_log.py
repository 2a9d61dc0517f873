"""What the publishing of a snapshot needs: its size, and its records from any row on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from lakelog.format.log.state import LogInfo
from lakelog.format.tables.snapshot import Snapshot
from lakelog.log.records import EncodedRecords, LogSnapshot
from lakelog.options.declared.log import EVENTUAL, LOG_CONSISTENCY


@dataclass(frozen=True)
class RecordChunk:
    """Some successive rows of a snapshot's log as records.

    Args:
        records: Perhaps fewer than rows: an update with its old row is one record, and some rows are not sent at all.
        next_index: All rows of the snapshot before this index are included.
        size_bytes: The size of keys and values.
    """

    records: EncodedRecords
    next_index: int
    size_bytes: int


class SnapshotLog(Protocol):
    """The rows that one snapshot brings to the log, in an order that is a function of its files (R4)."""

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot."""
        ...

    @property
    def row_count(self) -> int:
        """How many rows there are; 0: it brings nothing."""
        ...

    @property
    def size_bytes(self) -> int:
        """The stored size of its files."""
        ...

    def read(self, first_index: int) -> Iterator[RecordChunk]:
        """The records of the rows from this one on, bucket by bucket, in chunks of bounded size; reads files."""
        ...


class SnapshotLogs(Protocol):
    """Reads the rows of snapshots."""

    def plan(self, info: LogInfo, snapshots: Sequence[Snapshot], partitions: int) -> Sequence[SnapshotLog]:
        """One log for each of some successive snapshots, in their order; one request to the metastore.

        Args:
            info: The log.
            snapshots: The snapshots, rising, without gaps.
            partitions: The number of partitions of the topic; rows of tables without buckets are spread over them.
        """
        ...


def to_owner(info: LogInfo, snapshot: Snapshot) -> LogSnapshot:
    """The owner in a snapshot's records, and which attempt's uncommitted records they replace. Pure."""
    is_eventual = info.options.get(LOG_CONSISTENCY.key) == EVENTUAL
    return LogSnapshot(snapshot.snapshot_id, snapshot.snapshot_uuid, snapshot.attempt_id if is_eventual else "")
