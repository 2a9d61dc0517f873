"""IDLE: the CPU of services that have nothing to do, with 0, 100 and 10,000 tables and with open watches.

A stack of a Postgres, a metastore, a compactor, a reader service and a publisher runs without a client. CPU is what the
system counts for each service with all its processes; a tenth of a percent of a core is a millisecond a second.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import psutil
import pyarrow as pa

import lakelog
from bench.context import Bench
from bench.measure import Figure, WrongAnswerError, absolute
from lakelog.embedded.services import service_module
from lakelog.testing import embedded_stack

SERVICES: Final = ("metastore", "compactor", "reader", "publisher")
WATCHES: Final = 100
TARGET_PERCENT: Final = 1.0
_SECONDS: Final = 20.0
_SETTLED_S: Final = 8.0
"""Services that have started, and tables that are new, have something to do for some seconds."""

_SCHEMA: Final = pa.schema([pa.field("k", pa.int64(), nullable=False)])


def measure(bench: Bench) -> Iterator[Figure]:
    """Percent of a core for each service, and for all of them together."""
    table_counts = (0, 100) if bench.quick else (0, 100, 10_000)
    folder = bench.folder / "stack"
    with embedded_stack(folder, services=SERVICES) as stack:
        catalog = lakelog.connect(stack.target)
        catalog.create_database("b")
        created = 0
        for count in table_counts:
            with ThreadPoolExecutor(4) as threads:
                list(threads.map(lambda n: catalog.create_table(f"b.t{n}", _SCHEMA), range(created, count)))
            created = count
            yield from _figures(bench, folder, f"{count:,} tables")
        with ExitStack() as watches:
            for number in range(WATCHES):
                watches.enter_context(catalog.table(f"b.t{number}").subscribe("latest"))
            yield from _figures(bench, folder, f"{created:,} tables, {WATCHES} open watches")
        catalog.close()


def _figures(bench: Bench, folder: Path, state: str) -> Iterator[Figure]:
    time.sleep(_SETTLED_S)
    runs: list[dict[str, float]] = []
    for _ in range(1 if bench.quick else 3):
        before, began_s = _cpu_s(folder), time.monotonic()
        time.sleep(_SECONDS)
        passed_s = time.monotonic() - began_s
        runs.append({name: 100 * (cpu_s - before[name]) / passed_s for name, cpu_s in _cpu_s(folder).items()})
    for name in runs[0]:
        yield absolute(f"{state}: {name}", "% of a core", [run[name] for run in runs], target=TARGET_PERCENT)
    yield absolute(f"{state}: together", "% of a core", [sum(run.values()) for run in runs])


def _cpu_s(folder: Path) -> dict[str, float]:
    """CPU seconds so far, by the name of the service."""
    return {name: _of_tree(process) for name, process in find_processes(folder).items()}


def find_processes(folder: Path) -> dict[str, psutil.Process]:
    """The processes of Postgres and the services of a stack in this folder, by name."""
    found = {}
    for process in psutil.Process().children():
        words = process.cmdline()
        for name in SERVICES:
            module = service_module("writer" if name == "publisher" else name)
            if module in words:
                found[name] = process
    lock = next(folder.rglob("postmaster.pid"))
    found["postgres"] = psutil.Process(int(lock.read_text(encoding="utf-8").split()[0]))
    missing = {*SERVICES} - found.keys()
    if missing:
        raise WrongAnswerError(f"These services do not run: {', '.join(sorted(missing))}.")
    return found


def _of_tree(root: psutil.Process) -> float:
    total = 0.0
    for process in (root, *root.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total
