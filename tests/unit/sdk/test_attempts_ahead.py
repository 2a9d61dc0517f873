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
from lakelog.writes.attempts_ahead import AttemptsAhead

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
        self.is_dropped = False
        self._lock = threading.Lock()

    def stage_attempt(
        self, table_uuids: Sequence[str], writer: str, *, attempt_id: str = "", count: int = 1
    ) -> StagedAttempt:
        if self.is_dropped:
            raise NotFound("gone")
        with self._lock:
            self.counts.append(count)
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
    return [ahead.take(INFO.table_uuid, "w").attempt_id for _ in range(times)]


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
    ahead.take("2" * 32, "w")
    assert take(ahead) == ["2-1"]
    assert metastore.counts == [1, 2, 1]


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
