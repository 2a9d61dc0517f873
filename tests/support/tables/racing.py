"""Commits that others come before."""

from __future__ import annotations

from collections.abc import Callable

from lakelog.format.commit.request import CommitRequest, CommitResult
from tests.support.tables.faulty import FaultyMetastore


def first_let(
    faulty: FaultyMetastore,
    other: Callable[[], object],
    times: int = 1,
    change: Callable[[CommitRequest], CommitRequest] = lambda each: each,
) -> None:
    """Has another commit come first, so many times."""
    left = [times]

    def commit(request: CommitRequest) -> CommitResult:
        if left[0]:
            left[0] -= 1
            other()
        return faulty.inner.commit(change(request))

    faulty.on_commit = commit
