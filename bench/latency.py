"""Latencies: calls too short to be measured one by one, told in milliseconds.

A turn is some calls of each kind, one kind after the other, so that a pause of the machine meets all of them; its
latency is the median of its calls, and what is told is the median of the turns. CPU and memory are not looked at: to
ask for them takes as long as such a call.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from bench.measure import Figure

Call = Callable[[], Awaitable[object]]


@dataclass(frozen=True)
class Latencies:
    """Medians of turns, in milliseconds, of several kinds of call; those of one place were taken side by side."""

    by_kind: tuple[tuple[float, ...], ...]

    def against(
        self,
        name: str,
        ours: int,
        reference: int,
        *,
        at_most_ms: float | None = None,
        at_most_times: float | None = None,
    ) -> Figure:
        """A figure of two kinds.

        Args:
            name: What was measured.
            ours: The place of ours among the kinds.
            reference: The place of what it is compared with.
            at_most_ms: What ours was to stay below.
            at_most_times: How many times the reference's latency ours was to stay below; at most one of both is given.
        """
        mine, others = self.by_kind[ours], self.by_kind[reference]
        ratios = [other / own for own, other in zip(mine, others, strict=True)]
        ratio, middle = statistics.median(ratios), statistics.median(mine)
        target, met, aim = None, None, None
        if at_most_ms is not None:
            target, met, aim = at_most_ms, middle <= at_most_ms, f"<= {at_most_ms:g} ms"
        elif at_most_times is not None:
            target, met, aim = 1 / at_most_times, ratio >= 1 / at_most_times, f"<= {at_most_times:g} x its time"
        return Figure(
            name,
            "ms",
            middle,
            statistics.median(others),
            ratio,
            min(ratios),
            max(ratios),
            len(mine),
            target,
            met,
            aim=aim,
        )


async def measure_latencies(kinds: Sequence[Call], *, turns: int, calls: int) -> Latencies:
    """Measures kinds of call in turn: A B C A B C ...

    Args:
        kinds: What is called.
        turns: How many turns count; one before them warms up.
        calls: How many calls of each kind a turn has.
    """
    medians: list[list[float]] = [[] for _ in kinds]
    for _ in range(turns + 1):
        taken: list[list[float]] = [[] for _ in kinds]
        for _ in range(calls):
            for place, call in enumerate(kinds):
                taken[place].append(await _timed_ms(call))
        for place, of_kind in enumerate(taken):
            medians[place].append(statistics.median(of_kind))
    return Latencies(tuple(tuple(of_kind[1:]) for of_kind in medians))


async def _timed_ms(call: Call) -> float:
    begin = time.perf_counter()
    await call()
    return (time.perf_counter() - begin) * 1000
