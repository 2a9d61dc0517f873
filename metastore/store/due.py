"""Sums over the buckets that compactions, or deletion vectors, may be due for: a part of `store.transaction`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from lakelog.format.commit.request import BucketRef
from lakelog.format.compaction.deletion_vectors import RunSums
from lakelog.format.compaction.runs import SortedRun


@dataclass(frozen=True)
class BucketRuns:
    """The sorted runs of a bucket, the newest first."""

    bucket: BucketRef
    runs: tuple[SortedRun, ...]


@dataclass(frozen=True)
class SmallChange:
    """What snapshots did to the small files of a partition.

    Args:
        partition: Encoded.
        file_count: How many files more; negative: fewer.
        size_bytes: How many bytes more; negative: fewer.
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
    """What the store remembers of the small files of a bucket of an append table.

    Args:
        bucket: The bucket; 0 in a table without buckets.
        rule: The options by which the files were counted; under other options they are counted again.
        file_count: In a table without buckets: how many small files are live.
        size_bytes: The size of these files.
        first_snapshot: None of these files was added before it; 0: there is none.
        after: With buckets: the position (order snapshot, order ordinal) of the last file that needs no further check.
    """

    bucket: BucketRef
    rule: str
    file_count: int = 0
    size_bytes: int = 0
    first_snapshot: int = 0
    after: tuple[int, int] = (0, -1)


class DueTransaction(Protocol):
    """What the planning of compactions reads and remembers. The table's work cursor is locked."""

    async def list_touched_buckets(self, table_id: int, after: int, until: int) -> list[BucketRef]:
        """Where the snapshots after `after` up to `until` added or removed data files, by partition and bucket."""
        ...

    async def sum_runs(self, table_id: int, buckets: Sequence[BucketRef], min_runs: int) -> list[BucketRuns]:
        """The sorted runs of those buckets that have at least `min_runs` now, by partition and bucket."""
        ...

    async def list_crowded_buckets(self, table_id: int, min_files: int) -> list[BucketRef]:
        """All buckets with at least `min_files` live files, by partition and bucket. This scans the whole table."""
        ...

    async def list_removed_rows(self, table_id: int, after: int, until: int, percent: int) -> list[BucketRef]:
        """Where live files that some snapshots added have lost at least so much of their rows, in an append table."""
        ...

    async def sum_small_changes(self, table_id: int, after: int, until: int, below_bytes: int) -> list[SmallChange]:
        """What the snapshots after `after` up to `until` did to files smaller than `below_bytes`, by partition."""
        ...

    async def count_small_files(
        self, table_id: int, partitions: Sequence[bytes], until: int, below_bytes: int, after: int = 0
    ) -> list[Backlog]:
        """The count of files smaller than `below_bytes` that are live at `until` and were added after a snapshot.

        Partitions without such files are left out; `rule` is empty.
        """
        ...

    async def load_bucket_tails(self, table_id: int, backlogs: Sequence[Backlog]) -> pa.Table:
        """The files of buckets that are live now after the positions in `after`, with columns of FILE_SCHEMA."""
        ...

    async def find_backlogs(self, table_id: int, buckets: Sequence[BucketRef]) -> list[Backlog]:
        """What is remembered of some buckets; buckets of which nothing is remembered are left out."""
        ...

    async def clear_backlogs(self, table_id: int) -> None:
        """Forgets what is remembered of a table's buckets; entries under negative numbers belong to no bucket."""
        ...

    async def put_backlogs(self, table_id: int, backlogs: Sequence[Backlog]) -> None:
        """Replaces what is remembered of these buckets."""
        ...


@dataclass(frozen=True)
class BucketSums:
    """The sorted runs of a bucket by sums, the newest first."""

    bucket: BucketRef
    runs: tuple[RunSums, ...]


class DeletionVectorTransaction(Protocol):
    """What the planning of deletion vectors reads."""

    async def sum_grown_buckets(self, table_id: int, after: int, until: int, min_bytes: int) -> Sequence[BucketSums]:
        """Buckets that got files from the snapshots after `after` up to `until`, except by deletion vectors.

        Only buckets that have at least two sorted runs and `min_bytes` now, by partition and bucket.
        """
        ...
