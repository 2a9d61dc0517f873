"""What publishing a snapshot takes: how much there is of it, and its records from any row on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from lakelog.format.log.state import LogInfo
from lakelog.format.tables.snapshot import Snapshot
from lakelog.log.records import EncodedRecords, LogSnapshot
from lakelog.options import LOG_CONSISTENCY
from lakelog.options.declared.log import EVENTUAL


@dataclass(frozen=True)
class RecordChunk:
    """Some successive rows of a snapshot's log as records.

    Args:
        records: Perhaps fewer than rows: an update with its old row is one record, and some rows are not sent at all.
        next_index: Rows before this one, of the whole snapshot, are done with it.
        size_bytes: Of keys and values.
    """

    records: EncodedRecords
    next_index: int
    size_bytes: int


class SnapshotLog(Protocol):
    """The rows that one snapshot brings to the log, in an order that is a function of its files (R4)."""

    @property
    def snapshot(self) -> Snapshot:
        """Which one."""
        ...

    @property
    def row_count(self) -> int:
        """How many rows there are; 0: it brings nothing."""
        ...

    @property
    def size_bytes(self) -> int:
        """Of its files, as they are stored."""
        ...

    def read(self, first_index: int) -> Iterator[RecordChunk]:
        """The records of the rows from this one on, bucket by bucket, in pieces of bounded size; reads files."""
        ...


class SnapshotLogs(Protocol):
    """Where the rows of snapshots come from."""

    def plan(self, info: LogInfo, snapshots: Sequence[Snapshot], partitions: int) -> Sequence[SnapshotLog]:
        """One for each of some successive snapshots, in their order; asks the metastore once.

        Args:
            info: The log.
            snapshots: Rising, without gaps.
            partitions: How many the topic has; rows of tables without buckets are spread over them.
        """
        ...


def to_owner(info: LogInfo, snapshot: Snapshot) -> LogSnapshot:
    """Whose records those of a snapshot are, and which sent before its commit they stand for. Pure."""
    is_eventual = info.options.get(LOG_CONSISTENCY.key) == EVENTUAL
    return LogSnapshot(snapshot.snapshot_id, snapshot.snapshot_uuid, snapshot.attempt_id if is_eventual else "")
