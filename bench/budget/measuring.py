"""Runs the real metastore within its budget under the worst requests of each kind, and under all of them together."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

import pyarrow as pa

import lakelog
from bench.context import Bench
from bench.flood.abuses import ABUSES, Abuse
from bench.flood.large_work import LARGE_WORK
from bench.measure import Figure, WrongAnswerError, absolute
from lakelog.embedded.services import service_command, service_environment
from lakelog.testing import embedded_stack

from .bulk_commits import commit_at_once, largest_messages
from .memory_group import memory_group
from .service_process import MIB, ServiceProcess, Usage

METASTORE_BYTES: Final = 512 * MIB
SMALL_MACHINE: Final = (
    "--max-streams=2000",
    "--max-connections=1000",
    "--large-request-bytes=8388608",
    "--plan-cache-bytes=33554432",
)
"""The settings of docs/limits.md for a machine of 512 MiB."""

MAX_THREADS: Final = 60
MAX_FILES: Final = 1200
"""1000 connections of clients, 10 to the database, and what a process has open anyway."""

KINDS: Final[Mapping[str, Sequence[Abuse]]] = {
    "commits of 100,000 files": [commit_at_once],
    "messages of 64 MiB": [largest_messages],
    "empty messages": [ABUSES["empty-messages"]],
    "unknown fields": [ABUSES["unknown-fields"]],
    "nested predicates": [ABUSES["nested"]],
    "idle watches": [ABUSES["idle-watches"]],
    "slow readers": [ABUSES["slow-readers"]],
    "half-open calls": [ABUSES["half-open"]],
    "connections": [ABUSES["connections"]],
    "abandoned calls": [ABUSES["abandoned"]],
    "plans with IN": [LARGE_WORK["plan-in"]],
}
"""The worst requests of each kind."""

TOGETHER: Final[Mapping[str, Sequence[Abuse]]] = {
    "together": [
        commit_at_once,
        ABUSES["empty-messages"],
        ABUSES["idle-watches"],
        ABUSES["slow-readers"],
        ABUSES["connections"],
        ABUSES["abandoned"],
    ],
}
_SECONDS: Final = 30
_SNAPSHOTS: Final = 200
_SCHEMA: Final = pa.schema([pa.field("id", pa.int64(), nullable=False)])


def measure_metastore(bench: Bench, kinds: Mapping[str, Sequence[Abuse]] = KINDS) -> Iterator[Figure]:
    """The most memory, threads, connections and files of a metastore under each kind of requests, one after the other.

    Args:
        bench: The bench that runs the workload.
        kinds: By name what clients do at once.
    """
    with ExitStack() as stack:
        database = stack.enter_context(embedded_stack(bench.folder / "database", services=[]))
        group = stack.enter_context(memory_group(METASTORE_BYTES))
        if group is None:
            bench.console.print("this process may not make memory cgroups: the peak of resident memory is measured")
        service = start_metastore(
            database.database_url,
            bench.folder,
            lambda command: ServiceProcess(
                command, _environment(database.database_url), bench.folder / "metastore.log", group
            ),
        )
        stack.callback(service.end)
        target = service.wait_for_line("metastore ready on").split(" on ", 1)[1].split(" ", 1)[0]
        table = _fill(target)
        for kind, abuses in kinds.items():
            usage = _measure(service, target, table, abuses, bench.scaled(_SECONDS) + 5)
            kills = 0 if group is None else group.count_kills()
            if kills or not service.is_running:
                raise WrongAnswerError(f"{kind}: the metastore was ended for its memory: {usage}")
            _check_serves(target)
            yield from _figures(kind, usage)


def start_metastore(
    database_url: str,
    folder: Path,
    start: Callable[[list[str]], ServiceProcess],
    arguments: Sequence[str] = SMALL_MACHINE,
    *,
    migrates: bool = True,
) -> ServiceProcess:
    """Brings a database up to date, unless it is, and starts a metastore over it."""
    if migrates:
        migrate = ServiceProcess(
            service_command("metastore", ["migrate"]), _environment(database_url), folder / "migrate.log", None
        )
        migrate.wait_for_line("the database is up to date")
        migrate.end()
    warehouse = (folder / "warehouse").as_posix()
    serve = ["serve", "--insecure-dev", "--listen=127.0.0.1:0", f"--warehouse={warehouse}", *arguments]
    return start(service_command("metastore", serve))


def _environment(database_url: str) -> dict[str, str]:
    return service_environment("metastore", {"LAKELOG_DATABASE_URL": database_url, "PATH": "/usr/bin:/bin"})


def _fill(target: str) -> str:
    with lakelog.connect(target) as catalog:
        catalog.create_database("flood")
        table = catalog.create_table("flood.t", _SCHEMA)
        for number in range(_SNAPSHOTS):
            table.append(pa.table({"id": [number]}, _SCHEMA), properties={"text": "x" * 10_000})
        catalog.create_table("flood.honest", _SCHEMA)
        return table.uuid


def _measure(service: ServiceProcess, target: str, table: str, abuses: Sequence[Abuse], seconds: float) -> Usage:
    spawn = multiprocessing.get_context("spawn")
    watch = service.watch()
    running: list[BaseProcess] = []
    try:
        for abuse in abuses:
            begun = spawn.Event()
            running.append(spawn.Process(target=abuse, args=(target, table, begun), daemon=True))
            running[-1].start()
            if not begun.wait(120):
                raise WrongAnswerError(f"{abuse.__name__} did not begin within two minutes")
        time.sleep(seconds)
    finally:
        for process in running:
            process.kill()
            process.join()
    return watch.stop()


def _check_serves(target: str) -> None:
    """An honest client is served afterwards."""
    with lakelog.connect(target) as catalog:
        table = catalog.table("flood.honest")
        before = table.scan().count()
        table.append(pa.table({"id": [-1]}, _SCHEMA))
        if table.scan().count() != before + 1:
            raise WrongAnswerError("a commit after the worst requests is not in the table")


def _figures(kind: str, usage: Usage) -> Iterator[Figure]:
    most = METASTORE_BYTES // MIB
    yield absolute(f"{kind}: memory", "MiB", [usage.resident_bytes / MIB], target=most)
    yield absolute(f"{kind}: threads", "threads", [usage.threads], target=MAX_THREADS)
    yield absolute(f"{kind}: connections", "connections", [usage.connections])
    yield absolute(f"{kind}: open files", "files", [usage.files], target=MAX_FILES)
