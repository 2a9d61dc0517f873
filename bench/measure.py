"""Measuring: wall time, CPU seconds and peak memory of the whole process tree, ours and the reference in turn.

Objectives, admittedly conflicting: (1) a figure must mean the same on a noisy machine tomorrow, so it is a ratio of
two things measured side by side, A B A B, as a median with its extremes; (2) a run must not take long; (3) a wrong
answer voids a figure.
"""

from __future__ import annotations

import gc
import statistics
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import psutil

SAMPLE_INTERVAL_S = 0.02


class WrongAnswerError(Exception):
    """Ours and the reference gave different answers: the figure is void."""


@dataclass(frozen=True)
class Sample:
    """One run of the process tree: wall and CPU seconds, and peak resident memory in bytes."""

    wall_s: float
    cpu_s: float
    peak_rss_bytes: int


@dataclass(frozen=True)
class Figure:
    """One line of a result, as BENCH results are exchanged.

    Args:
        name: What was measured.
        unit: Of `ours` and `reference`.
        ours: Median.
        reference: Median; None where there is nothing to compare with.
        ratio: How many times faster ours is (above 1: faster); None without a reference.
        min: Lowest ratio of a pair (or lowest `ours` without a reference).
        max: Highest.
        n: Pairs (or runs).
        target: What was aimed at; None where nothing was.
        met: Whether it was reached.
        ours_cpu_s: Median CPU seconds of ours, process tree.
        reference_cpu_s: Of the reference.
        ours_peak_mib: Highest resident memory seen in ours, process tree.
        reference_peak_mib: Of the reference.
    """

    name: str
    unit: str
    ours: float
    reference: float | None
    ratio: float | None
    min: float
    max: float
    n: int
    target: float | None = None
    met: bool | None = None
    ours_cpu_s: float | None = None
    reference_cpu_s: float | None = None
    ours_peak_mib: float | None = None
    reference_peak_mib: float | None = None


@dataclass
class _TreeWatch:
    """Samples the process tree's memory while a run goes on."""

    stop: threading.Event = field(default_factory=threading.Event)
    peak: int = 0

    def run(self) -> None:
        root = psutil.Process()
        while not self.stop.wait(SAMPLE_INTERVAL_S):
            self.peak = max(self.peak, sum(_rss(p) for p in (root, *root.children(recursive=True))))


def _rss(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _tree_cpu_s() -> float:
    root = psutil.Process()
    total = 0.0
    for process in (root, *root.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def sample(work: Callable[[], Hashable]) -> tuple[Sample, Hashable]:
    """Runs some work once and tells what it took and what it answered."""
    gc.collect()
    watch = _TreeWatch()
    thread = threading.Thread(target=watch.run, daemon=True)
    cpu, begin = _tree_cpu_s(), time.perf_counter()
    thread.start()
    try:
        answer = work()
    finally:
        wall = time.perf_counter() - begin
        watch.stop.set()
        thread.join()
    return Sample(wall, max(0.0, _tree_cpu_s() - cpu), watch.peak), answer


def compare(
    name: str,
    ours: Callable[[], Hashable],
    reference: Callable[[], Hashable],
    *,
    pairs: int = 5,
    warm_ups: int = 1,
    target: float | None = None,
    same_answer: bool = True,
) -> Figure:
    """Measures ours and the reference in turn: A B A B ...

    Args:
        name: What is measured.
        ours: Does the work and returns its answer (a count, an order-free hash, or both).
        reference: The same work done otherwise.
        pairs: How many pairs count.
        warm_ups: Pairs before that, not counted.
        target: The ratio aimed at.
        same_answer: Compare the answers; off only where a workload checks them in its own way.

    Raises:
        WrongAnswerError: The answers differ.
    """
    runs: list[tuple[Sample, Sample]] = []
    for turn in range(warm_ups + pairs):
        mine, answer = sample(ours)
        other, expected = sample(reference)
        if same_answer and answer != expected:
            raise WrongAnswerError(f"{name}: ours answered {answer!r}, the reference {expected!r}")
        if turn >= warm_ups:
            runs.append((mine, other))
    ratios = [other.wall_s / mine.wall_s for mine, other in runs]
    ratio = statistics.median(ratios)
    return Figure(
        name,
        "s",
        statistics.median(m.wall_s for m, _ in runs),
        statistics.median(o.wall_s for _, o in runs),
        ratio,
        min(ratios),
        max(ratios),
        len(runs),
        target,
        None if target is None else ratio >= target,
        statistics.median(m.cpu_s for m, _ in runs),
        statistics.median(o.cpu_s for _, o in runs),
        max(m.peak_rss_bytes for m, _ in runs) / 2**20,
        max(o.peak_rss_bytes for _, o in runs) / 2**20,
    )


def absolute(name: str, unit: str, values: list[float], *, target: float | None = None, at_most: bool = True) -> Figure:
    """A figure without a reference: the median of some values, to stay below (or above) a target."""
    middle = statistics.median(values)
    met = None if target is None else (middle <= target if at_most else middle >= target)
    return Figure(name, unit, middle, None, None, min(values), max(values), len(values), target, met)


def ratio_of_rates(
    name: str,
    unit: str,
    ours: Callable[[], float],
    reference: Callable[[], float],
    *,
    pairs: int = 5,
    target: float | None = None,
) -> Figure:
    """Like `compare` for work that tells its own rate (more is better); one pair of warm-up runs is not counted."""
    runs = [(ours(), reference()) for _ in range(pairs + 1)][1:]
    ratios = [mine / other for mine, other in runs]
    ratio = statistics.median(ratios)
    return Figure(
        name,
        unit,
        statistics.median(mine for mine, _ in runs),
        statistics.median(other for _, other in runs),
        ratio,
        min(ratios),
        max(ratios),
        len(runs),
        target,
        None if target is None else ratio >= target,
    )
