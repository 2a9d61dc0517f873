from __future__ import annotations

import itertools

import pytest

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
        self.fails = False
        self.final_words: str | None = None
        self.waiting_words: str | None = None
        self.ending = "ended with exit code 1"

    def start(self) -> None:
        self.events.append(f"start {self.name}")
        if self.fails:
            raise Unavailable(f"{self.name} does not start")
        self.is_running = True

    def stop(self) -> None:
        self.events.append(f"stop {self.name}")
        self.is_running = False


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


def restart_times(fake: Fake, supervisor: Supervisor, clock: Time, for_s: float) -> list[float]:
    """Lets the component die as soon as it is started; returns when it was started, seconds from now."""
    began, times = clock.seconds, []
    while clock.seconds < began + for_s:
        count = len(fake.events)
        fake.is_running = False
        supervisor.step()
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
        supervisor.step()
        clock.sleep(0.25)
    clock.sleep(61)
    supervisor.step()
    assert restart_times(fake, supervisor, clock, 0.75) == [0.5]


def test_what_runs_is_left_alone() -> None:
    clock = Time()
    fake = Fake("a", [])
    supervisor = Supervisor([fake], clock=clock)
    supervisor.start()
    for _ in range(100):
        supervisor.step()
        clock.sleep(1)
    assert fake.events == ["start a"]


def test_what_ended_for_good_is_told_once_and_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    clock = Time()
    fake = Fake("a", [])
    supervisor = Supervisor([fake], clock=clock)
    supervisor.start()
    fake.is_running, fake.final_words = False, "its file is wrong."
    for _ in range(400):
        supervisor.step()
        clock.sleep(0.25)
    assert fake.events == ["start a"]
    assert [record.getMessage() for record in caplog.records] == [
        "a ended and is not started again: its file is wrong."
    ]
    # Somebody brought it back: from then on it is looked after again.
    fake.start()
    supervisor.step()
    fake.is_running, fake.final_words = False, None
    for _ in range(4):
        supervisor.step()
        clock.sleep(0.25)
    assert fake.events == ["start a"] * 3


def test_what_waits_for_somebody_is_tried_again_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = Time()
    fake = Fake("a", [])
    supervisor = Supervisor([fake], clock=clock)
    supervisor.start()
    fake.waiting_words = "its table does not exist."
    assert len(restart_times(fake, supervisor, clock, 100)) > 5
    # Made meanwhile: it stays from now on.
    while clock.seconds < 1400:
        supervisor.step()
        clock.sleep(0.25)
    assert [record.getMessage() for record in caplog.records] == [
        "a ended and is tried again now and then: its table does not exist.",
        "a runs",
    ]


def test_how_it_ended_is_told(caplog: pytest.LogCaptureFixture) -> None:
    clock = Time()
    fake = Fake("a", [])
    supervisor = Supervisor([fake], clock=clock)
    supervisor.start()
    fake.is_running, fake.ending = False, "was killed by signal 9 (SIGKILL)"
    for _ in range(4):
        supervisor.step()
        clock.sleep(0.25)
    assert [record.getMessage() for record in caplog.records] == [
        "a was killed by signal 9 (SIGKILL); it is started again in 0.5 s",
        "a was started again",
    ]
