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
    """What the planning of deletion vectors reads."""

    async def sum_grown_buckets(self, table_id: int, after: int, until: int, min_bytes: int) -> Sequence[BucketSums]:
        """Buckets that got files from the snapshots after `after` up to `until`, except by deletion vectors.

        Only buckets that have at least two sorted runs and `min_bytes` now, by partition and bucket.
        """
        ...
