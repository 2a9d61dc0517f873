"""How far behind a reader of changes is: one definition for the console, pictures, `lakelog doctor` and metrics.

A snapshot that only compacts brings a reader nothing. It counts among the snapshots, because positions are their
numbers, but it adds no rows, and the lag does not age because of it. Ages are by the metastore's clock, which also
dates snapshots. The metastore measures the same in SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakelog.format.tables.snapshot import Snapshot, SnapshotKind


@dataclass(frozen=True)
class Lag:
    """How far behind the newest snapshot a reader is.

    Args:
        snapshots: How many snapshots it has not done.
        rows: The rows that they added, without those that compactions rewrote.
        age_ms: How long ago the first of them that brings changes was committed; 0: there is none.
        is_least: There are more than were counted, so that rows and age are at least these.
    """

    snapshots: int
    rows: int
    age_ms: int
    is_least: bool = False


def measure_lag(missing: Sequence[Snapshot], count: int, now_ms: int) -> Lag:
    """The lag of a reader that has not done these snapshots. Pure.

    Args:
        missing: In rising order, as far as they are known.
        count: How many there are.
        now_ms: The metastore's clock.
    """
    first = next((each for each in missing if each.brings_changes), None)
    return Lag(
        count,
        sum(each.added_rows for each in missing if each.kind is not SnapshotKind.COMPACT),
        0 if first is None else max(now_ms - first.committed_at_ms, 0),
        is_least=count > len(missing),
    )
