from __future__ import annotations

from lakelog.format.commit import BucketRef
from lakelog.format.compaction.commit_count import (
    CommitsSinceFull,
    FullCompactionDue,
    count_commit,
    plan_full_by_commits,
    settle_full,
)
from lakelog.format.compaction.plan import NoPlan
from lakelog.format.compaction.settings import CompactionSettings
from lakelog.format.snapshot import SnapshotKind

THREE = CompactionSettings(100, delta_commits=3)
A, B, C = BucketRef(b"a", 0), BucketRef(b"a", 1), BucketRef(b"b", 0)


def test_all_buckets_written_since_are_due_after_so_many_commits() -> None:
    known = CommitsSinceFull()
    known = count_commit(known, 1, SnapshotKind.APPEND, frozenset({C, A}))
    known = count_commit(known, 2, SnapshotKind.COMPACT, frozenset({B}))
    known = count_commit(known, 3, SnapshotKind.OVERWRITE, frozenset({A}))
    known = count_commit(known, 3, SnapshotKind.OVERWRITE, frozenset({A}))
    assert plan_full_by_commits(known, THREE) == NoPlan(
        "There were 2 commits of data since the last full compaction; 3 make one due."
    )
    known = count_commit(known, 4, SnapshotKind.APPEND, frozenset({A}))
    due = plan_full_by_commits(known, THREE)
    assert due == FullCompactionDue((A, C), 4, "There were 3 commits of data since the last full compaction.")
    # One came while it ran.
    known = settle_full(count_commit(known, 5, SnapshotKind.APPEND, frozenset({B})), due.until)
    assert plan_full_by_commits(known, CompactionSettings(100, delta_commits=1)) == FullCompactionDue(
        (B,), 5, "There were 1 commits of data since the last full compaction."
    )
    assert isinstance(plan_full_by_commits(known, THREE), NoPlan)


def test_commits_alone_make_nothing_due() -> None:
    known = count_commit(CommitsSinceFull(), 1, SnapshotKind.APPEND, frozenset({A}))
    found = plan_full_by_commits(known, CompactionSettings(100))
    assert isinstance(found, NoPlan)
    assert "full-compaction.delta-commits" in found.reason
