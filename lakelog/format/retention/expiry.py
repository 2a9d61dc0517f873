"""Which snapshots and changelogs of a table expire (semantics 3.8, 7.3), and what retains the others. Pure.

Objectives, which conflict: the retained part of a table stays small; no reader loses what it is reading (reliability
C7). So a state expires by age and number, and never after the lowest snapshot lease.

Invariants:

1. Two bounds move, and never back: states are retained from `earliest`, changes from `earliest_change`, which is not
   above it. Below them only named states (a tag, a lease on a tagged state) can be read.
2. The newest snapshot never expires.
3. A lease on snapshot s retains state s and every change after it, as far as they still exist.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.format.commit.facts import TableHead
from lakelog.options.declared.retention import (
    CHANGELOG_NUM_RETAINED_MAX,
    CHANGELOG_NUM_RETAINED_MIN,
    CHANGELOG_TIME_RETAINED,
    SNAPSHOT_NUM_RETAINED_MAX,
    SNAPSHOT_NUM_RETAINED_MIN,
    SNAPSHOT_TIME_RETAINED,
)
from lakelog.options.declared.tables import CHANGELOG_PRODUCER
from lakelog.options.values import TableOptions

MAX_SNAPSHOTS: Final = 1000
"""Snapshots that expire in one step; their table's commits wait for it."""


class SnapshotLeaseKind(enum.Enum):
    """What needs a snapshot."""

    CONSUMER = "consumer"
    """A named reader with its position there."""
    READER = "reader"
    """A process that reads it now, or a user that has requested to retain it for a while."""
    CHANGELOG = "changelog"
    """A pending changelog, which begins with its state."""
    PUBLISHER = "publisher"
    """The external log, which goes on after it."""


@dataclass(frozen=True)
class SnapshotLease:
    """Retains a snapshot and all later ones.

    Args:
        kind: What needs it.
        holder: The consumer's id, the reader, or the log's topic.
        snapshot_id: Its state, and every change after it, are needed.
        expires_at_ms: When the lease ends by itself, by the database's clock; 0: it does not.
    """

    kind: SnapshotLeaseKind
    holder: str
    snapshot_id: int
    expires_at_ms: int = 0


@dataclass(frozen=True)
class OverdueSnapshots:
    """Snapshots of a table that would have expired without a lease.

    Args:
        table: `database.table`.
        lease: The lease that needs them.
        count: The number of states or changes, whichever is larger.
        since_ms: When the oldest of them was committed, in milliseconds since the epoch.
    """

    table: str
    lease: SnapshotLease
    count: int
    since_ms: int


@dataclass(frozen=True)
class Retained:
    """How much of one kind (states or changes) is retained.

    Args:
        time_ms: How long after the next snapshot was committed.
        least: At least this many of the newest.
        most: At most this many of the newest; None: unlimited.
    """

    time_ms: int
    least: int
    most: int | None = None


@dataclass(frozen=True)
class Retention:
    """How much of a table is retained.

    Args:
        snapshots: For its states.
        changelogs: For its changes, if they live longer than the states; None: like these.
    """

    snapshots: Retained
    changelogs: Retained | None = None


@dataclass(frozen=True)
class ExpiryHorizon:
    """Where the retained part would begin if nothing needed more.

    Args:
        states: The earliest snapshot whose state is retained.
        changes: The earliest snapshot whose changes are retained.
    """

    states: int
    changes: int


@dataclass(frozen=True)
class ExpiryPlan:
    """Where the retained part begins from now on.

    Args:
        earliest: The earliest snapshot whose state is retained.
        earliest_change: The earliest snapshot whose changes are retained; not above `earliest`.
        held_by: The leases without which more would expire, the lowest first.
        is_cut: More could expire, but not in this step.
    """

    earliest: int
    earliest_change: int
    held_by: tuple[SnapshotLease, ...] = ()
    is_cut: bool = False


def to_retention(options: TableOptions) -> Retention:
    """Returns the retention of a table's options. Pure."""
    snapshots = Retained(
        options.get(SNAPSHOT_TIME_RETAINED),
        options.get(SNAPSHOT_NUM_RETAINED_MIN),
        options.get(SNAPSHOT_NUM_RETAINED_MAX),
    )
    time_ms, least, most = (
        options.get(option)
        for option in (CHANGELOG_TIME_RETAINED, CHANGELOG_NUM_RETAINED_MIN, CHANGELOG_NUM_RETAINED_MAX)
    )
    if options.get(CHANGELOG_PRODUCER) == "none" or (time_ms, least, most) == (None, None, None):
        return Retention(snapshots)
    return Retention(
        snapshots,
        Retained(
            snapshots.time_ms if time_ms is None else time_ms,
            snapshots.least if least is None else least,
            # A bound on states does not bound changelogs, which should live longer.
            most,
        ),
    )


def find_bound(head: TableHead, retained: Retained, newest_old: int) -> int:
    """Returns the earliest snapshot that is retained by number and age. Pure.

    Args:
        head: The table's head.
        retained: How much is retained.
        newest_old: The newest snapshot that was committed this long ago, or longer; 0: none was. The state before it
            was replaced at least this long ago.
    """
    latest = head.latest_snapshot_id
    by_number = 0 if retained.most is None else latest - retained.most + 1
    return max(min(max(newest_old, by_number), latest - retained.least + 1), 1)


def plan_expiry(
    head: TableHead, horizon: ExpiryHorizon, leases: Sequence[SnapshotLease], *, limit: int = MAX_SNAPSHOTS
) -> ExpiryPlan:
    """Returns where the retained part begins from now on. Pure.

    Args:
        head: The table's head.
        horizon: Where it would begin if nothing needed more.
        leases: Leases that have not expired.
        limit: Each bound moves by this many snapshots at most.
    """
    wanted = max(min(horizon.states, head.latest_snapshot_id), head.earliest_snapshot_id)
    wanted_change = max(min(horizon.changes, wanted), head.earliest_change_id)
    earliest, earliest_change = wanted, wanted_change
    held: list[SnapshotLease] = []
    for lease in sorted(leases, key=lambda each: (each.snapshot_id, each.kind.value, each.holder)):
        first_change = lease.snapshot_id + 1
        if first_change < head.earliest_change_id:
            # What it needs next is gone, so retaining the rest would not help it.
            continue
        state_bound = max(lease.snapshot_id, head.earliest_snapshot_id)
        if state_bound < wanted or first_change < wanted_change:
            held.append(lease)
        earliest = min(earliest, state_bound)
        earliest_change = min(earliest_change, first_change, earliest)
    cut = min(earliest, head.earliest_snapshot_id + limit)
    cut_change = min(earliest_change, cut, head.earliest_change_id + limit)
    return ExpiryPlan(cut, cut_change, tuple(held), is_cut=(cut, cut_change) != (earliest, earliest_change))


def count_overdue(head: TableHead, horizon: ExpiryHorizon, lease: SnapshotLease) -> int:
    """How many snapshots would have expired without a lease of `ExpiryPlan.held_by`. Pure."""
    wanted = min(horizon.states, head.latest_snapshot_id)
    states = wanted - max(lease.snapshot_id, head.earliest_snapshot_id)
    changes = min(horizon.changes, wanted) - (lease.snapshot_id + 1)
    return max(states, changes)


@dataclass(frozen=True)
class ExpiryStep:
    """The result of one step of expiring a table, or of all steps in a dry run.

    Args:
        earliest_before: The earliest snapshot whose state was retained before it; 0: the table has none.
        earliest: The same after it.
        earliest_change_before: The earliest snapshot whose changes were retained before it.
        earliest_change: The same after it.
        files: Files that nothing refers to any more, to be deleted.
        size_bytes: The size of the data and changelog files among them.
        held_by: The leases without which more would have expired.
        named: Expired snapshots that tags retain.
        is_done: Nothing is left to do now.
    """

    earliest_before: int = 0
    earliest: int = 0
    earliest_change_before: int = 0
    earliest_change: int = 0
    files: int = 0
    size_bytes: int = 0
    held_by: tuple[SnapshotLease, ...] = ()
    named: tuple[int, ...] = ()
    is_done: bool = True
