"""With a `sequence.field` a delete may be dropped once no late record can meet it any more (semantics 1.3)."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from lakelog.format.compaction.bucket_plan import find_delete_horizon

RETENTION_MS = 5


@dataclass(frozen=True)
class Record:
    """What a commit says of the one key there is."""

    sequence: int
    is_delete: bool
    time_ms: int


def merge(state: Record | None, record: Record) -> Record:
    """The left fold of the commits: a delete gives way to whatever comes more than the retention behind it."""
    if state is None or record.sequence >= state.sequence:
        return record
    is_outlived = state.is_delete and record.time_ms - state.time_ms > RETENTION_MS
    return record if is_outlived else state


def shown(state: Record | None) -> Record | None:
    return None if state is None or state.is_delete else state


HISTORY = st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 7)), min_size=1, max_size=8)


@given(HISTORY, st.integers(0, 8), st.integers(0, 12))
def test_no_later_read_sees_that_a_delete_is_gone(
    history: list[tuple[int, bool, int]], compacted_after: int, waited_ms: int
) -> None:
    full: Record | None = None
    compacted: Record | None = None
    time_ms = 0
    for number, (sequence, is_delete, pause_ms) in enumerate(history):
        time_ms += pause_ms
        record = Record(sequence, is_delete, time_ms)
        full, compacted = merge(full, record), merge(compacted, record)
        assert shown(compacted) == shown(full)
        if number == compacted_after:
            # No later commit lies before the time of the compaction.
            time_ms += waited_ms
            horizon_ms = find_delete_horizon(time_ms, RETENTION_MS)
            if compacted.is_delete and compacted.time_ms < horizon_ms:
                compacted = None


def test_the_horizon_is_as_late_as_it_may_be() -> None:
    delete = Record(9, True, 100)
    for as_of_ms, may_go in ((105, False), (106, True)):
        assert (delete.time_ms < find_delete_horizon(as_of_ms, RETENTION_MS)) is may_go
        late = Record(1, False, as_of_ms)
        assert (shown(merge(delete, late)) == late) is may_go
