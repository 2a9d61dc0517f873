"""How many calls a second a caller can make: the bucket, its debt, its refusal, and the memory of all buckets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import Unavailable
from lakelog.serving.edge.rates import CallRates


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def rates(clock: Clock, rate: float = 10) -> CallRates:
    return CallRates("calls", "--call-rate", rate, clock)


def take(rates: CallRates, caller: str, count: int) -> int:
    """How many of some calls are allowed."""
    allowed = 0
    for _ in range(count):
        try:
            rates.take(caller)
            allowed += 1
        except Unavailable:
            pass
    return allowed


def test_a_burst_is_allowed_and_then_the_rate() -> None:
    clock = Clock()
    bucket = rates(clock)
    assert take(bucket, "ann", 20) == 20
    clock.now_s += 1
    assert take(bucket, "ann", 10) == 10
    clock.now_s += 60
    assert take(bucket, "ann", 20) == 20


def test_a_refusal_names_caller_limit_wait_and_remedy() -> None:
    clock = Clock()
    bucket = rates(clock)
    take(bucket, "ann", 20)
    with pytest.raises(Unavailable, match="ann makes more than 10 calls a second, which is the limit") as caught:
        bucket.take("ann")
    assert "try again after 150 ms, make fewer calls, or raise --call-rate." in caught.value.message
    assert caught.value.reason == "TOO_MANY_CALLS"
    assert caught.value.metadata == {"limit": "10", "kind_of_call": "calls a second", "wait_ms": "150"}
    clock.now_s += 0.151
    bucket.take("ann")


def test_callers_have_buckets_of_their_own() -> None:
    bucket = rates(Clock())
    assert take(bucket, "ann", 100) == 20
    assert take(bucket, "bob", 100) == 20


def test_a_caller_far_above_its_rate_gets_little_and_is_served_again_half_a_second_after_it_stops() -> None:
    clock = Clock()
    bucket = rates(clock)
    take(bucket, "ann", 20)
    allowed = 0
    for _ in range(1000):
        clock.now_s += 0.01
        allowed += take(bucket, "ann", 1)
    assert allowed == 0
    clock.now_s += 0.61
    assert take(bucket, "ann", 1) == 1


@given(st.lists(st.tuples(st.floats(0, 0.5), st.integers(0, 30)), max_size=40))
def test_no_caller_is_allowed_more_than_burst_and_rate(steps: list[tuple[float, int]]) -> None:
    clock = Clock()
    bucket = rates(clock)
    allowed, began_s = 0, clock.now_s
    for pause_s, count in steps:
        clock.now_s += pause_s
        allowed += take(bucket, "ann", count)
        assert allowed <= 20 + (clock.now_s - began_s) * 10 + 1e-6


def test_full_buckets_take_no_memory() -> None:
    clock = Clock()
    bucket = rates(clock)
    for number in range(20_000):
        clock.now_s += 0.01
        bucket.take(f"c{number}")
    assert bucket.count < 2500
