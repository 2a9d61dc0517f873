"""Which refusals have a log line, what is logged of the others, and the memory that this takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakelog.serving.edge import refusal_lines
from lakelog.serving.edge.refusal_lines import (
    BURST,
    BURST_OF_FIRSTS,
    FIRST_AGAIN_S,
    FIRST_LINES,
    LINES_A_SECOND,
    REPORT_EVERY_S,
    RefusalLines,
    to_address,
)

TOKEN, OWNER = "UNAUTHENTICATED", "NOT_OWNER"


class Process:
    """Lines of a process whose time the test makes pass."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.reported: list[dict[str, Any]] = []
        self._due: list[tuple[float, Callable[[], None]]] = []
        self.lines = RefusalLines(self, lambda: self.now_s, self._call_later)

    def warning(self, event: str, **fields: Any) -> None:
        assert event == "refusals without a line"
        self.reported.append(fields)

    def _call_later(self, after_s: float, call: Callable[[], None]) -> None:
        self._due.append((self.now_s + after_s, call))

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        due, self._due = self._due, [each for each in self._due if each[0] > self.now_s]
        for at_s, call in due:
            if at_s <= self.now_s:
                call()

    def refuse(self, count: int, reason: str = TOKEN, caller: str = "10.0.0.1") -> int:
        """How many of some refusals have a line."""
        return sum(self.lines.admit(reason, caller) for _ in range(count))


@pytest.fixture
def process() -> Process:
    return Process()


def test_a_flood_has_a_burst_of_lines_and_then_some_a_second(process: Process) -> None:
    lines = process.refuse(1000)
    assert lines == BURST
    for _ in range(60):
        process.sleep(1)
        lines += process.refuse(1000)
    assert lines == BURST + 60 * LINES_A_SECOND
    process.sleep(1)
    assert len(process.reported) == 61, "one line a second"
    assert sum(each["count"] for each in process.reported) + lines == 61_000, "each has a line or is counted"
    assert process.reported[-1] == {
        "count": 995,
        "reasons": {TOKEN: 995},
        "callers": {"10.0.0.1": 995},
        "of_other_callers": 0,
    }
    process.sleep(100)
    assert len(process.reported) == 61, "and none without refusals"
    assert process.refuse(1000) == BURST


def test_few_refusals_all_have_lines(process: Process) -> None:
    for _ in range(1000):
        assert process.refuse(1)
        process.sleep(1 / LINES_A_SECOND)
    process.sleep(10)
    process.lines.report()
    assert process.reported == []


def test_the_first_refusals_of_a_caller_have_lines_in_any_flood(process: Process) -> None:
    process.refuse(10_000)
    assert process.refuse(10, caller="10.6.6.6") == FIRST_LINES
    # Also for another reason, and again after a while.
    assert process.refuse(10_000, OWNER, "bob") == BURST
    assert process.refuse(10, OWNER, "10.6.6.6") == FIRST_LINES
    process.sleep(FIRST_AGAIN_S / 2)
    process.refuse(10_000)
    assert process.refuse(10, caller="10.6.6.6") == 0
    process.sleep(FIRST_AGAIN_S / 2)
    process.refuse(10_000)
    assert process.refuse(10, caller="10.6.6.6") == FIRST_LINES


def test_control_without_first_lines_a_flood_hides_another_caller(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusal_lines, "FIRST_LINES", 0)
    process.refuse(10_000)
    assert process.refuse(10, caller="10.6.6.6") == 0


def test_reasons_do_not_take_each_others_lines(process: Process) -> None:
    process.refuse(10_000)
    assert process.refuse(50, OWNER, "bob") == 50


def test_a_flood_from_many_addresses_has_bounded_lines_and_memory(process: Process) -> None:
    callers = [f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}" for n in range(10_000)]
    lines = sum(process.refuse(1, caller=each) for each in callers)
    assert lines == BURST + BURST_OF_FIRSTS
    process.refuse(5000, caller=callers[-1])
    assert len(process.lines._lines) <= 5000
    assert len(process.lines._left_out_of) <= 1000
    process.sleep(REPORT_EVERY_S)
    (reported,) = process.reported
    assert len(reported["callers"]) == 5
    assert reported["count"] == sum(reported["callers"].values()) + reported["of_other_callers"] == 15_000 - lines
    # Over an hour.
    for _ in range(180):
        process.sleep(20)
        lines += sum(process.refuse(1, caller=each) for each in callers[:500])
    assert lines <= 2 * 3600 * LINES_A_SECOND + BURST + BURST_OF_FIRSTS
    assert len(process.lines._lines) <= 5000


def test_the_callers_with_most_refusals_are_named(process: Process) -> None:
    process.refuse(1000)
    process.sleep(REPORT_EVERY_S)
    for number in range(20):
        process.refuse(10 + number, caller=f"10.1.1.{number}")
    process.sleep(REPORT_EVERY_S)
    assert set(process.reported[-1]["callers"]) == {f"10.1.1.{number}" for number in range(15, 20)}


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.0.0.7:50712", "10.0.0.7"),
        ("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:50712", "2001:db8:1:2::/64"),
        ("ipv6:[2001:db8:1:2::9]:50712", "2001:db8:1:2::/64"),
        ("ipv6:%5Bfe80::1%25eth0%5D:50712", "fe80::/64"),
        ("ipv6:%5B::ffff:10.0.0.7%5D:50712", "10.0.0.7"),
        ("unix:/run/lakelog.sock", "unix:/run/lakelog.sock"),
        ("test", "test"),
        ("", ""),
    ],
)
def test_addresses(peer: str, address: str) -> None:
    assert to_address(peer) == address
