"""STARTUP: how long a pipeline takes from the start of its process to its first batch, phase by phase.

A folder of CSV files is read with `trigger: {available_now: true}` into a keyed table of two buckets. Each phase ends
with something that the service itself shows: a line of its log, or a file of its checkpoint. CPU is that of the service
with its Java and its Python workers. The machine's Java finds Spark's classes as an earlier start left them, as it does
from the second start on (`lakelog/spark/class_archive.py`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv as pc

import lakelog
from bench.context import Bench
from bench.measure import Figure, WrongAnswerError, absolute
from bench.up import running_up
from lakelog.embedded.services import service_command, service_environment
from lakelog.sdk.catalog import Catalog
from lakelog.spark.class_archive import make
from lakelog.spark.session.class_files import archive_folder
from lakelog.spark.session.gateway import find_spark_home
from lakelog.testing import embedded_stack

BYTES: Final = 35_000_000
FILES: Final = 10
FIRST_BATCH_S: Final = 10.0
ALL_IN_S: Final = 20.0
UP_READY_S: Final = 5.0
_POLL_S: Final = 0.02
_SCHEMA: Final = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string()), ("w", pa.float64())])
_ROW_BYTES: Final = 60


@dataclass(frozen=True)
class Start:
    """One run of the pipeline.

    Args:
        phases: By name, when each ended, in seconds from the start of the process.
        cpu_s: Of the service and all that it started.
    """

    phases: dict[str, float]
    cpu_s: float


def measure_pipeline(bench: Bench) -> Iterator[Figure]:
    """A folder of 35 MB from the start of the process on, then one small file."""
    spark_home = find_spark_home()
    make(archive_folder(spark_home))
    starts: dict[str, list[Start]] = {"35 MB": [], "1 row": []}
    if bench.quick:
        del starts["35 MB"]
    with embedded_stack(bench.folder / "stack") as stack:
        catalog = lakelog.connect(stack.target)
        catalog.create_database("b")
        for number in range(1 if bench.quick else min(bench.pairs, 3)):
            for name, runs in starts.items():
                folder = bench.folder / f"{name.replace(' ', '')}-{number}"
                rows = BYTES // _ROW_BYTES if name == "35 MB" else 1
                runs.append(_run(folder, rows, catalog, stack.target))
    for name, runs in starts.items():
        for phase in runs[0].phases:
            targets = {"first batch begins": FIRST_BATCH_S, "rows are in the table": ALL_IN_S}
            yield absolute(f"{name}: {phase}", "s", [run.phases[phase] for run in runs], target=targets.get(phase))
        yield absolute(f"{name}: CPU of the whole", "s", [run.cpu_s for run in runs])


def _run(folder: Path, rows: int, catalog: Catalog, target: str) -> Start:
    (folder / "in").mkdir(parents=True)
    name = folder.name.replace("-", "_")
    table = catalog.create_table(f"b.t{name}", _SCHEMA, primary_key=["k"], options={"bucket": "2"})
    _write_files(folder / "in", rows)
    file = folder / "p.yaml"
    file.write_text(
        f"name: p{name}\ntable: b.t{name}\nmode: upsert\nsource: {{type: files, path: ./in, format: csv}}\n"
        "trigger: {available_now: true}\ncheckpoint: ./state\n"
    )
    command = service_command("writer", ["run", str(file), "--target", target])
    started = time.perf_counter()
    process = subprocess.Popen(command, env=service_environment("writer", os.environ), stderr=subprocess.PIPE)
    phases: dict[str, float] = {}

    def note(phase: str) -> None:
        phases.setdefault(phase, time.perf_counter() - started)

    cpu = _CpuWatch(process.pid)
    watch = threading.Thread(target=_watch_checkpoint, args=(process, folder / "state", note))
    watch.start()
    assert process.stderr is not None
    for line in process.stderr:
        cpu.look()
        event = json.loads(line)["event"]
        if event in _EVENTS:
            note(_EVENTS[event])
    code = process.wait()
    note("process ends")
    watch.join()
    if code != 0 or table.scan().to_arrow().num_rows != rows:
        raise WrongAnswerError(f"{name}: exit code {code}, not {rows} rows")
    return Start(dict(sorted(phases.items(), key=lambda phase: phase[1])), cpu.total_s)


_EVENTS: Final = {
    "starting": "imports are done",
    "lease taken": "Spark runs, lease is taken",
    "batch committed": "rows are in the table",
}


def _watch_checkpoint(process: subprocess.Popen[bytes], state: Path, note: Callable[[str], None]) -> None:
    seen = {
        "first batch is planned": state / "files" / "0000000000.json",
        "first batch begins": state / "spark" / "offsets" / "0",
    }
    while process.poll() is None:
        for phase, file in seen.items():
            if file.exists():
                note(phase)
        time.sleep(_POLL_S)


class _CpuWatch:
    """Adds up what the processes of a service take; those that end between two looks count up to the last one."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._taken: dict[int, float] = {}
        self.total_s = 0.0
        threading.Thread(target=self._run, daemon=True).start()

    def look(self) -> None:
        """Looks now."""
        try:
            processes = [self._root, *self._root.children(recursive=True)]
        except psutil.Error:
            return
        for process in processes:
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            self._taken[process.pid] = times.user + times.system
        self.total_s = sum(self._taken.values())

    def _run(self) -> None:
        while self._root.is_running():
            self.look()
            time.sleep(0.25)


def _write_files(folder: Path, rows: int) -> None:
    random = np.random.default_rng(7)
    for number, keys in enumerate(np.array_split(np.arange(rows), min(FILES, rows))):
        texts = [f"the text of row {key:012d}" for key in keys.tolist()]
        pc.write_csv(pa.table([keys, texts, random.random(len(keys))], schema=_SCHEMA), folder / f"{number:03d}.csv")


def measure_up(bench: Bench) -> Iterator[Figure]:
    """`lakelog up` from the start of its process until it says that it is ready: in a new folder, and again in it."""
    starts: dict[str, list[float]] = {"first start": [], "later start": []}
    for number in range(bench.pairs):
        folder = bench.folder / f"up-{number}"
        for ready_s in starts.values():
            with running_up(folder) as up:
                ready_s.append(up.ready_s)
    for name, ready_s in starts.items():
        yield absolute(f"lakelog up: {name}", "s", ready_s, target=UP_READY_S)


def measure_command(bench: Bench) -> Iterator[Figure]:
    """`lakelog --version` beside a bare Python."""
    for name, command in {
        "lakelog --version": [sys.executable, "-m", "lakelog", "--version"],
        "python -c pass": [sys.executable, "-c", "pass"],
    }.items():
        times = []
        for _ in range(bench.pairs):
            before = os.times()
            subprocess.run(command, check=True, capture_output=True)
            after = os.times()
            times.append(after.children_user + after.children_system - before.children_user - before.children_system)
        yield absolute(f"CPU of {name}", "s", times, target=0.25)
