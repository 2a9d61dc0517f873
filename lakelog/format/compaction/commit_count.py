"""When buckets are compacted as a whole because of the commits since (semantics 3.6).

They are due after this many commits (`full-compaction.delta-commits`), or some time after the first of them
(`compaction.optimization-interval`).

Commits that add or remove data are counted, but not compactions. The state is a few numbers, updated as commits come;
the buckets that they wrote are looked up once, when a full compaction is due.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakelog.format.compaction.plan import NoPlan
from lakelog.format.compaction.settings import CompactionSettings


@dataclass(frozen=True)
class CommitsSinceFull:
    """The data commits since the last full compaction that they made due.

    Args:
        resolved_until: That full compaction covers all commits up to and including this snapshot.
        counted_until: All snapshots up to this one are counted.
        count: How many of those in between add or remove data.
        first_ms: When the first of these was made, in milliseconds since the epoch; None: there is none, or it was not
            looked up yet. Its snapshot may have expired since.
    """

    resolved_until: int = 0
    counted_until: int = 0
    count: int = 0
    first_ms: int | None = None


@dataclass(frozen=True)
class FullCompactionDue:
    """All buckets that some commits wrote are to be compacted as a whole.

    Args:
        after: The commits after this snapshot,
        until: up to and including this one, which is the last they cover.
        why: The reason, in a sentence for people.
    """

    after: int
    until: int
    why: str


def count_commits(known: CommitsSinceFull, until: int, count: int) -> CommitsSinceFull:
    """Returns the counts after some snapshots. Pure.

    Args:
        known: The counts before them.
        until: The last one; a snapshot that is already counted changes nothing.
        count: How many of those after `known.counted_until`, up to and including `until`, add or remove data.
    """
    if until <= known.counted_until:
        return known
    return replace(known, counted_until=until, count=known.count + count)


def plan_full_by_commits(known: CommitsSinceFull, settings: CompactionSettings) -> FullCompactionDue | NoPlan:
    """Plans the full compaction that the number of commits makes due. Pure.

    Args:
        known: The commits since the last one.
        settings: The table's settings.
    """
    wanted = settings.delta_commits
    if wanted is None:
        return NoPlan("Commits do not make full compactions due; the option 'full-compaction.delta-commits' does.")
    if known.count < wanted:
        return NoPlan(
            f"There were {known.count} commits of data since the last full compaction; {wanted} make one due."
        )
    return FullCompactionDue(
        known.resolved_until,
        known.counted_until,
        f"There were {known.count} commits of data since the last full compaction.",
    )


@dataclass(frozen=True)
class FullCompactionLater:
    """A full compaction will be due.

    Args:
        delay_ms: In this many milliseconds, if nothing makes it due before.
    """

    delay_ms: int


def plan_full_by_time(
    known: CommitsSinceFull, settings: CompactionSettings, *, now_ms: int
) -> FullCompactionDue | FullCompactionLater | NoPlan:
    """Plans the full compaction that time makes due. Pure.

    Args:
        known: The commits since the last one, and the time of the first if there are some.
        settings: The table's settings.
        now_ms: The time by the same clock.
    """
    interval_ms = settings.optimization_interval_ms
    if interval_ms is None:
        return NoPlan("Time makes no full compactions due; the option 'compaction.optimization-interval' does.")
    if known.count == 0:
        return NoPlan("There was no commit of data since the last full compaction.")
    assert known.first_ms is not None, "it was looked up with the first commit"
    if now_ms < known.first_ms + interval_ms:
        return FullCompactionLater(known.first_ms + interval_ms - now_ms)
    return FullCompactionDue(
        known.resolved_until,
        known.counted_until,
        f"{now_ms - known.first_ms} ms have passed since the first commit of data behind the last full compaction.",
    )


def resolve_full(due: FullCompactionDue) -> CommitsSinceFull:
    """Returns the counts once a full compaction was made due. Pure."""
    return CommitsSinceFull(due.until, due.until)
