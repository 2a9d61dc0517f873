"""How many pieces go to Spark together, whatever cluster it is."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest
import structlog

from compactor.compactions.bucket_work import RewriteTask, RewrittenTask
from compactor.compactions.rewriting import MAX_TASKS_TOGETHER
from compactor.compactions.spark_rewriting import SparkRewriter
from compactor.executor import Control
from lakelog.clock import SystemClock
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.rewrite.append import FileRewrite

FILE = LiveFile(7, "data/a/b.parquet", b"", 0, 0, 1, 0, 10, None, None, 0, 1, 1, 0, 1000)


class Session:
    """As much of a session as tells how large its cluster is."""

    def __init__(self, cores: int) -> None:
        self.sparkContext = self
        self.defaultParallelism = cores


@pytest.mark.parametrize(("cores", "expected"), [(2, 4), (250, MAX_TASKS_TOGETHER), (251, 500), (5000, 500)])
def test_a_batch_is_never_larger_than_a_commit_takes(cores: int, expected: int) -> None:
    rewriter = SparkRewriter(lambda: cast(Any, Session(cores)), SystemClock(), structlog.get_logger(), little_bytes=0)
    batches: list[int] = []

    def run(
        spark: object, info: object, attempt_id: str, batch: list[RewriteTask], control: Control
    ) -> list[RewrittenTask]:
        batches.append(len(batch))
        return [RewrittenTask(rewrite_task, ()) for rewrite_task in batch]

    rewriter._run = run  # type: ignore[method-assign]
    rewrite_tasks = [RewriteTask(FileRewrite(f"compact-{number:05d}", (FILE,)), "test") for number in range(1200)]
    finished = rewriter.rewrite_some(cast(Any, None), cast(Any, None), "a", rewrite_tasks, Control(threading.Event()))
    assert batches[0] == expected
    assert 0 < len(finished) <= MAX_TASKS_TOGETHER
    assert len(finished) + len(rewrite_tasks) == 1200
