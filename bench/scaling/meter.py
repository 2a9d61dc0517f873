"""Wall time of some work, and the CPU seconds that each group of processes took for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import psutil

from bench.measure import Figure, absolute

REPLICAS: Final = (1, 2, 4)


@dataclass(frozen=True)
class Used:
    """What some work took.

    Args:
        wall_s: Seconds.
        cpu_s: CPU seconds by the name of the group of processes; `driver` is the measuring process itself.
    """

    wall_s: float
    cpu_s: Mapping[str, float]

    @property
    def busy_cores(self) -> float:
        """How many cores all of them together kept busy."""
        return sum(self.cpu_s.values()) / self.wall_s


def measure(groups: Mapping[str, Sequence[int | None]], work: Callable[[], object]) -> Used:
    """Does some work once.

    Args:
        groups: The processes, with all of their children, by the name of their group.
        work: It must end none of them.
    """
    before, began_s = _read(groups), time.perf_counter()
    work()
    wall_s = time.perf_counter() - began_s
    return Used(wall_s, {name: cpu_s - before[name] for name, cpu_s in _read(groups).items()})


def show(service: str, replicas: int, unit: str, units: float, used: Used) -> Iterator[Figure]:
    """The figures of one point of a curve."""
    name = f"{service}, {replicas} replica{'s' * (replicas > 1)}"
    yield absolute(f"{name}: rate", f"{unit}/s", [units / used.wall_s])
    yield absolute(
        f"{name}: CPU of the service", f"CPU ms a {unit.removesuffix('s')}", [1000 * used.cpu_s[service] / units]
    )
    rest = sum(cpu_s for group, cpu_s in used.cpu_s.items() if group != service)
    yield absolute(f"{name}: CPU of all else", f"CPU ms a {unit.removesuffix('s')}", [1000 * rest / units])
    yield absolute(f"{name}: busy cores", "cores", [used.busy_cores])


def _read(groups: Mapping[str, Sequence[int | None]]) -> dict[str, float]:
    found = {name: sum(_of_tree(pid) for pid in pids if pid is not None) for name, pids in groups.items()}
    own = psutil.Process().cpu_times()
    return found | {"driver": own.user + own.system}


def _of_tree(pid: int) -> float:
    """Of a process, its children, and those of them that have ended."""
    root = psutil.Process(pid)
    total = 0.0
    for process in (root, *root.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
