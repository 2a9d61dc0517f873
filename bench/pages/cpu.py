"""CPU of metastore, database and console over some seconds, each with all its processes, as the system counts it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress

import psutil


def used_percent(roots: Mapping[str, psutil.Process], seconds: float) -> dict[str, float]:
    """Percent of a core by name, while so many seconds pass; the system counts in hundredths of a second."""
    before, began_s = {name: _cpu_s(root) for name, root in roots.items()}, time.monotonic()
    time.sleep(seconds)
    passed_s = time.monotonic() - began_s
    return {name: 100 * (_cpu_s(root) - before[name]) / passed_s for name, root in roots.items()}


def _cpu_s(root: psutil.Process) -> float:
    """Also of those of its processes that have ended: a connection that is closed is one in Postgres."""
    times = root.cpu_times()
    total = times.user + times.system + times.children_user + times.children_system
    for process in root.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            own = process.cpu_times()
            total += own.user + own.system
    return total
