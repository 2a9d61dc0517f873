"""A task of Spark that writes and comes to grief."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from lakelog.spark.executor import write as tasks


def disturbed_writer(fault: str, marker: Path) -> Any:
    """The task's function, in which the second task's first attempt comes to grief once its files are written."""

    def make(task: tasks.WriteTask) -> tasks.BatchFunction:
        whole = tasks.row_writer(task)

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            assert context is not None
            results = list(whole(batches))
            if context.partitionId() == 1 and context.attemptNumber() == 0:
                marker.write_text(str(len(results)))
                if fault == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise RuntimeError("a fault of the test")
            yield from results

        return write

    return make
