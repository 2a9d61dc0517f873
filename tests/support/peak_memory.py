"""The most memory that this process has during some work."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

from metastore.memory_return import return_memory


def peak_growth(work: Callable[[], None]) -> int:
    """By how many bytes the most memory that this process had rises above what it had before."""
    # What earlier tests have freed would serve this one, and nothing would rise.
    gc.collect()
    return_memory()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _status("VmRSS")
    work()
    return _status("VmHWM") - before


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024
