"""How many snapshots are committed a minute, from overviews that were loaded for pages.

The history belongs to a caller's catalog, so it only has sums that this caller may see, and goes with it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final
from weakref import WeakKeyDictionary

from lakelog.format.jobs.overview import Overview
from lakelog.sdk.catalog import Catalog

LONGEST_MS: Final = 600_000
"""How far the history goes back."""

_APART_MS: Final = 2_000
"""Points that are closer are not kept: several windows may show the page."""


@dataclass(frozen=True)
class Point:
    """The number of snapshots at a time of the metastore's clock."""

    at_ms: int
    snapshots: int


@dataclass
class _Histories:
    lock: threading.Lock = field(default_factory=threading.Lock)
    by_catalog: WeakKeyDictionary[Catalog, deque[Point]] = field(default_factory=WeakKeyDictionary)


_histories: Final = _Histories()


def add_point(catalog: Catalog, overview: Overview) -> list[Point]:
    """Adds an overview to the history of a caller; returns the history, the oldest first."""
    point = Point(overview.now_ms, overview.snapshot_count)
    with _histories.lock:
        points = _histories.by_catalog.setdefault(catalog, deque())
        if points and (point.snapshots < points[-1].snapshots or point.at_ms < points[-1].at_ms):
            # Tables were dropped or the clock was set back: the difference would say nothing.
            points.clear()
        if not points or point.at_ms - points[-1].at_ms >= _APART_MS:
            points.append(point)
        while points[0].at_ms < point.at_ms - LONGEST_MS:
            points.popleft()
        return list(points)


def find_rate(points: Sequence[Point], over_ms: int = 60_000) -> float | None:
    """Commits a minute lately; None: the history is too short. Pure."""
    if not points:
        return None
    last = points[-1]
    first = next(each for each in points if each.at_ms >= last.at_ms - over_ms)
    if first is last:
        return None
    return (last.snapshots - first.snapshots) * 60_000 / (last.at_ms - first.at_ms)


def split_rates(points: Sequence[Point], count: int = 40) -> list[float]:
    """Commits a minute between points, the oldest first, the latest `count`. Pure."""
    pairs = list(pairwise(points))[-count:]
    return [(after.snapshots - before.snapshots) * 60_000 / (after.at_ms - before.at_ms) for before, after in pairs]
