"""A clock that ignores steps back."""

from __future__ import annotations

import pytest

from lakelog.clock import ForwardClock


class Stepped:
    def __init__(self) -> None:
        self.wall_ms = 1_000_000
        self.passed_s = 50.0

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic_s(self) -> float:
        return self.passed_s

    def sleep(self, seconds: float) -> None:
        self.wall_ms += int(seconds * 1000)
        self.passed_s += seconds


@pytest.mark.parametrize("is_forward", [True, False], ids=["protected", "control"])
def test_ages_do_not_seem_too_young_after_a_step_back(is_forward: bool) -> None:
    clock = Stepped()
    of_reader = ForwardClock(clock) if is_forward else clock
    sent_ms = of_reader.now_ms()
    clock.sleep(60)
    clock.wall_ms -= 3_600_000
    assert of_reader.now_ms() - sent_ms == (60_000 if is_forward else 60_000 - 3_600_000)


def test_it_follows_steps_forward_and_goes_on_after_steps_back() -> None:
    clock = Stepped()
    forward = ForwardClock(clock)
    assert forward.now_ms() == 1_000_000
    clock.sleep(2)
    assert forward.now_ms() == 1_002_000
    clock.wall_ms -= 3_600_000
    clock.sleep(1)
    assert forward.now_ms() == 1_003_000
    clock.wall_ms += 7_200_000
    assert forward.now_ms() == 4_603_000
    clock.sleep(1)
    assert forward.now_ms() == 4_604_000
