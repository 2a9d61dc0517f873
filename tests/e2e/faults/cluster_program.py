"""A Spark driver with executors as processes of their own, of which some are killed; run by `test_killed_executors`.

Each write has a fault: its phase and its victim. A task marks by a file that the fault took effect, so that it happens
once. Victims are the Python worker of a task, or the executor (a Java process) with all its workers and shuffle files.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakelog.spark

ROWS = 2_000
PHASES = ("reading", "shuffled", "writing", "written", "ended", "committing", "speculated")


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


def install_fault(phase: str, victim: str, mark: Path) -> Any:
    """Puts the fault into the next write; returns what puts it back."""
    table_write: Any = import_module("lakelog.spark.batch.table_write")
    row_layout: Any = import_module("lakelog.spark.batch.row_layout")
    make_writer, make_converter, commit = table_write.row_writer, row_layout.converter, table_write.commit_attempt

    def row_writer(task: Any) -> Any:
        whole = make_writer(task)

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from pyspark import TaskContext

            number = TaskContext.get().partitionId()  # type: ignore[union-attr]

            def take() -> Iterator[pa.RecordBatch]:
                for batch in batches:
                    if phase == "shuffled":
                        strike(mark, victim)
                    yield batch
                if phase == "writing":
                    strike(mark, victim)
                if phase == "speculated" and number == 0:
                    # The first try sleeps on; Spark starts the task once more elsewhere.
                    try:
                        mark.open("x").close()
                        time.sleep(30)
                    except FileExistsError:
                        pass

            results = list(whole(take()))
            if phase == "written":
                strike(mark, victim)
            yield from results
            if phase == "ended":
                # What the task returned is sent, but the task has not ended.
                time.sleep(0.3)
                strike(mark, victim)

        return write

    def converter(conversion: Any) -> Any:
        whole = make_converter(conversion)

        def convert(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for place, batch in enumerate(whole(batches)):
                yield batch
                if phase == "reading" and place == 0:
                    strike(mark, victim)

        return convert

    def commit_attempt(*arguments: Any) -> Any:
        if phase == "committing":
            # No task runs any more: all executors go.
            killed = [process for process in list_executors() if not os.kill(process, signal.SIGKILL)]
            mark.write_text(" ".join(map(str, killed)))
        return commit(*arguments)

    table_write.row_writer, row_layout.converter = row_writer, converter
    table_write.commit_attempt = commit_attempt

    def remove() -> None:
        table_write.row_writer, row_layout.converter = make_writer, make_converter
        table_write.commit_attempt = commit

    return remove


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
            "spark.speculation": "true",
            "spark.speculation.interval": "200ms",
            "spark.speculation.minTaskRuntime": "2s",
            "spark.speculation.quantile": "0.3",
            "spark.excludeOnFailure.enabled": "false",
        },
    )
    lakelog.spark.install(spark, target)
    for number, fault in enumerate(faults, 1):
        phase, _, victim = fault.partition(":")
        mark = Path(folder) / f"struck-{number}"
        remove = install_fault(phase, victim, mark)
        rows = spark.range(0, ROWS, numPartitions=4).selectExpr(f"id + {number * ROWS} k", f"concat('{number}.', id) v")
        began_s = time.monotonic()
        result = lakelog.spark.write(rows, table, writer="w", identifier=number)
        remove()
        took_s = time.monotonic() - began_s
        sys.stdout.write(f"WRITTEN {number} {fault} {result.already_applied} {mark.exists()} {took_s:.1f}\n")
        sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
