"""What a task of a write returns to the driver program."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.format.tables.files import DataFile
from lakelog.storage.lookup.bucket_changelog import EmittedBucket
from lakelog.writes.uncommitted_sending import SentUncommitted


@dataclass(frozen=True)
class WrittenFiles:
    """What a task wrote, in the order in which the commit must list it.

    Args:
        partition_id: The number of the task's partition: the first part of a row's place in the commit.
        files: Its files.
        row_count: The number of rows it received.
        inputs: The files with records as they arrived.
        emitted: The changes in its buckets, against the given base.
        sent: States that all of its rows are in the external log; None: that is not known.
    """

    partition_id: int
    files: tuple[DataFile, ...]
    row_count: int
    inputs: tuple[DataFile, ...] = ()
    emitted: tuple[EmittedBucket, ...] = ()
    sent: SentUncommitted | None = None
