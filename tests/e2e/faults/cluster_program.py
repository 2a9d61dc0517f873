"""A Spark driver with executors as processes of their own, of which some are killed; run by `test_killed_executors`.

Each write has a fault: its phase and its victim. A task marks by a file that the fault took effect, so that it happens
once. Victims are the Python worker of a task, or the executor (a Java process) with all its workers and shuffle files.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import lakelog.spark

ROWS = 2_000
PHASES = ("reading", "shuffled", "writing", "written", "ended", "committing")


def find_executor(worker: int) -> int:
    """The Java process of a Python worker: the parent of the daemon that forked it."""

    def parent(process: int) -> int:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])

    return parent(parent(worker))


def strike(mark: Path, victim: str) -> None:
    """Kills this task's worker or executor, unless another task has done it."""
    process = os.getpid() if victim == "worker" else find_executor(os.getpid())
    try:
        with mark.open("x") as file:
            file.write(str(process))
    except FileExistsError:
        return
    os.kill(process, signal.SIGKILL)
    time.sleep(60)


def count_rows(folder: Path) -> int:
    """The rows of all files below a folder; files that were never finished have none."""
    rows = 0
    for file in folder.rglob("*.parquet"):
        with contextlib.suppress(pa.ArrowInvalid):
            rows += pq.read_metadata(file).num_rows
    return rows


def install_fault(phase: str, victim: str, mark: Path, found: list[int]) -> Callable[[], None]:
    """Puts the fault into the next write; returns what puts it back.

    Args:
        phase: When a process dies.
        victim: Which process.
        mark: Is written by the fault.
        found: Receives how many rows the table's files have immediately before the commit.
    """
    table_write: Any = import_module("lakelog.spark.batch.table_write")
    make_writer, commit = table_write.row_writer, table_write.commit_attempt

    def row_writer(task: Any) -> Any:
        whole = make_writer(task)

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            def take() -> Iterator[pa.RecordBatch]:
                for batch in batches:
                    if phase == "shuffled":
                        strike(mark, victim)
                    yield batch
                if phase == "writing":
                    strike(mark, victim)

            results = list(whole(take()))
            if phase == "written":
                strike(mark, victim)
            yield from results
            if phase == "ended":
                # What the task returned is sent, but the task has not ended.
                time.sleep(0.3)
                strike(mark, victim)

        return write

    def commit_attempt(metastore: Any, attempt: Any, *more: Any) -> Any:
        found.append(count_rows(Path(attempt.info.location.removeprefix("file://"))))
        if phase == "committing":
            # No task runs any more: all executors go.
            killed = list_executors()
            for process in killed:
                os.kill(process, signal.SIGKILL)
            mark.write_text(" ".join(map(str, killed)))
        return commit(metastore, attempt, *more)

    table_write.row_writer, table_write.commit_attempt = row_writer, commit_attempt

    def remove() -> None:
        table_write.row_writer, table_write.commit_attempt = make_writer, commit

    return remove


def make_rows(spark: SparkSession, number: int, fault: str, mark: Path) -> DataFrame:
    """The rows of a write, from Python tasks."""
    phase, _, victim = fault.partition(":")

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if phase == "reading":
                strike(mark, victim)

    rows = spark.range(0, ROWS, numPartitions=4).selectExpr(f"id + {number * ROWS} k", f"concat('{number}.', id) v")
    return rows.mapInArrow(read, rows.schema)


def is_gone(process: int) -> bool:
    """Whether a process has ended, perhaps not yet collected by its parent."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def are_gone(processes: list[int]) -> bool:
    """Whether there are some and all end soon; the system takes a moment to end a killed Java."""
    give_up_s = time.monotonic() + 20
    while not all(map(is_gone, processes)) and time.monotonic() < give_up_s:
        time.sleep(0.02)
    return bool(processes) and all(map(is_gone, processes))


def list_executors() -> list[int]:
    """The executors of this driver, whose folder they name."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            command = (process / "cmdline").read_bytes()
            environment = (process / "environ").read_bytes()
        except OSError:
            continue
        if b"CoarseGrainedExecutorBackend" in command and f"LAB={os.environ['LAB']}\0".encode() in environment:
            found.append(int(process.name))
    return found


def main(target: str, folder: str, table: str, *faults: str) -> None:
    spark = lakelog.spark.build_session(
        "killed-executors",
        "local-cluster[2,1,1024]",
        {
            "spark.sql.warehouse.dir": f"{folder}/wh",
            "spark.log.level": "OFF",
            "spark.executor.memory": "512m",
            "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
            "spark.executorEnv.LAB": os.environ["LAB"],
            # As for all Java of the tests (tests/conftest.py), whose variable reaches drivers only.
            "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
            "spark.excludeOnFailure.enabled": "false",
        },
    )
    lakelog.spark.install(spark, target)
    for number, fault in enumerate(faults, 1):
        phase, _, victim = fault.partition(":")
        mark = Path(folder) / f"struck-{number}"
        found: list[int] = []
        remove = install_fault(phase, victim, mark, found)
        began_s = time.monotonic()
        rows = make_rows(spark, number, fault, mark)
        result = lakelog.spark.write(rows, table, writer="w", identifier=number)
        remove()
        struck = [int(process) for process in mark.read_text().split()] if mark.exists() else []
        took_s = time.monotonic() - began_s
        gone = are_gone(struck)
        sys.stdout.write(f"WRITTEN {number} {fault} {result.already_applied} {gone} {found[0]} {took_s:.1f}\n")
        sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
