"""Records of a log that were sent before their commit: which snapshots they became, and what happened to the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.commit.facts import AttemptState
from lakelog.format.log.heartbeat import MAX_ATTEMPTS
from lakelog.log.tally import LogFindings, SnapshotRows
from lakelog.log.uncommitted_tally import UncommittedFindings, UncommittedTally

_EXAMPLES: Final = 5


@dataclass(frozen=True)
class SentAttempt:
    """An attempt that was committed.

    Args:
        snapshot_id: The snapshot that it became.
        is_all: All of its rows were in the topic at the commit; else the publisher sends them all.
    """

    snapshot_id: int
    is_all: bool


def find_sent(metastore: Metastore, table_uuid: str, snapshots: Mapping[int, SnapshotRows]) -> dict[str, SentAttempt]:
    """Returns the attempts of some snapshots, by their ids; blocks on the metastore."""
    found: dict[str, SentAttempt] = {}
    after, until = min(snapshots, default=1) - 1, max(snapshots, default=0)
    while after < until:
        page = metastore.list_snapshots(table_uuid, after=after, until=until).snapshots
        if not page:
            break
        for each in page:
            if each.attempt_id and each.snapshot_id in snapshots:
                found[each.attempt_id] = SentAttempt(each.snapshot_id, each.sent_offsets is not None)
        after = page[-1].snapshot_id
    return found


def make_uncommitted_tally(
    snapshots: Mapping[int, SnapshotRows],
    sent: Mapping[str, SentAttempt],
    starts: tuple[int, ...],
    *,
    is_compacted: bool,
) -> UncommittedTally:
    """Counts what these attempts have sent. Pure."""
    return UncommittedTally(
        {attempt: snapshots[each.snapshot_id] for attempt, each in sent.items() if each.is_all},
        {attempt: each.snapshot_id for attempt, each in sent.items()},
        frozenset(attempt for attempt, each in sent.items() if not each.is_all),
        starts,
        is_compacted,
    )


def add_uncommitted(
    metastore: Metastore, table_uuid: str, found: LogFindings, uncommitted: UncommittedFindings
) -> LogFindings:
    """Combines both counts; asks the metastore about attempts that became no snapshot here."""
    states: dict[str, AttemptState] = {}
    asked = list(uncommitted.others)
    for first in range(0, len(asked), MAX_ATTEMPTS):
        found_attempts = metastore.find_attempts(table_uuid, asked[first : first + MAX_ATTEMPTS])
        states |= {attempt: each.state for attempt, each in found_attempts.items()}

    def count(state: AttemptState) -> int:
        return sum(records for attempt, records in uncommitted.others.items() if states[attempt] is state)

    return replace(
        found,
        records=found.records + uncommitted.records,
        rows=found.rows + uncommitted.rows,
        snapshots=found.snapshots + uncommitted.snapshots,
        lost=found.lost + uncommitted.lost,
        duplicates=found.duplicates + uncommitted.duplicates,
        foreign=found.foreign + uncommitted.foreign,
        torn=tuple(sorted({*found.torn, *uncommitted.torn})),
        compacted=found.compacted + uncommitted.compacted,
        expired=found.expired + uncommitted.unkept,
        # They belong to other tables' commits, to snapshots that have expired, or to new ones.
        earlier=found.earlier + count(AttemptState.COMMITTED),
        taken_back=count(AttemptState.ABORTED),
        uncommitted=count(AttemptState.OPEN),
        may_repeat=True,
        examples=(*found.examples, *uncommitted.examples)[:_EXAMPLES],
    )
