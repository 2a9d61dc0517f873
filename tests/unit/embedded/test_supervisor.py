from __future__ import annotations

import itertools
import threading
import time

import pytest

import lakelog.embedded.supervisor as supervisor_module
from lakelog.embedded.supervisor import Supervisor
from lakelog.errors import Unavailable


class Time:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic_s(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


class Fake:
    def __init__(self, name: str, events: list[str]) -> None:
        self.name = name
        self.events = events
        self.is_running = False
        self.pid: int | None = None
        self.fails = False
        self.final_words: str | None = None
        self.waiting_words: str | None = None
        self.exit_reason = "ended with exit code 1"

    def start(self) -> None:
        self.events.append(f"start {self.name}")
        if self.fails:
            raise Unavailable(f"{self.name} does not start")
        self.is_running = True

    def stop(self) -> None:
        self.events.append(f"stop {self.name}")
        self.is_running = False

    def kill(self) -> None:
        self.is_running = False


class Slow(Fake):
    """Once it has run, its start lasts until it is let go on or killed."""

    def __init__(self, name: str, events: list[str]) -> None:
        super().__init__(name, events)
        self.go_on = threading.Event()
        self.was_killed = False

    def start(self) -> None:
        if f"start {self.name}" not in self.events:
            super().start()
            return
        self.events.append(f"start {self.name}")
        self.is_running = True
        assert self.go_on.wait(30)
        if self.was_killed:
            raise Unavailable(f"{self.name} was killed before it was ready")

    def kill(self) -> None:
        super().kill()
        self.was_killed = True
        self.go_on.set()


def test_starts_in_order_and_stops_in_reverse() -> None:
    events: list[str] = []
    supervisor = Supervisor([Fake("a", events), Fake("b", events)], clock=Time())
    supervisor.start()
    supervisor.stop()
    assert events == ["start a", "start b", "stop b", "stop a"]


def test_a_failing_start_stops_what_runs() -> None:
    events: list[str] = []
    one, two = Fake("a", events), Fake("b", events)
    two.fails = True
    with pytest.raises(Unavailable, match="b does not start"):
        Supervisor([one, two], clock=Time()).start()
    assert not one.is_running


def look(supervisor: Supervisor) -> None:
    supervisor.step()
    assert supervisor.settle(30)


def restart_times(fake: Fake, supervisor: Supervisor, clock: Time, for_s: float) -> list[float]:
    """Lets the component die as soon as it is started; returns when it was started, seconds from now."""
    began, times = clock.seconds, []
    while clock.seconds < began + for_s:
        count = len(fake.events)
        fake.is_running = False
        look(supervisor)
        if len(fake.events) > count:
            times.append(clock.seconds - began)
        clock.sleep(0.25)
    return times


@pytest.mark.parametrize("fails", [False, True])
def test_deaths_in_a_row_wait_longer_and_longer(fails: bool) -> None:
    clock = Time()
    fake = Fake("a", [])
    supervisor = Supervisor([fake], clock=clock)
    supervisor.start()
    fake.fails = fails
    times = restart_times(fake, supervisor, clock, 130)
    gaps = [round(later - earlier, 2) for earlier, later in itertools.pairwise(times)]
    assert times[0] == 0.5
    # Each gap has one look more than the delay: the one that noticed the death.
    assert gaps == [1.25, 2.25, 4.25, 8.25, 16.25, 30.25, 30.25, 30.25]


def test_a_steady_component_comes_back_at_once_again() -> None:
    clock = Time()
    fake = Fake("a", [])
    supervisor = Supervisor([fake], clock=clock)
    supervisor.start()
    restart_times(fake, supervisor, clock, 20)
    while not fake.is_running:
        look(supervisor)
        clock.sleep(0.25)
    clock.sleep(61)
    look(supervisor)
    assert restart_times(fake, supervisor, clock, 0.75) == [0.5]


def test_what_runs_is_left_alone() -> None:
    clock = Time()
    fake = Fake("a", [])
    supervisor = Supervisor([fake], clock=clock)
    supervisor.start()
    for _ in range(100):
        look(supervisor)
        clock.sleep(1)
    assert fake.events == ["start a"]


def test_what_ended_for_good_is_reported_once_and_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    clock = Time()
    fake = Fake("a", [])
    supervisor = Supervisor([fake], clock=clock)
    supervisor.start()
    fake.is_running, fake.final_words = False, "its file is wrong."
    for _ in range(400):
        look(supervisor)
        clock.sleep(0.25)
    assert fake.events == ["start a"]
    assert [record.getMessage() for record in caplog.records] == [
        "a ended and is not started again: its file is wrong."
    ]
    # Somebody brought it back: from then on it is looked after again.
    fake.start()
    look(supervisor)
    fake.is_running, fake.final_words = False, None
    for _ in range(4):
        look(supervisor)
        clock.sleep(0.25)
    assert fake.events == ["start a"] * 3


def test_what_waits_for_somebody_is_tried_again_and_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = Time()
    fake = Fake("a", [])
    supervisor = Supervisor([fake], clock=clock)
    supervisor.start()
    fake.waiting_words = "its table does not exist."
    assert len(restart_times(fake, supervisor, clock, 100)) > 5
    # Made meanwhile: it stays from now on.
    while clock.seconds < 1400:
        look(supervisor)
        clock.sleep(0.25)
    assert [record.getMessage() for record in caplog.records] == [
        "a ended and is tried again now and then: its table does not exist.",
        "a runs",
    ]


def test_how_it_ended_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    clock = Time()
    fake = Fake("a", [])
    supervisor = Supervisor([fake], clock=clock)
    supervisor.start()
    fake.is_running, fake.exit_reason = False, "was killed by signal 9 (SIGKILL)"
    for _ in range(4):
        look(supervisor)
        clock.sleep(0.25)
    assert [record.getMessage() for record in caplog.records] == [
        "a was killed by signal 9 (SIGKILL); it is started again in 0.5 s",
        "a was started again",
    ]


def die_and_wait(supervisor: Supervisor, clock: Time, *fakes: Fake) -> None:
    """Lets components die, and steps until their next step would start them."""
    for fake in fakes:
        fake.is_running = False
    supervisor.step()
    clock.sleep(0.5)


def begin_slow_start() -> tuple[Slow, Supervisor]:
    """A component that has died and whose start is under way, with its supervisor."""
    clock = Time()
    slow = Slow("kafka", [])
    supervisor = Supervisor([slow], clock=clock)
    supervisor.start()
    die_and_wait(supervisor, clock, slow)
    supervisor.step()
    return slow, supervisor


def test_none_waits_for_the_start_of_another_that_it_does_not_need() -> None:
    clock = Time()
    events: list[str] = []
    slow, other = Slow("kafka", events), Fake("metastore", events)
    supervisor = Supervisor([slow, other], clock=clock)
    supervisor.start()
    die_and_wait(supervisor, clock, slow, other)
    supervisor.step()
    until_s = time.monotonic() + 30
    while not other.is_running:
        assert time.monotonic() < until_s
    assert not supervisor.settle(0)
    # However often it looks: what is about to start is not started once more.
    for _ in range(100):
        supervisor.step()
        clock.sleep(1)
    assert events.count("start kafka") == 2
    assert events.count("start metastore") == 2
    slow.go_on.set()
    assert supervisor.settle(30)
    look(supervisor)
    assert events.count("start kafka") == 2
    assert slow.is_running


def test_what_needs_another_waits_until_that_one_has_started() -> None:
    clock = Time()
    events: list[str] = []
    slow, other = Slow("metastore", events), Fake("publisher", events)
    supervisor = Supervisor([slow, other], needs={"publisher": ["metastore"]}, clock=clock)
    supervisor.start()
    die_and_wait(supervisor, clock, slow, other)
    for _ in range(10):
        supervisor.step()
        clock.sleep(1)
    assert not other.is_running
    slow.go_on.set()
    assert supervisor.settle(30)
    look(supervisor)
    assert other.is_running
    assert events.count("start publisher") == 2


def test_nothing_of_a_start_that_is_under_way_is_left_by_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "_STARTS_END_WITHIN_S", 0.1)
    slow, supervisor = begin_slow_start()
    assert not supervisor.settle(0.1)
    supervisor.stop()
    assert not slow.is_running
    assert slow.events[-1] == "stop kafka"
    assert supervisor.settle(0)


def test_a_start_that_ends_soon_is_not_killed_by_a_stop() -> None:
    slow, supervisor = begin_slow_start()
    threading.Timer(0.2, slow.go_on.set).start()
    supervisor.stop()
    assert not slow.was_killed
    assert slow.events[-1] == "stop kafka"


def test_what_somebody_else_starts_is_not_started_beside_it() -> None:
    clock = Time()
    fake = Fake("a", [])
    supervisor = Supervisor([fake], clock=clock)
    supervisor.start()
    die_and_wait(supervisor, clock, fake)
    with supervisor.holding("a"):
        supervisor.step()
        assert not supervisor.settle(0.2)
        assert fake.events == ["start a"]
    assert supervisor.settle(30)


def test_a_failure_of_another_kind_is_one_more_death(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Fake):
        def start(self) -> None:
            if "start a" in self.events:
                raise OSError("no room")
            super().start()

    clock = Time()
    fake = Broken("a", [])
    supervisor = Supervisor([fake], clock=clock)
    supervisor.start()
    die_and_wait(supervisor, clock, fake)
    look(supervisor)
    look(supervisor)
    assert [record.getMessage() for record in caplog.records] == [
        "a ended with exit code 1; it is started again in 0.5 s",
        "a could not be started again: no room",
        "a ended with exit code 1; it is started again in 1.0 s",
    ]
