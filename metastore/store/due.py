"""Sums over the buckets that compactions may be due for: a part of `store.transaction`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from lakelog.format.commit.request import BucketRef
from lakelog.format.compaction.runs import SortedRun


@dataclass(frozen=True)
class BucketRuns:
    """The sorted runs of a bucket, the newest first."""

    bucket: BucketRef
    runs: tuple[SortedRun, ...]


@dataclass(frozen=True)
class SmallChange:
    """What snapshots have done to the small files of a partition.

    Args:
        partition: Encoded.
        file_count: How many more there are; below 0: less.
        size_bytes: How many bytes more.
        first_added: The first of the snapshots that added some; None: none did.
        has_removed: Whether some were removed.
    """

    partition: bytes
    file_count: int
    size_bytes: int
    first_added: int | None
    has_removed: bool


@dataclass(frozen=True)
class Backlog:
    """What is remembered of the small files of a bucket of an append table.

    Args:
        bucket: The bucket; 0 where there are none.
        rule: By which options they were counted; with others they are counted anew.
        file_count: In a table without buckets: how many small files are live.
        size_bytes: Of them.
        first_snapshot: None of them was added before it; 0: there is none.
        after: With buckets: the place (order snapshot, order ordinal) of the last file that needs no look any more.
    """

    bucket: BucketRef
    rule: str
    file_count: int = 0
    size_bytes: int = 0
    first_snapshot: int = 0
    after: tuple[int, int] = (0, -1)


class DueTransaction(Protocol):
    """What planning of compactions reads, and what it remembers. The table's work cursor is locked."""

    async def list_touched_buckets(self, table_id: int, after: int, until: int) -> list[BucketRef]:
        """Where the snapshots behind `after` up to `until` added or removed data files; by partition and bucket."""
        ...

    async def sum_runs(self, table_id: int, buckets: Sequence[BucketRef], min_runs: int) -> list[BucketRuns]:
        """The sorted runs of those buckets that have at least so many now, by partition and bucket."""
        ...

    async def list_crowded_buckets(self, table_id: int, min_files: int) -> list[BucketRef]:
        """All buckets of at least so many live files, by partition and bucket: the one look at a whole table."""
        ...

    async def sum_small_changes(self, table_id: int, after: int, until: int, below_bytes: int) -> list[SmallChange]:
        """What the snapshots behind `after` up to `until` did to files smaller than this, by partition."""
        ...

    async def count_small_files(
        self, table_id: int, partitions: Sequence[bytes], until: int, below_bytes: int, after: int = 0
    ) -> list[Backlog]:
        """The files smaller than this that are live at `until`, counted; added behind a snapshot; `rule` is empty.

        Partitions that have none are left out.
        """
        ...

    async def load_bucket_tails(self, table_id: int, backlogs: Sequence[Backlog]) -> pa.Table:
        """The files of buckets that are live now behind the places in `after`, with columns of FILE_SCHEMA."""
        ...

    async def find_backlogs(self, table_id: int, buckets: Sequence[BucketRef]) -> list[Backlog]:
        """What is remembered of those buckets of which something is."""
        ...

    async def clear_backlogs(self, table_id: int) -> None:
        """Forgets all that is remembered of a table's buckets; what stands under numbers below 0 is of none."""
        ...

    async def put_backlogs(self, table_id: int, backlogs: Sequence[Backlog]) -> None:
        """Remembers it instead of what was remembered of these buckets."""
        ...
