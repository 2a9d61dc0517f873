"""The checker of logs, on good ones and on each kind of bad one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from lakelog.testing.log_history import (
    RECORDS_SCHEMA,
    ROWS_SCHEMA,
    SNAPSHOTS_SCHEMA,
    STATE_SCHEMA,
    LogViolation,
    check_log,
    check_replay,
)


@dataclass(frozen=True)
class Seen:
    """A record of a keyed table with two partitions; snapshot n was committed at n * 1000."""

    partition: int
    offset: int
    snapshot: int | None
    idx: int | None
    kind: str
    key: str | None
    row: str | None
    uuid: str | None = ""
    appended_ms: int = 0
    seen_ms: int = 0

    def to_row(self) -> dict[str, Any]:
        ms = (self.snapshot or 0) * 1000
        return {
            **self.__dict__,
            "uuid": f"u{self.snapshot}" if self.uuid == "" else self.uuid,
            "appended_ms": self.appended_ms or ms + 5,
            "seen_ms": self.seen_ms or ms + 9,
        }


# Snapshot 1 adds a and b, 2 updates a twice, 3 is large and comes in pieces, 4 deletes b. Between the transactions of a
# partition an offset is taken by each end.
A1 = Seen(0, 0, 1, 0, "+I", "a", "a1")
B1 = Seen(1, 0, 1, 1, "+I", "b", "b1")
A2 = Seen(0, 2, 2, 0, "+U", "a", "a2")
A3 = Seen(0, 3, 2, 1, "+U", "a", "a3")
C1 = Seen(0, 5, 3, 0, "+I", "c", "c1")
D1 = Seen(0, 7, 3, 1, "+I", "d", "d1")
E1 = Seen(1, 2, 3, 2, "+I", "e", "e1")
B2 = Seen(1, 4, 4, 0, "-D", "b", None)
GOOD = (A1, B1, A2, A3, C1, D1, E1, B2)

SNAPSHOTS = pa.table(
    [[1, 2, 3, 4], ["u1", "u2", "u3", "u4"], [1000, 2000, 3000, 4000], [True, True, False, True]],
    schema=SNAPSHOTS_SCHEMA,
)
ROWS = pa.table(
    [
        [1, 1, 2, 2, 3, 3, 3, 4],
        ["+I", "+I", "+U", "+U", "+I", "+I", "+I", "-D"],
        ["a", "b", "a", "a", "c", "d", "e", "b"],
        ["a1", "b1", "a2", "a3", "c1", "d1", "e1", "whatever a delete carries"],
    ],
    schema=ROWS_SCHEMA,
)
STATE = pa.table([["a", "c", "d", "e"], ["a3", "c1", "d1", "e1"]], schema=STATE_SCHEMA)


def to_records(seen: Sequence[Seen]) -> pa.Table:
    return pa.Table.from_pylist([each.to_row() for each in seen], schema=RECORDS_SCHEMA)


def kinds(seen: Sequence[Seen], **how: Any) -> set[LogViolation]:
    how = {"state": STATE, **how}
    return {finding.violation for finding in check_log(to_records(seen), SNAPSHOTS, how.pop("rows", ROWS), **how)}


def without(*gone: Seen) -> tuple[Seen, ...]:
    return tuple(each for each in GOOD if each not in gone)


def test_a_good_log_has_no_findings() -> None:
    assert kinds(GOOD) == set()
    assert kinds(GOOD[::-1]) == set()


def test_what_was_seen_again_counts_once() -> None:
    assert kinds([*GOOD, *(replace(each, seen_ms=99_000) for each in GOOD)]) == set()


def test_what_is_not_published_yet_need_not_be_there() -> None:
    published = pa.table([["a", "b"], ["a3", "b1"]], schema=STATE_SCHEMA)
    assert kinds(GOOD[:4], published_until=2, state=published) == set()
    assert kinds(GOOD[:5], published_until=2, state=None) == set()


def test_rows_that_were_merged_are_compared_with_the_last_of_their_key() -> None:
    merged = ROWS.filter(pa.array([True, True, False, True, True, True, True, True]))
    assert kinds(GOOD, rows=merged, rows_are_merged=True) == set()
    assert kinds(GOOD, rows=merged) == {LogViolation.PHANTOM}


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(without(B1, A1), {LogViolation.LOST}, id="a snapshot"),
        pytest.param(without(D1), {LogViolation.LOST, LogViolation.REPLAY}, id="a row of a large one"),
        pytest.param((), {LogViolation.LOST, LogViolation.REPLAY}, id="everything"),
        pytest.param((*GOOD, replace(E1, offset=6)), {LogViolation.DUPLICATE}, id="a row twice, later"),
        pytest.param(
            (*GOOD, replace(E1, offset=3, idx=3)), {LogViolation.DUPLICATE}, id="a row twice, with another index"
        ),
        pytest.param(
            (*GOOD, Seen(1, 6, 5, 0, "+I", "f", "f1")),
            {LogViolation.ABORTED_READ, LogViolation.REPLAY},
            id="no snapshot",
        ),
        pytest.param(
            tuple(replace(each, uuid="other") if each is D1 else each for each in GOOD),
            {LogViolation.ABORTED_READ, LogViolation.LOST},
            id="a snapshot of another history",
        ),
        pytest.param(
            tuple(replace(each, appended_ms=3999) if each is B2 else each for each in GOOD),
            {LogViolation.EARLY},
            id="appended before the commit",
        ),
        pytest.param(
            tuple(replace(each, appended_ms=3990, seen_ms=3999) if each is B2 else each for each in GOOD),
            {LogViolation.EARLY},
            id="seen before the commit",
        ),
        pytest.param(without(B1), {LogViolation.TORN, LogViolation.LOST}, id="half of a small snapshot"),
        pytest.param(
            tuple(replace(each, offset=4) if each is A3 else each for each in GOOD),
            {LogViolation.TORN},
            id="two transactions",
        ),
        pytest.param(
            tuple(replace(each, appended_ms=1010, seen_ms=1015) if each is B1 else each for each in GOOD),
            {LogViolation.TORN},
            id="two transactions in two partitions",
        ),
        pytest.param(
            tuple(replace(each, offset=9) if each is C1 else each for each in GOOD),
            {LogViolation.OUT_OF_ORDER},
            id="rows out of order",
        ),
        pytest.param(
            tuple(replace(each, offset=10) if each is A1 else each for each in GOOD),
            {LogViolation.OUT_OF_ORDER, LogViolation.REPLAY},
            id="snapshots out of order",
        ),
        pytest.param(
            (*GOOD, Seen(1, 5, 4, 1, "+I", "z", "z9")), {LogViolation.PHANTOM, LogViolation.REPLAY}, id="no such row"
        ),
        pytest.param(
            (*GOOD, Seen(1, 6, None, None, "+I", "e", "e1", uuid=None)), {LogViolation.PHANTOM}, id="no headers"
        ),
        pytest.param(
            tuple(replace(each, partition=1, offset=6) if each is A3 else each for each in GOOD),
            {LogViolation.MISPLACED, LogViolation.OUT_OF_ORDER},
            id="a key in two partitions",
        ),
    ],
)
def test_each_kind_of_bad_log_is_found(seen: Sequence[Seen], expected: set[LogViolation]) -> None:
    assert kinds(seen) == expected


def test_a_replay_that_is_another_table_is_found() -> None:
    other = pa.table([["a", "c", "d", "b"], ["a3", "c1", "d2", "b1"]], schema=STATE_SCHEMA)
    (finding,) = check_log(to_records(GOOD), SNAPSHOTS, ROWS, state=other)
    assert finding.violation is LogViolation.REPLAY
    assert finding.count == 4
    assert "key e, row e1: 0 times in the table, 1 in the log" in str(finding)


def test_a_compacted_topic_is_replayed_alone() -> None:
    compacted = [A3, C1, D1, E1, B2]
    assert check_replay(to_records(compacted), STATE) == []
    assert [each.violation for each in check_replay(to_records([A2, C1, D1, E1]), STATE)] == [LogViolation.REPLAY]


def test_rows_without_keys_count_each_time() -> None:
    rows = pa.table([[1, 1, 2], ["+I"] * 3, [None] * 3, ["x", "x", "y"]], schema=ROWS_SCHEMA)
    seen = [
        Seen(0, 0, 1, 0, "+I", None, "x"),
        Seen(1, 0, 1, 1, "+I", None, "x"),
        Seen(1, 2, 2, 0, "+I", None, "y"),
    ]
    state = pa.table([[None] * 3, ["y", "x", "x"]], schema=STATE_SCHEMA)
    assert kinds(seen, rows=rows, state=state, published_until=2) == set()
    assert kinds(seen[:1] + seen[2:], rows=rows, state=state, published_until=2) == {
        LogViolation.LOST,
        LogViolation.TORN,
        LogViolation.REPLAY,
    }
    twice = [*seen, replace(seen[2], offset=4)]
    assert kinds(twice, rows=rows, state=state, published_until=2) == {
        LogViolation.DUPLICATE,
        LogViolation.TORN,
        LogViolation.REPLAY,
    }


def test_clocks_may_differ_by_what_is_said() -> None:
    early = [replace(each, appended_ms=3990) if each is B2 else each for each in GOOD]
    assert kinds(early, clock_error_ms=10) == set()


def test_a_finding_counts_all_and_names_the_first() -> None:
    (finding, _) = check_log(to_records(()), SNAPSHOTS, ROWS, state=STATE)
    assert finding.count == 8
    assert str(finding).startswith("LOST: a row of the table is not in the log: snapshot 1, key a, row a1: 1 times")
    assert str(finding).endswith(" and 3 more")
    (one,) = check_log(to_records([*GOOD, replace(E1, offset=6)]), SNAPSHOTS, ROWS)
    assert str(one).endswith("partition 1 offset 6 (snapshot 3, idx 2, key e, row e1)")
