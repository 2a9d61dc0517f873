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
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import psutil

SAMPLE_INTERVAL_S = 0.05
LISTING_INTERVAL_S = 0.5
"""Listing all processes takes milliseconds that would be missing in the work itself; to ask known ones does not."""

Work = Callable[[], Hashable]
"""Does some work and returns its answer: a count, an order-free hash, or both. It may return a function instead, which
is called when the clock has stopped: what it returns is the answer, and there is the place to clear away."""


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
        aim: The target in words, for a target is sometimes of `ratio` and sometimes of `ours`.
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
    aim: str | None = None


class _TreeWatch:
    """Samples the process tree's memory while a run goes on; the first time when it is made."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self._list()
        self.peak = self._resident()

    def run(self) -> None:
        while not self.stop.wait(SAMPLE_INTERVAL_S):
            if time.monotonic() - self._listed_s >= LISTING_INTERVAL_S:
                self._list()
            self.peak = max(self.peak, self._resident())

    def _list(self) -> None:
        root = psutil.Process()
        self._tree = [root, *root.children(recursive=True)]
        self._listed_s = time.monotonic()

    def _resident(self) -> int:
        return sum(map(_rss, self._tree))


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


def sample(work: Work) -> tuple[Sample, Hashable]:
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
    taken = Sample(wall, max(0.0, _tree_cpu_s() - cpu), watch.peak)
    return taken, answer() if callable(answer) else answer


def compare(
    name: str,
    ours: Work,
    reference: Work,
    *,
    pairs: int = 5,
    warm_ups: int = 1,
    target: float | None = None,
    same_answer: bool = True,
) -> Figure:
    """Measures ours and the reference in turn: A B A B ...

    Args:
        name: What is measured.
        ours: The work.
        reference: The same work done otherwise.
        pairs: How many pairs count.
        warm_ups: Pairs before that, not counted.
        target: The ratio aimed at.
        same_answer: Compare the answers; off only where a workload checks them in its own way.

    Raises:
        WrongAnswerError: The answers differ.
    """
    variants = {name: (ours, target)}
    return compare_variants(variants, reference, pairs=pairs, warm_ups=warm_ups, same_answer=same_answer)[0]


def compare_variants(
    variants: Mapping[str, tuple[Work, float | None]],
    reference: Work,
    *,
    pairs: int = 5,
    warm_ups: int = 1,
    same_answer: bool = True,
) -> list[Figure]:
    """As `compare`, for several ways of ours with one reference: A B C A B C ...

    Args:
        variants: The ways by name, and the ratio aimed at.
        reference: The same work done otherwise.
        pairs: How many runs of each count.
        warm_ups: Runs of each before that, not counted.
        same_answer: See `compare`.

    Raises:
        WrongAnswerError: An answer differs from the reference's.
    """
    mine: dict[str, list[Sample]] = {name: [] for name in variants}
    others: list[Sample] = []
    for turn in range(warm_ups + pairs):
        taken = {name: sample(work) for name, (work, _) in variants.items()}
        other, expected = sample(reference)
        for name, (run, answer) in taken.items():
            if same_answer and answer != expected:
                raise WrongAnswerError(f"{name}: ours answered {answer!r}, the reference {expected!r}")
            if turn >= warm_ups:
                mine[name].append(run)
        if turn >= warm_ups:
            others.append(other)
    return [_compared(name, mine[name], others, target) for name, (_, target) in variants.items()]


def _compared(name: str, mine: Sequence[Sample], others: Sequence[Sample], target: float | None) -> Figure:
    ratios = [other.wall_s / own.wall_s for own, other in zip(mine, others, strict=True)]
    ratio = statistics.median(ratios)
    return Figure(
        name,
        "s",
        statistics.median(own.wall_s for own in mine),
        statistics.median(other.wall_s for other in others),
        ratio,
        min(ratios),
        max(ratios),
        len(mine),
        target,
        None if target is None else ratio >= target,
        statistics.median(own.cpu_s for own in mine),
        statistics.median(other.cpu_s for other in others),
        max(own.peak_rss_bytes for own in mine) / 2**20,
        max(other.peak_rss_bytes for other in others) / 2**20,
        aim=ratio_aim(target),
    )


def ratio_aim(target: float | None) -> str | None:
    """A target of a ratio in words."""
    return None if target is None else f">= {target:g} x"


def absolute(name: str, unit: str, values: list[float], *, target: float | None = None, at_most: bool = True) -> Figure:
    """A figure without a reference: the median of some values, to stay below (or above) a target."""
    middle = statistics.median(values)
    met = None if target is None else (middle <= target if at_most else middle >= target)
    aim = None if target is None else f"{'<=' if at_most else '>='} {target:g} {unit}".rstrip()
    return Figure(name, unit, middle, None, None, min(values), max(values), len(values), target, met, aim=aim)


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
        aim=ratio_aim(target),
    )
