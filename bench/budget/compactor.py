"""Runs the real compactor within its budget on a bucket of two million rows with overlapping runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import numpy as np

import lakelog
from bench.context import Bench
from bench.expected import Q1Model, check_rows
from bench.measure import Figure, WrongAnswerError, absolute
from bench.sdk import HASHED
from bench.shapes import q1, q1_schema
from lakelog.embedded.services import service_command, service_environment
from lakelog.testing import embedded_stack

from .memory_group import memory_group
from .service_process import MIB, ServiceProcess

COMPACTOR_BYTES: Final = 1024 * MIB
MAX_THREADS: Final = 60
MAX_FILES: Final = 200

_ROWS: Final = 2_000_000
_COMMITS: Final = 4
_DELTAS: Final = 5


def measure_compactor(bench: Bench) -> Iterator[Figure]:
    """The most memory, threads and files of a compactor that compacts a bucket as a whole."""
    rows = bench.scaled(_ROWS)
    with ExitStack() as stack:
        running = stack.enter_context(embedded_stack(bench.folder / "stack", services=["metastore"]))
        catalog = stack.enter_context(lakelog.connect(running.target))
        catalog.create_database("b")
        table = catalog.create_table("b.t", q1_schema(), primary_key=["id"], options={"bucket": "1"})
        model = Q1Model(rows)
        for number in range(_COMMITS + _DELTAS):
            ids = np.arange(rows)[number::_COMMITS] if number < _COMMITS else _some_ids(rows, number)
            made = q1(ids, number + 1)
            table.upsert(made)
            model.apply(made)
        group = stack.enter_context(memory_group(COMPACTOR_BYTES))
        if group is None:
            bench.console.print("this process may not make memory cgroups: the peak of resident memory is measured")
        service = ServiceProcess(
            service_command("compactor", ["run"]),
            service_environment("compactor", {"LAKELOG_TARGET": running.target}),
            bench.folder / "compactor.log",
            group,
        )
        stack.callback(service.end)
        watch = service.watch()
        result = table.compact(full=True, timeout=240)
        usage = watch.stop()
        if not service.is_running or (group is not None and group.count_kills()):
            raise WrongAnswerError(f"the compactor was ended for its memory: {usage}; {result}")
        check_rows("compaction", table.scan(HASHED).to_arrow(), model, tuple(HASHED))
    label = f"compaction of a bucket of {rows:,} rows"
    yield absolute(f"{label}: memory", "MiB", [usage.resident_bytes / MIB], target=COMPACTOR_BYTES // MIB)
    yield absolute(f"{label}: threads", "threads", [usage.threads], target=MAX_THREADS)
    yield absolute(f"{label}: open files", "files", [usage.files], target=MAX_FILES)


def _some_ids(rows: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(rows)[: rows // 10]
