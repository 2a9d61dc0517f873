"""Topics of many tables are looked at together: how often, by whom, and what a look does not tell."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from lakelog.clock import SystemClock
from lakelog.errors import LakelogError, Unavailable
from lakelog.format.log.state import LogInfo
from lakelog.format.tables.table import TableName
from lakelog.log.records import TopicState
from writer.publishing.topics.monitor import POLL_EVERY_S, TopicMonitor

LOGIN = {"kafka.bootstrap.servers": "a:1", "kafka.sasl.password": "secret:first"}


class Clock(SystemClock):
    """Time that passes when it is told to."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s


class Brokers:
    """Counts who connects and what is asked; answers as it is told to."""

    def __init__(self) -> None:
        self.opened: list[LogInfo] = []
        self.closed = 0
        self.asked: list[list[str]] = []
        self.answer: Callable[[Sequence[str]], dict[str, TopicState | None]] = dict.fromkeys

    def open_log(self, info: LogInfo) -> Any:
        self.opened.append(info)
        return self

    def open_admin(self) -> Any:
        return self

    def find_topics(self, names: Sequence[str]) -> dict[str, TopicState | None]:
        self.asked.append(list(names))
        return self.answer(names)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def looks(brokers: Brokers, clock: Clock) -> TopicMonitor:
    return TopicMonitor(brokers.open_log, clock)


def make_log(topic: str, options: Mapping[str, str] = LOGIN) -> LogInfo:
    return LogInfo("0" * 32, TableName("shop", topic), topic, "id", 1, 0, False, options)


def test_one_question_over_one_connection_for_a_hundred_tables(
    looks: TopicMonitor, brokers: Brokers, clock: Clock
) -> None:
    """What only producers are told makes no difference; where the login is another, others are asked."""
    logs = [make_log(f"t{number:03}", {**LOGIN, "kafka.linger.ms": str(number)}) for number in range(250)]
    others = make_log("t0", {**LOGIN, "kafka.sasl.password": "secret:second"})
    opened = [looks.open(each) for each in (*logs, others)]
    assert [each.poll() for each in opened] == [None] * 251
    assert not brokers.opened
    for count in (1, 2, 3):
        clock.now_s += POLL_EVERY_S
        reported = [each.poll() for each in opened] + [each.poll() for each in opened]
        assert (reported.count((None,)), reported.count(None)) == (251, 251), "each is told once"
        assert [each.poll() for each in opened] == [None] * 251
        assert len(brokers.opened) == 2
        assert len(brokers.asked) == 4 * count
    names = [each.topic for each in logs]
    assert brokers.asked[:4] == [names[:100], names[100:200], names[200:], ["t0"]]
    for each in opened:
        each.close()
        each.close()
    assert brokers.closed == 2


def test_where_asking_for_all_takes_longer_the_last_have_their_turn_too(
    looks: TopicMonitor, brokers: Brokers, clock: Clock
) -> None:
    opened = [looks.open(make_log(f"t{number:03}")) for number in range(150)]
    for _ in range(3):
        clock.now_s += POLL_EVERY_S
        opened[0].poll()
    assert [each[0] for each in brokers.asked] == ["t000", "t100", "t000"]


def test_who_is_closed_is_not_asked_for(looks: TopicMonitor, brokers: Brokers, clock: Clock) -> None:
    first, second = looks.open(make_log("a")), looks.open(make_log("b"))
    first.close()
    clock.now_s += POLL_EVERY_S
    second.poll()
    assert brokers.asked == [["b"]]


def test_no_one_waits_for_who_asks_and_who_starts_meanwhile_receives_nothing_old(
    looks: TopicMonitor, brokers: Brokers, clock: Clock
) -> None:
    asked, answer = threading.Event(), threading.Event()

    def wait(names: Sequence[str]) -> dict[str, TopicState | None]:
        asked.set()
        assert answer.wait(10)
        return dict.fromkeys(names)

    brokers.answer = wait
    first, second = looks.open(make_log("a")), looks.open(make_log("b"))
    clock.now_s += POLL_EVERY_S
    found: list[tuple[TopicState | None] | None] = []
    asking = threading.Thread(target=lambda: found.append(first.poll()), daemon=True)
    asking.start()
    assert asked.wait(10)
    clock.now_s += 10 * POLL_EVERY_S
    assert second.poll() is None, "it would have waited"
    second.close()
    second = looks.open(make_log("b"))
    answer.set()
    asking.join(10)
    assert found == [(None,)]
    clock.now_s = POLL_EVERY_S
    assert second.poll() is None, "that was before its start"
    assert len(brokers.asked) == 1


def test_brokers_that_do_not_answer_say_nothing_and_are_connected_to_again(
    looks: TopicMonitor, brokers: Brokers, clock: Clock
) -> None:
    def fail(names: Sequence[str]) -> dict[str, TopicState | None]:
        raise Unavailable("No broker answers.")

    monitored = looks.open(make_log("a"))
    opened = [looks.open(make_log(f"b{number}")) for number in range(100)]
    brokers.answer = fail
    clock.now_s += POLL_EVERY_S
    assert monitored.poll() is None
    assert [each.poll() for each in opened] == [None] * 100
    assert (len(brokers.opened), brokers.closed, len(brokers.asked)) == (1, 1, 1), "one of them waits, not each"
    brokers.answer = dict.fromkeys
    assert monitored.poll() is None, "not before it is time again"
    clock.now_s += POLL_EVERY_S
    assert monitored.poll() == (None,)
    assert len(brokers.opened) == 2


def test_credentials_that_are_not_there_say_nothing(brokers: Brokers, clock: Clock) -> None:
    def refuse(info: LogInfo) -> Any:
        raise LakelogError("no such secret")

    monitored = TopicMonitor(refuse, clock).open(make_log("a"))
    clock.now_s += POLL_EVERY_S
    assert monitored.poll() is None
