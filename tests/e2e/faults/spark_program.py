"""A Spark program as a process of its own: a write under a number, then a stream; run by `test_killed_spark`.

With the variable `KILL_IN_TASK` the driver is killed from a task that has written its files and not yet said so.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pyarrow as pa

import lakelog.spark
from lakelog.spark.batch import given_rows
from lakelog.spark.executor import write as tasks

WRITTEN_ROWS = 1000


def kill_from_a_task() -> None:
    """Makes the next write end with the death of this process."""
    table_write: Any = import_module("lakelog.spark.batch.table_write")
    driver = os.getpid()
    vars(given_rows)["MAX_ROWS"] = -1

    def make(task: tasks.WriteTask) -> tasks.BatchFunction:
        whole = tasks.row_writer(task)

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            results = list(whole(batches))
            os.kill(driver, signal.SIGKILL)
            yield from results

        return write

    table_write.row_writer = make


def main(target: str, folder: str, written: str, streamed: str) -> None:
    spark = lakelog.spark.build_session(
        "killed", "local[2]", {"spark.sql.warehouse.dir": f"{folder}/wh", "spark.log.level": "OFF"}
    )
    lakelog.spark.install(spark, target)
    if os.environ.get("KILL_IN_TASK"):
        kill_from_a_task()
    rows = spark.range(0, WRITTEN_ROWS, numPartitions=2).selectExpr("id k", "concat('w.', id) v")
    result = lakelog.spark.write(rows, written, writer="w", identifier=1)
    sys.stdout.write(f"WRITTEN {result.already_applied}\n")
    sys.stdout.flush()
    source = spark.readStream.schema("k bigint, v string").option("maxFilesPerTrigger", 1).parquet(f"{folder}/in")
    sink = source.writeStream.format("lakelog").option("table", streamed).trigger(availableNow=True)
    sink.option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
