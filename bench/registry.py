"""What can be run: each workload by its name, and where it has parts, each part by a name of its own.

A module of `bench.workloads` has a `TITLE`, and either `run(bench)` or `PARTS`: the parts by name, run one behind the
other by the workload's name.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import bench.workloads
from bench.context import Bench
from bench.measure import Figure


@dataclass(frozen=True)
class Workload:
    """Something that can be run.

    Args:
        name: For instance `W3`, or `W3-spark` for one part of it.
        title: What is measured.
        run: Yields figures.
    """

    name: str
    title: str
    run: Callable[[Bench], Iterator[Figure]]


def load_workloads() -> dict[str, Workload]:
    """All workloads by name, in the order of their numbers, each before its parts."""
    modules = [module.name for module in pkgutil.iter_modules(bench.workloads.__path__)]
    found: dict[str, Workload] = {}
    for module_name in sorted(modules, key=_number_of):
        for workload in _of_module(module_name):
            found[workload.name] = workload
    return found


def _number_of(module_name: str) -> tuple[bool, int, str]:
    """Those with a number come first, in its order."""
    number = module_name.removeprefix("w")
    return (not number.isdigit(), int(number) if number.isdigit() else 0, module_name)


def _of_module(module_name: str) -> list[Workload]:
    module = importlib.import_module(f"bench.workloads.{module_name}")
    name = module_name.upper()
    parts: dict[str, Callable[[Bench], Iterator[Figure]]] = getattr(module, "PARTS", {})
    if not parts:
        return [Workload(name, module.TITLE, module.run)]

    def run_all(context: Bench) -> Iterator[Figure]:
        for run in parts.values():
            yield from run(context)

    whole = Workload(name, module.TITLE, run_all)
    return [whole, *[Workload(f"{name}-{part}", f"{module.TITLE} ({part} only)", run) for part, run in parts.items()]]
