"""What becomes of errors of one table's publisher, and of steps that do not come back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import structlog

from lakelog.errors import (
    Fenced,
    HistoryDiverged,
    InvalidArgument,
    LakelogError,
    NotFound,
    OutcomeUnknown,
    Unavailable,
)
from lakelog.format.log.state import PublishReport, PublishState
from writer.publishing.metrics import PublisherMetrics
from writer.publishing.publisher import Published, Step
from writer.publishing.runner import TableRunner
from writer.publishing.watchdog import STUCK, Watchdog

_TABLE = "0" * 32


class _Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.time_s = 100.0

    def monotonic_s(self) -> float:
        return self.time_s

    def now_ms(self) -> int:
        return int(self.time_s * 1000)

    def sleep(self, seconds: float) -> None:
        self.time_s += seconds


class _Publisher:
    """Fails as it is told to, then publishes."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.published = Published()
        self.waiting_count = 0
        self.position = PublishState(_TABLE, 1, 3, "u3", 0, "", (), 3, 0)

    def step(self, _wait_s: float) -> Step:
        if self.failures:
            raise self.failures.pop(0)
        return Step.PUBLISHED

    def forget(self) -> None:
        """Nothing is open."""


@dataclass
class _Metastore:
    """Holds a log's state, and whether the lease is still ours."""

    is_ours: bool = True
    reports: list[PublishReport] = field(default_factory=list)

    epoch = 4

    def get_publish_state(self, table_uuid: str) -> PublishState:
        return PublishState(table_uuid, 2, 3, "u3", 7, "u4", (5,), 9, 1)

    def report_published(self, report: PublishReport) -> None:
        self.reports.append(report)

    def check(self) -> None:
        if not self.is_ours:
            raise Fenced("Another holds the lease.")

    def release(self) -> None:
        self.is_ours = False


def _runner(publisher: Any, metastore: Any, clock: _Clock | None = None) -> TableRunner:
    clock = clock or _Clock()
    log = structlog.get_logger()
    watchdog = Watchdog(60.0, clock, log, leave=lambda _: None)
    return TableRunner("shop.orders", _TABLE, publisher, metastore, metastore, clock, watchdog, PublisherMetrics(), log)


@pytest.mark.parametrize("error", [Unavailable("away"), OutcomeUnknown("?"), Fenced("a newer producer")])
def test_what_may_pass_is_tried_again_soon_and_later(error: LakelogError) -> None:
    metastore = _Metastore()
    runner = _runner(_Publisher(*[error] * 9), metastore)
    pauses = [runner.step(0.0) for _ in range(10)]
    assert pauses[:3] == [0.05, 0.1, 0.2]
    assert pauses[8:] == [5.0, 0.0]
    assert metastore.reports == []


def test_what_lasts_is_reported_once_and_keeps_what_was_published() -> None:
    metastore, clock = _Metastore(), _Clock()
    runner = _runner(_Publisher(*[Unavailable("no broker answers")] * 4), metastore, clock)
    for _ in range(4):
        runner.step(0.0)
        clock.sleep(6.0)
    assert metastore.reports == [
        PublishReport(
            _TABLE, 2, 4, next_index=7, next_uuid="u4", problem="no broker answers", problem_reason="UNAVAILABLE"
        )
    ]


class _StartsOnly(_Publisher):
    """Starts afresh, which takes back what was told, and fails, again and again."""

    def __init__(self, count: int, metastore: _Metastore) -> None:
        super().__init__(*[Unavailable("no record is taken")] * count)
        self._metastore = metastore
        self._is_started = False

    def step(self, wait_s: float) -> Step:
        self._is_started = not self._is_started
        if not self._is_started:
            return super().step(wait_s)
        self._metastore.report_published(PublishReport(_TABLE, 2, 4))
        return Step.STARTED


def test_what_lasts_is_reported_though_each_fresh_start_is_well() -> None:
    metastore, clock = _Metastore(), _Clock()
    runner = _runner(_StartsOnly(5, metastore), metastore, clock)
    pauses, problems = [], []
    for _ in range(10):
        pauses.append(runner.step(0.0))
        problems.append(metastore.reports[-1].problem)
        clock.sleep(3.0)
    assert pauses == [0.0, 0.05, 0.0, 0.1, 0.0, 0.2, 0.0, 0.4, 0.0, 0.8]
    # By the end of each failed try, once it has lasted for ten seconds.
    assert problems == ["", "", "", "", "", *["no record is taken", ""] * 2, "no record is taken"]


def test_what_a_person_must_mend_is_reported_at_once_and_tried_now_and_then() -> None:
    metastore = _Metastore()
    runner = _runner(_Publisher(InvalidArgument("row 7 is larger than the topic takes")), metastore)
    assert runner.step(0.0) == 5.0
    assert [report.problem for report in metastore.reports] == ["row 7 is larger than the topic takes"]
    assert runner.step(0.0) == 0.0


def test_a_divergence_is_believed_when_it_is_found_twice_in_a_row() -> None:
    metastore, cut = _Metastore(), HistoryDiverged("the topic was cut")
    runner = _runner(_Publisher(cut, Unavailable("away"), cut, cut), metastore)
    reported = []
    for _ in range(4):
        runner.step(0.0)
        reported.append(len(metastore.reports))
    assert reported == [0, 0, 0, 1]


def test_a_defect_is_reported_and_does_not_end_it() -> None:
    metastore = _Metastore()
    runner = _runner(_Publisher(ValueError("seven"), ZeroDivisionError()), metastore)
    assert [runner.step(0.0) for _ in range(3)] == [5.0, 5.0, 0.0]
    assert metastore.reports[0].problem == "The publisher has failed: ValueError: seven"


class _Broken(_Publisher):
    """Cannot even be left."""

    def forget(self) -> None:
        raise ValueError("seven")


@pytest.mark.parametrize("make", [_Publisher, _Broken])
def test_the_lease_is_given_back_whatever_ends_it(make: type[_Publisher]) -> None:
    metastore = _Metastore()
    runner = _runner(make(NotFound("dropped", reason="TABLE_NOT_FOUND")), metastore)
    runner.start()
    runner.join(10)
    assert not runner.is_running
    assert not metastore.is_ours


def test_a_divergence_is_believed_when_it_is_found_again() -> None:
    metastore = _Metastore()
    runner = _runner(_Publisher(*[HistoryDiverged("restored")] * 2), metastore)
    assert runner.step(0.0) == 0.05
    assert metastore.reports == []
    assert runner.step(0.0) == 5.0
    assert [report.problem for report in metastore.reports] == ["restored"]


def test_any_process_that_is_fenced_and_lost_the_lease_ends() -> None:
    metastore = _Metastore(is_ours=False)
    assert _runner(_Publisher(Fenced("a newer producer")), metastore).step(0.0) is None


@pytest.mark.parametrize("reason", ["TABLE_NOT_FOUND", "LOG_NOT_FOUND"])
def test_ends_with_the_table(reason: str) -> None:
    assert _runner(_Publisher(NotFound("gone", reason=reason)), _Metastore()).step(0.0) is None


def test_a_topic_that_is_gone_is_reported_and_does_not_end_it() -> None:
    metastore = _Metastore()
    assert _runner(_Publisher(NotFound("no topic", reason="TOPIC_NOT_FOUND")), metastore).step(0.0) == 5.0
    assert [report.problem for report in metastore.reports] == ["no topic"]


def test_a_step_that_does_not_come_back_ends_the_process() -> None:
    clock, left = _Clock(), list[int]()
    watchdog = Watchdog(60.0, clock, structlog.get_logger(), leave=left.append)
    watchdog.begin("a.b")
    clock.sleep(59.0)
    watchdog.poll()
    assert left == []
    watchdog.end("a.b")
    watchdog.begin("a.b")
    clock.sleep(61.0)
    watchdog.poll()
    assert left == [STUCK]


def test_too_much_that_was_left_behind_ends_the_process() -> None:
    hanging, left = [200], list[int]()
    watchdog = Watchdog(60.0, _Clock(), structlog.get_logger(), leave=left.append, count_hanging=lambda: hanging[0])
    watchdog.poll()
    assert left == []
    hanging[0] += 1
    watchdog.poll()
    assert left == [STUCK]
