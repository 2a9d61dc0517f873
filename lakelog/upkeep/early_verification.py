"""What of a log was sent before its commit: which snapshots came of it, and what has become of the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from lakelog.client.metastore import Metastore
from lakelog.format.commit_facts import AttemptState
from lakelog.log.early_tally import EarlyFindings, EarlyTally
from lakelog.log.tally import LogFindings, SnapshotRows

_ATTEMPTS_A_QUESTION: Final = 1000
_EXAMPLES: Final = 5


@dataclass(frozen=True)
class SentAttempt:
    """An attempt that was committed.

    Args:
        snapshot_id: What came of it.
        is_all: All of its rows stood in the topic by then; else the publisher sends them all.
    """

    snapshot_id: int
    is_all: bool


def find_sent(metastore: Metastore, table_uuid: str, snapshots: Mapping[int, SnapshotRows]) -> dict[str, SentAttempt]:
    """The attempts of some snapshots, by their ids; blocks on the metastore."""
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


def make_early_tally(
    snapshots: Mapping[int, SnapshotRows],
    sent: Mapping[str, SentAttempt],
    starts: tuple[int, ...],
    *,
    is_compacted: bool,
) -> EarlyTally:
    """Counts what these attempts have sent. Pure."""
    return EarlyTally(
        {attempt: snapshots[each.snapshot_id] for attempt, each in sent.items() if each.is_all},
        {attempt: each.snapshot_id for attempt, each in sent.items()},
        frozenset(attempt for attempt, each in sent.items() if not each.is_all),
        starts,
        is_compacted,
    )


def add_early(metastore: Metastore, table_uuid: str, found: LogFindings, early: EarlyFindings) -> LogFindings:
    """What was found of both; asks what has become of attempts that came to nothing here."""
    states: dict[str, AttemptState] = {}
    asked = list(early.others)
    for first in range(0, len(asked), _ATTEMPTS_A_QUESTION):
        states |= metastore.find_attempts(table_uuid, asked[first : first + _ATTEMPTS_A_QUESTION])

    def count(state: AttemptState) -> int:
        return sum(records for attempt, records in early.others.items() if states[attempt] is state)

    return replace(
        found,
        records=found.records + early.records,
        rows=found.rows + early.rows,
        snapshots=found.snapshots + early.snapshots,
        lost=found.lost + early.lost,
        duplicates=found.duplicates + early.duplicates,
        foreign=found.foreign + early.foreign,
        torn=tuple(sorted({*found.torn, *early.torn})),
        compacted=found.compacted + early.compacted,
        expired=found.expired + early.unkept,
        # Of other tables' commits, of snapshots that are not kept, or of such as came meanwhile.
        earlier=found.earlier + count(AttemptState.COMMITTED),
        taken_back=count(AttemptState.DOOMED),
        uncommitted=count(AttemptState.OPEN),
        may_repeat=True,
        examples=(*found.examples, *early.examples)[:_EXAMPLES],
    )
