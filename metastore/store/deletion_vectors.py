"""Sums over the buckets for which deletion vectors may be worth building: a part of `store.transaction`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lakelog.format.commit.request import BucketRef
from lakelog.format.compaction.deletion_vectors import RunSums


@dataclass(frozen=True)
class BucketSums:
    """The sorted runs of a bucket by sums, the newest first."""

    bucket: BucketRef
    runs: tuple[RunSums, ...]


class DeletionVectorTransaction(Protocol):
    """What planning of marks reads."""

    async def sum_grown_buckets(self, table_id: int, after: int, until: int, min_bytes: int) -> Sequence[BucketSums]:
        """Buckets to which the snapshots behind `after`, up to and with `until`, brought files otherwise than by marks.

        Only those of at least two runs and so many bytes now, by partition and bucket.
        """
        ...
