from __future__ import annotations

from dataclasses import replace

from lakelog.format.compaction.commit_count import (
    CommitsSinceFull,
    FullCompactionDue,
    FullCompactionLater,
    count_commits,
    plan_full_by_commits,
    plan_full_by_time,
    resolve_full,
)
from lakelog.format.compaction.plan import NoPlan
from lakelog.format.compaction.settings import CompactionSettings

THREE = CompactionSettings(100, delta_commits=3)


def test_a_full_compaction_is_due_after_so_many_commits() -> None:
    known = count_commits(CommitsSinceFull(), 3, 2)
    # Looked at again.
    known = count_commits(known, 3, 2)
    assert plan_full_by_commits(known, THREE) == NoPlan(
        "There were 2 commits of data since the last full compaction; 3 make one due."
    )
    due = plan_full_by_commits(count_commits(known, 4, 1), THREE)
    assert due == FullCompactionDue(0, 4, "There were 3 commits of data since the last full compaction.")
    # One came while it ran.
    known = count_commits(resolve_full(due), 5, 1)
    assert plan_full_by_commits(known, CompactionSettings(100, delta_commits=1)) == FullCompactionDue(
        4, 5, "There were 1 commits of data since the last full compaction."
    )
    assert isinstance(plan_full_by_commits(known, THREE), NoPlan)


def test_commits_alone_make_nothing_due() -> None:
    found = plan_full_by_commits(count_commits(CommitsSinceFull(), 1, 1), CompactionSettings(100))
    assert isinstance(found, NoPlan)
    assert "full-compaction.delta-commits" in found.reason


def test_some_time_after_the_first_commit_a_full_compaction_is_due() -> None:
    settings = CompactionSettings(100, optimization_interval_ms=1000)
    known = replace(count_commits(CommitsSinceFull(), 2, 2), first_ms=5000)
    assert plan_full_by_time(known, settings, now_ms=5400) == FullCompactionLater(600)
    due = plan_full_by_time(known, settings, now_ms=6000)
    assert isinstance(due, FullCompactionDue)
    assert (due.after, due.until) == (0, 2)
    assert "1000 ms have passed" in due.why
    assert count_commits(known, 3, 1).first_ms == 5000, "it is the first that counts"
    assert resolve_full(due).first_ms is None
    assert isinstance(plan_full_by_time(resolve_full(due), settings, now_ms=9000), NoPlan)
    none = plan_full_by_time(known, CompactionSettings(100), now_ms=9000)
    assert isinstance(none, NoPlan)
    assert "compaction.optimization-interval" in none.reason
