"""The harness itself: turns, voided runs, targets, and the table made of results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Hashable
from pathlib import Path

import pytest

from bench.latency import Latencies, measure_latencies
from bench.measure import WrongAnswerError, absolute, compare, compare_variants
from bench.registry import load_workloads
from bench.report import to_markdown, write_json


def test_ours_and_the_reference_run_in_turn_after_a_warm_up() -> None:
    ran = []

    def work(name: str) -> Callable[[], int]:
        def run() -> int:
            ran.append(name)
            return 1

        return run

    figures = compare_variants({"x": (work("a"), None), "y": (work("b"), 1e9)}, work("r"), pairs=2)
    assert ran == ["a", "b", "r"] * 3
    assert [figure.n for figure in figures] == [2, 2]
    assert (figures[0].met, figures[1].met, figures[1].aim) == (None, False, ">= 1e+09 x")


def test_an_answer_may_be_found_when_the_clock_has_stopped() -> None:
    def ours() -> Callable[[], Hashable]:
        return lambda: 7

    assert compare("x", ours, lambda: 7, pairs=1).n == 1
    with pytest.raises(WrongAnswerError, match="ours answered 7, the reference 8"):
        compare("x", ours, lambda: 8, pairs=1)


def test_latencies_are_taken_side_by_side() -> None:
    called = []

    async def first() -> None:
        called.append("a")

    async def second() -> None:
        called.append("b")

    found = asyncio.run(measure_latencies([first, second], turns=2, calls=2))
    assert "".join(called) == "abab" * 3
    assert [len(kind) for kind in found.by_kind] == [2, 2]


def test_a_latency_has_a_target_of_its_own_or_one_of_the_ratio() -> None:
    taken = Latencies(((2.0, 2.2, 2.4), (2.0, 2.0, 2.0)))
    figure = taken.against("grown", 0, 1, at_most_times=1.1)
    assert figure.ratio == pytest.approx(1 / 1.1)
    assert (figure.ours, figure.met, figure.aim) == (2.2, True, "<= 1.1 x its time")
    assert taken.against("grown", 0, 1, at_most_times=1.05).met is False
    assert taken.against("fast", 0, 1, at_most_ms=2.1).met is False


def test_results_become_a_table(tmp_path: Path) -> None:
    file = tmp_path / "W9.json"
    write_json(file, "W9", True, [absolute("p50", "ms", [1.0, 2.0, 9.0], target=1.5)])
    table = to_markdown([json.loads(file.read_text())] * 2).splitlines()
    assert table[2:4] == ["| W9 (quick) | p50 | 2 ms |  |  | 1-9 | 3 | <= 1.5 ms | **missed** |"] * 2
    # What they were taken on stands below it once.
    assert table[4] == ""
    assert len(table) == 6


def test_a_part_can_be_run_by_its_own_name() -> None:
    names = list(load_workloads())
    assert names[:3] == ["W1", "W1-sdk", "W1-spark"]
    assert "W13" in names
