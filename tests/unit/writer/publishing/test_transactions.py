"""Which snapshots share a transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

from lakelog.format.tables.snapshot import Snapshot, SnapshotKind
from writer.publishing.reading.snapshot_log import RecordChunk
from writer.publishing.transactions import TransactionLimits, pick_together

_LIMITS = TransactionLimits(rows=100, size_bytes=1000, snapshots=5)


_SNAPSHOT = Snapshot(1, "u", "", SnapshotKind.APPEND, 1, 0, None, 0, 0, 0, 0, 0, 0, "w", 0)


@dataclass(frozen=True)
class _Log:
    """Implements `SnapshotLog` without rows to read."""

    row_count: int
    size_bytes: int = 10
    snapshot: Snapshot = _SNAPSHOT

    def read(self, first_index: int) -> Iterator[RecordChunk]:
        raise AssertionError("planning reads nothing")


@pytest.mark.parametrize(
    ("rows", "count"),
    [
        ([7], 1),
        ([0], 1),
        ([30, 30, 30], 3),
        ([30, 30, 41], 2),
        ([100, 1], 1),
        ([99, 1, 0, 0, 1], 4),
        ([1] * 9, 5),
        ([101, 1], 1),
        ([1, 101, 1], 1),
        ([0, 0, 101], 2),
    ],
)
def test_takes_as_many_as_fit(rows: Sequence[int], count: int) -> None:
    assert pick_together([_Log(number) for number in rows], _LIMITS) == count


def test_counts_stored_bytes_as_well() -> None:
    assert pick_together([_Log(1, 600), _Log(1, 400), _Log(1, 1)], _LIMITS) == 2
    assert pick_together([_Log(1, 1001), _Log(1, 1)], _LIMITS) == 1


def test_a_large_one_is_published_in_chunks() -> None:
    assert [_LIMITS.is_large(log) for log in (_Log(100), _Log(101), _Log(1, 1001), _Log(0, 0))] == [
        False,
        True,
        True,
        False,
    ]
