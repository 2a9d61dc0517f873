"""A short soak (`./run bench SOAK` takes ten minutes), and what shows that it notices what goes wrong."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from bench.soak.machine import soak
from bench.soak.readers import SoakError
from lakelog.format.commit.order import Commit
from lakelog.reads.streams.batch import Progress
from lakelog.reads.streams.follow import TablesFollower
from tests.support.forked_stack import ForkedStack

SECONDS = 30.0


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ll-soak-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_readers_know_the_tables_in_the_end(folder: Path) -> None:
    report = soak(folder, SECONDS, seed=20, say=print, stack_type=ForkedStack)
    assert report.commits > 50
    assert report.kills >= 2
    assert report.cuts > 0
    assert report.comebacks > 0


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_stream_that_loses_a_change_is_found_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: now and then a range of snapshots is passed over in silence."""
    show_commits, numbers = TablesFollower._show_commits, itertools.count(1)

    def lose_some(self: TablesFollower, commits: Sequence[Commit]) -> Iterator[Progress]:
        shown = list(show_commits(self, commits))
        return iter([Progress(None, shown[-1].done)] if next(numbers) % 40 == 0 else shown)

    monkeypatch.setattr(TablesFollower, "_show_commits", lose_some)
    with pytest.raises(SoakError):
        soak(folder, 8.0, seed=21, say=print, stack_type=ForkedStack)
