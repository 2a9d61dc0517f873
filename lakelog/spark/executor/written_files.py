"""What a task of a write returns to the driver program."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.format.tables.files import DataFile
from lakelog.storage.lookup.bucket_changelog import EmittedBucket
from lakelog.writes.uncommitted_sending import SentUncommitted


@dataclass(frozen=True)
class WrittenFiles:
    """What a task wrote, in the order that the commit must list.

    Args:
        partition_id: The number of the task's partition: the first part of a row's place in the commit.
        files: Its files.
        row_count: Rows taken.
        inputs: The files that hold records as they came.
        emitted: The changes in its buckets, against the base that the task was given.
        sent: That all of its rows stand in the external log; None: that is not known.
    """

    partition_id: int
    files: tuple[DataFile, ...]
    row_count: int
    inputs: tuple[DataFile, ...] = ()
    emitted: tuple[EmittedBucket, ...] = ()
    sent: SentUncommitted | None = None
