from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import NotFound
from lakelog.format.commit.request import StagedAttempt
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.writes.attempts_ahead import AttemptsAhead, CommitPurpose

INFO = TableInfo(
    table_uuid="1" * 32,
    name=TableName("shop", "orders"),
    location="file:///w/",
    schema=TableSchema(0, assign_field_ids(pa.schema([("id", pa.int64())]))),
    options={},
    latest_snapshot_id=0,
    created_at_ms=0,
    comment="",
)


class CountingMetastore:
    """Opens attempts and remembers how many each call asked for."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.purposes: list[tuple[str, int | None, int]] = []
        self.is_dropped = False
        self._lock = threading.Lock()

    def stage_attempt(
        self,
        table_uuids: Sequence[str],
        writer: str,
        *,
        attempt_id: str = "",
        count: int = 1,
        identifier: int | None = None,
        epoch: int = 0,
    ) -> StagedAttempt:
        if self.is_dropped:
            raise NotFound("gone")
        with self._lock:
            self.counts.append(count)
            self.purposes.append((writer, identifier, epoch))
            call = len(self.counts)
        first, *further = (f"{call}-{n}" for n in range(count))
        return StagedAttempt(first, (INFO,), tuple(further))


class StoppedClock:
    """Time passes when a test says so."""

    def __init__(self) -> None:
        self.at_s = 5.0

    def now_ms(self) -> int:
        return 0

    def monotonic_s(self) -> float:
        return self.at_s

    def sleep(self, seconds: float) -> None:
        self.at_s += seconds


@pytest.fixture
def metastore() -> CountingMetastore:
    return CountingMetastore()


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def ahead(metastore: Any, clock: StoppedClock) -> AttemptsAhead:
    return AttemptsAhead(metastore, clock)


def take(ahead: AttemptsAhead, times: int = 1) -> list[str]:
    return [ahead.take(INFO.table_uuid, CommitPurpose("w")).attempt_id for _ in range(times)]


def test_one_write_opens_one_attempt_and_many_in_a_row_ask_ever_less_often(
    ahead: AttemptsAhead, metastore: CountingMetastore
) -> None:
    assert take(ahead) == ["1-0"]
    assert metastore.counts == [1]
    ids = take(ahead, 22)
    assert len(set(ids)) == 22
    assert metastore.counts == [1, 2, 4, 8, 8]


def test_an_attempt_that_waited_too_long_is_not_used(
    ahead: AttemptsAhead, metastore: CountingMetastore, clock: StoppedClock
) -> None:
    take(ahead, 4)
    assert metastore.counts == [1, 2, 4]
    clock.sleep(0.9)
    assert take(ahead) == ["3-1"]
    clock.sleep(0.1)
    assert take(ahead) == ["4-0"]
    assert metastore.counts == [1, 2, 4, 1]


def test_who_writes_now_and_then_opens_one_each_time(
    ahead: AttemptsAhead, metastore: CountingMetastore, clock: StoppedClock
) -> None:
    for _ in range(5):
        take(ahead)
        clock.sleep(2.0)
    assert metastore.counts == [1] * 5


def test_what_is_forgotten_is_not_used(ahead: AttemptsAhead, metastore: CountingMetastore) -> None:
    take(ahead, 2)
    ahead.forget(INFO.table_uuid)
    assert take(ahead) == ["3-0"]
    assert metastore.counts == [1, 2, 1]


def test_tables_have_attempts_of_their_own(ahead: AttemptsAhead, metastore: CountingMetastore) -> None:
    take(ahead, 2)
    ahead.take("2" * 32, CommitPurpose("w"))
    assert take(ahead) == ["2-1"]
    assert metastore.counts == [1, 2, 1]


def take_for(ahead: AttemptsAhead, writer: str, identifier: int, epoch: int = 0) -> str:
    return ahead.take(INFO.table_uuid, CommitPurpose(writer, identifier, epoch)).attempt_id


def test_a_named_writer_gets_attempts_for_its_next_numbers(ahead: AttemptsAhead, metastore: CountingMetastore) -> None:
    assert [take_for(ahead, "w", number) for number in range(5, 11)] == ["1-0", "2-0", "2-1", "3-0", "3-1", "3-2"]
    assert metastore.purposes == [("w", 5, 0), ("w", 6, 0), ("w", 8, 0)]


def test_an_attempt_is_for_one_commit_of_one_writer_only(ahead: AttemptsAhead, metastore: CountingMetastore) -> None:
    take_for(ahead, "w", 5)
    take_for(ahead, "w", 6)
    # Number 7 is open; nobody else gets it, nor another try of number 6.
    assert take_for(ahead, "other", 7) == "3-0"
    assert take_for(ahead, "w", 7, epoch=1) == "4-0"
    assert take(ahead) == ["5-0"]
    assert take_for(ahead, "w", 6) == "6-0"
    assert metastore.counts == [1, 2, 1, 1, 1, 1]


def test_for_numbers_that_do_not_follow_each_other_none_is_opened_ahead(
    ahead: AttemptsAhead, metastore: CountingMetastore
) -> None:
    for number in range(0, 100, 10):
        take_for(ahead, "w", number)
    assert metastore.counts == [1, 2, *[1] * 8]


def test_numbers_may_come_in_another_order(ahead: AttemptsAhead, metastore: CountingMetastore) -> None:
    taken = [take_for(ahead, "w", number) for number in (1, 2, 3, 4, 6, 5, 7)]
    assert taken == ["1-0", "2-0", "2-1", "3-0", "3-2", "3-1", "3-3"]
    assert metastore.counts == [1, 2, 4]


def test_no_number_is_above_the_highest(ahead: AttemptsAhead, metastore: CountingMetastore) -> None:
    last = 2**63 - 1
    assert [take_for(ahead, "w", number) for number in (last - 1, last)] == ["1-0", "2-0"]
    assert metastore.counts == [1, 1]


def test_names_that_are_used_once_are_not_remembered(ahead: AttemptsAhead, clock: StoppedClock) -> None:
    for number in range(100):
        take_for(ahead, f"w{number}", 0)
        clock.sleep(0.1)
    assert len(ahead._ahead) < 20


def test_a_forked_child_uses_none_of_its_parents(
    ahead: AttemptsAhead, metastore: CountingMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(ahead, 2)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert take(ahead) == ["3-0"]
    assert metastore.counts == [1, 2, 1]


def test_threads_never_get_the_same_one(ahead: AttemptsAhead) -> None:
    with ThreadPoolExecutor(8) as pool:
        taken = [attempt for part in pool.map(lambda _: take(ahead, 50), range(8)) for attempt in part]
    assert len(set(taken)) == 400


def test_a_failed_question_leaves_nothing_behind(ahead: AttemptsAhead, metastore: CountingMetastore) -> None:
    metastore.is_dropped = True
    with pytest.raises(NotFound):
        take(ahead)
    metastore.is_dropped = False
    assert take(ahead) == ["1-0"]
