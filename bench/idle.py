"""IDLE: the CPU of a `lakelog up` that has nothing to do, with 0, 100 and 10,000 tables and with open watches.

It runs a Postgres, a metastore, a compactor, a reader service and a publisher, without a client. CPU is what the system
counts for each with all its processes, and for the process of the command itself, which supervises them; a tenth of a
percent of a core is a millisecond a second. The publisher's brokers are a socket that nothing answers at: without a
table that has a log nothing connects to them.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import psutil
import pyarrow as pa

import lakelog
from bench.context import Bench
from bench.measure import Figure, WrongAnswerError, absolute
from bench.up import Up, running_up
from lakelog.embedded.services import service_module

SERVICES: Final = ("metastore", "compactor", "reader", "publisher")
WATCHES: Final = 100
UP: Final = "lakelog up"
TARGET_PERCENT: Final = 1.0
"""Of each, and of all together."""
_SECONDS: Final = 30.0
"""The system counts in hundredths of a second, and some work comes every half minute."""

_SETTLED_S: Final = 8.0
"""Services that have started, and tables that are new, have something to do for some seconds."""

_SCHEMA: Final = pa.schema([pa.field("k", pa.int64(), nullable=False)])


def measure(bench: Bench) -> Iterator[Figure]:
    """Percent of a core for each service, and for all of them together."""
    folder = bench.folder / "up"
    with socket.create_server(("127.0.0.1", 0)) as brokers:
        options = ["--reader", "--kafka-bootstrap-servers", f"127.0.0.1:{brokers.getsockname()[1]}"]
        with running_up(folder, options) as up:
            yield from _measure_up(bench, folder, up)


def _measure_up(bench: Bench, folder: Path, up: Up) -> Iterator[Figure]:
    table_counts = (0, 100) if bench.quick else (0, 100, 10_000)
    with lakelog.connect(up.facts["target"]) as catalog:
        catalog.create_database("b")
        created = 0
        for count in table_counts:
            with ThreadPoolExecutor(4) as threads:
                list(threads.map(lambda n: catalog.create_table(f"b.t{n}", _SCHEMA), range(created, count)))
            created = count
            yield from _figures(bench, folder, up, f"{count:,} tables")
        with ExitStack() as watches:
            for number in range(WATCHES):
                watches.enter_context(catalog.table(f"b.t{number}").subscribe("latest"))
            yield from _figures(bench, folder, up, f"{created:,} tables, {WATCHES} open watches")


def _figures(bench: Bench, folder: Path, up: Up, state: str) -> Iterator[Figure]:
    time.sleep(_SETTLED_S)
    runs: list[dict[str, float]] = []
    for _ in range(1 if bench.quick else 3):
        before, began_s = _cpu_s(folder, up), time.monotonic()
        time.sleep(_SECONDS)
        passed_s = time.monotonic() - began_s
        runs.append({name: 100 * (cpu_s - before[name]) / passed_s for name, cpu_s in _cpu_s(folder, up).items()})
    for name in runs[0]:
        yield absolute(f"{state}: {name}", "% of a core", [run[name] for run in runs], target=TARGET_PERCENT)
    yield absolute(f"{state}: together", "% of a core", [sum(run.values()) for run in runs], target=TARGET_PERCENT)


def _cpu_s(folder: Path, up: Up) -> dict[str, float]:
    """CPU seconds so far, by the name of the service; those of the command, without its children, under its own."""
    command = psutil.Process(up.pid)
    services = {name: _of_tree(process) for name, process in find_processes(folder, command).items()}
    return services | {UP: _of(command)}


def find_processes(folder: Path, parent: psutil.Process | None = None) -> dict[str, psutil.Process]:
    """The processes of Postgres and the services of a stack in this folder, by name; by default this process has it."""
    found = {}
    for process in (parent or psutil.Process()).children():
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
        with suppress(psutil.NoSuchProcess):
            total += _of(process)
    return total


def _of(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system
