"""When commits take effect: by the store's clock, never before the commits that they follow."""

from __future__ import annotations

import pytest

from lakelog.format.commit.facts import TableHead
from lakelog.format.commit.request import Change, CommitRequest
from lakelog.format.commit.rules import find_commit_time
from lakelog.format.tables.snapshot import SnapshotKind

HEADS = {
    name: TableHead(number, name, f"d.{name}", 0, 1, False, committed_at_ms=at_ms)
    for number, (name, at_ms) in enumerate({"a": 500, "b": 900, "new": 0}.items())
}


@pytest.mark.parametrize(
    ("tables", "now_ms", "expected_ms"),
    [
        (["new"], 700, 700),
        (["a"], 700, 700),
        # The clock was set back.
        (["b"], 700, 900),
        # All tables of a commit get one time.
        (["a", "b"], 700, 900),
        (["a", "b", "new"], 901, 901),
    ],
)
def test_the_time_of_commits_follows_the_clock_and_never_goes_back(
    tables: list[str], now_ms: int, expected_ms: int
) -> None:
    changes = tuple(Change(each, SnapshotKind.APPEND, 0, 1) for each in tables)
    assert find_commit_time(CommitRequest("w", 1, changes), HEADS, now_ms) == expected_ms
