"""When buckets are compacted as a whole because of the commits since (`full-compaction.delta-commits`, 3.6).

Counted are commits that bring or take data, not compactions. What is known is a few numbers and the buckets of as many
commits as the option says at most, kept up to date commit by commit; no file is ever listed for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.format.commit import BucketRef
from lakelog.format.compaction.plan import NoPlan
from lakelog.format.compaction.settings import CompactionSettings
from lakelog.format.snapshot import SnapshotKind


@dataclass(frozen=True)
class DataCommit:
    """A snapshot that brought or took data, and where."""

    snapshot_id: int
    buckets: frozenset[BucketRef]


@dataclass(frozen=True)
class CommitsSinceFull:
    """The commits of data behind the last full compaction, in their order. Begins empty."""

    commits: tuple[DataCommit, ...] = ()


@dataclass(frozen=True)
class FullCompactionDue:
    """Buckets that are to be compacted as a whole, together, in one snapshot.

    Args:
        buckets: Ordered by partition, then number.
        until: The snapshot of the last commit that they cover; they are planned on this or a later one.
        why: In a sentence for people.
    """

    buckets: tuple[BucketRef, ...]
    until: int
    why: str


def count_commit(
    known: CommitsSinceFull, snapshot_id: int, kind: SnapshotKind, buckets: frozenset[BucketRef]
) -> CommitsSinceFull:
    """What is known behind a snapshot. Pure; a snapshot that was counted before is not counted twice.

    Args:
        known: Before it.
        snapshot_id: The snapshot.
        kind: What it did; compactions do not count.
        buckets: Where it added or removed files.
    """
    if kind is SnapshotKind.COMPACT or (known.commits and snapshot_id <= known.commits[-1].snapshot_id):
        return known
    return CommitsSinceFull((*known.commits, DataCommit(snapshot_id, buckets)))


def plan_full_by_commits(known: CommitsSinceFull, settings: CompactionSettings) -> FullCompactionDue | NoPlan:
    """Plan the full compaction that the number of commits makes due. Pure.

    Args:
        known: The commits since the last one.
        settings: The table's.

    Returns:
        All buckets written since, for each of which `plan_full` says what to do.
    """
    wanted = settings.delta_commits
    if wanted is None:
        return NoPlan("Commits do not make full compactions due; the option 'full-compaction.delta-commits' does.")
    count = len(known.commits)
    if count < wanted:
        return NoPlan(f"There were {count} commits of data since the last full compaction; {wanted} make one due.")
    buckets = {bucket for commit in known.commits for bucket in commit.buckets}
    return FullCompactionDue(
        tuple(sorted(buckets, key=lambda found: (found.partition, found.bucket))),
        known.commits[-1].snapshot_id,
        f"There were {count} commits of data since the last full compaction.",
    )


def settle_full(known: CommitsSinceFull, until: int) -> CommitsSinceFull:
    """What is known once a full compaction covers all commits up to and with the snapshot `until`. Pure."""
    return CommitsSinceFull(tuple(commit for commit in known.commits if commit.snapshot_id > until))
