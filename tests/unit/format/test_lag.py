"""How far behind a reader is: what counts, and from when on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakelog.format.retention.lag import Lag, measure_lag
from lakelog.format.tables.snapshot import ChangelogState, Snapshot, SnapshotKind

APPEND = Snapshot(1, "", "", SnapshotKind.APPEND, 0, 1_000, None, 0, 0, 0, 5, 1, 0, "w", 1)
COMPACT = replace(APPEND, kind=SnapshotKind.COMPACT, added_rows=100)
EMITTING = replace(COMPACT, changelog=ChangelogState.ATTACHED)


@pytest.mark.parametrize(
    ("missing", "count", "lag"),
    [
        ((), 0, Lag(0, 0, 0)),
        # What only compacts brings nothing: the lag does not age because of it.
        ((COMPACT, COMPACT), 2, Lag(2, 0, 0)),
        ((COMPACT, replace(APPEND, committed_at_ms=4_000)), 2, Lag(2, 5, 6_000)),
        ((APPEND, COMPACT, APPEND), 3, Lag(3, 10, 9_000)),
        # A full compaction that emits a changelog brings rows.
        ((EMITTING, APPEND), 2, Lag(2, 5, 9_000)),
        ((APPEND,), 3, Lag(3, 5, 9_000, is_least=True)),
        # The clock was set back.
        ((replace(APPEND, committed_at_ms=11_000),), 1, Lag(1, 5, 0)),
    ],
)
def test_only_what_brings_changes_makes_a_reader_late(missing: tuple[Snapshot, ...], count: int, lag: Lag) -> None:
    assert measure_lag(missing, count, 10_000) == lag
