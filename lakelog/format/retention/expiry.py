"""Which snapshots and changelogs of a table expire (semantics 3.8, 7.3), and what holds the others back. Pure.

Objectives, which pull against each other: what a table keeps stays small; nobody who reads loses what is read under
their hands (reliability C7). So a state goes with age and number, and never behind the lowest pin.

Invariants:

1. Two bounds move, and never back: states are kept from `earliest`, changes from `earliest_change`, which is not above
   it. Below them only what a name keeps (a tag, a lease on a tagged state) can be read.
2. The newest snapshot never expires.
3. A pin at snapshot s keeps state s and every change behind it, as far as they are still there.
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
"""That expire in one step; their table's commits wait for it."""


class SnapshotLeaseKind(enum.Enum):
    """Who needs a snapshot."""

    CONSUMER = "consumer"
    """A named reader whose position stands there."""
    READER = "reader"
    """Somebody who reads it at this moment, or has asked for it to be kept for a while."""
    CHANGELOG = "changelog"
    """A changelog that is still to be made begins with its state."""
    PUBLISHER = "publisher"
    """The external log goes on behind it."""


@dataclass(frozen=True)
class SnapshotLease:
    """What keeps a snapshot and all behind it.

    Args:
        kind: Who needs it.
        holder: The consumer's id, who reads, or the log's topic.
        snapshot_id: Its state, and every change behind it, are needed.
        expires_at_ms: When the pin ends by itself, by the database's clock; 0: it does not.
    """

    kind: SnapshotLeaseKind
    holder: str
    snapshot_id: int
    expires_at_ms: int = 0


@dataclass(frozen=True)
class OverdueSnapshots:
    """Snapshots of a table that would have expired but for a pin.

    Args:
        table: `database.table`.
        lease: Who needs them.
        count: How many, of states or of changes, whichever are more.
        since_ms: When the oldest of them was committed, in milliseconds since the epoch.
    """

    table: str
    lease: SnapshotLease
    count: int
    since_ms: int


@dataclass(frozen=True)
class Retained:
    """How much is kept of one sort.

    Args:
        time_ms: How long after the next snapshot was committed.
        least: So many of the newest at least.
        most: So many of the newest at most; None: unlimited.
    """

    time_ms: int
    least: int
    most: int | None = None


@dataclass(frozen=True)
class Retention:
    """How much is kept of a table.

    Args:
        snapshots: Of its states.
        changelogs: Of its changes, where they live longer than the states; None: as long as these.
    """

    snapshots: Retained
    changelogs: Retained | None = None


@dataclass(frozen=True)
class ExpiryHorizon:
    """Up to where what is kept would begin, if nobody needed more.

    Args:
        states: The earliest snapshot whose state is kept.
        changes: The earliest snapshot whose changes are kept.
    """

    states: int
    changes: int


@dataclass(frozen=True)
class ExpiryPlan:
    """Where what is kept begins from now on.

    Args:
        earliest: The earliest snapshot whose state is kept.
        earliest_change: The earliest snapshot whose changes are kept; not above `earliest`.
        held_by: The pins but for which more would expire, the lowest first.
        is_cut: More could expire, but not in this step.
    """

    earliest: int
    earliest_change: int
    held_by: tuple[SnapshotLease, ...] = ()
    is_cut: bool = False


def to_retention(options: TableOptions) -> Retention:
    """What a table's options say. Pure."""
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
            # A bound on states is none on changelogs, which are to live longer.
            most,
        ),
    )


def find_bound(head: TableHead, retained: Retained, newest_old: int) -> int:
    """The earliest snapshot that is kept by number and age. Pure.

    Args:
        head: Of the table.
        retained: How much is kept.
        newest_old: The newest snapshot that was committed so long ago, or longer; 0: none was. What was there before it
            was replaced at least so long ago.
    """
    latest = head.latest_snapshot_id
    by_number = 0 if retained.most is None else latest - retained.most + 1
    return max(min(max(newest_old, by_number), latest - retained.least + 1), 1)


def plan_expiry(
    head: TableHead, horizon: ExpiryHorizon, leases: Sequence[SnapshotLease], *, limit: int = MAX_SNAPSHOTS
) -> ExpiryPlan:
    """Where what is kept begins from now on. Pure.

    Args:
        head: Of the table.
        horizon: Where it would begin if nobody needed more.
        leases: That have not expired.
        limit: Each bound moves by so many snapshots at most.
    """
    wanted = max(min(horizon.states, head.latest_snapshot_id), head.earliest_snapshot_id)
    wanted_change = max(min(horizon.changes, wanted), head.earliest_change_id)
    earliest, earliest_change = wanted, wanted_change
    held: list[SnapshotLease] = []
    for lease in sorted(leases, key=lambda each: (each.snapshot_id, each.kind.value, each.holder)):
        first_change = lease.snapshot_id + 1
        if first_change < head.earliest_change_id:
            # What it needs next is gone: to keep the rest for it would help nobody.
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
    """How many snapshots would have expired but for a pin of those in `ExpiryPlan.held_by`. Pure."""
    wanted = min(horizon.states, head.latest_snapshot_id)
    states = wanted - max(lease.snapshot_id, head.earliest_snapshot_id)
    changes = min(horizon.changes, wanted) - (lease.snapshot_id + 1)
    return max(states, changes)


@dataclass(frozen=True)
class ExpiryStep:
    """What one step of expiring a table has done, or would do in all.

    Args:
        earliest_before: The earliest snapshot whose state was kept before it; 0: the table has none.
        earliest: The same afterwards.
        earliest_change_before: The earliest snapshot whose changes were kept before it.
        earliest_change: The same afterwards.
        files: That nothing refers to any more, to be deleted.
        size_bytes: Of the data and changelog files among them.
        held_by: The pins but for which more would have expired.
        named: Snapshots that tags keep, of those that have expired otherwise.
        is_done: There is nothing left to do now.
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
