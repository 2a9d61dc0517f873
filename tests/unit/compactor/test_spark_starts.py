"""A Spark that cannot be started fails no job: they are done in the process until it can."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest
import structlog

from compactor.compactions.bucket_work import RewriteTask, RewrittenTask
from compactor.compactions.spark_rewriting import START_PAUSE_S, SparkRewriter
from compactor.executor import Control
from lakelog.clock import SystemClock
from lakelog.errors import InternalError
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.rewrite.append import FileRewrite

FILE = LiveFile(7, "data/a/b.parquet", b"", 0, 0, 1, 0, 10, None, None, 0, 1, 1, 0, 1000)


class SettableClock(SystemClock):
    """Stands where it is put."""

    now_s = 1000.0

    def monotonic_s(self) -> float:
        return self.now_s


class Here:
    """Instead of rewriting in this process: counts the pieces."""

    def __init__(self) -> None:
        self.rewrite_tasks = 0

    def rewrite_some(
        self, store: Any, info: Any, attempt_id: str, rewrite_tasks: list[RewriteTask], control: Any
    ) -> list[RewrittenTask]:
        done = [RewrittenTask(rewrite_task, ()) for rewrite_task in rewrite_tasks]
        self.rewrite_tasks += len(rewrite_tasks)
        rewrite_tasks.clear()
        return done


class Session:
    """As much of a session as tells how large its cluster is."""

    def __init__(self) -> None:
        self.sparkContext = self
        self.defaultParallelism = 2


@pytest.mark.parametrize("error", [InternalError("Java for Spark ended"), RuntimeError("no master answers")])
def test_jobs_are_done_in_the_process_until_spark_starts(error: Exception) -> None:
    clock, here, starts, is_there = SettableClock(), Here(), [], False

    def start() -> Any:
        starts.append(clock.now_s)
        if not is_there:
            raise error
        return Session()

    rewriter = SparkRewriter(start, clock, structlog.get_logger(), little_bytes=0)
    rewriter._here = cast(Any, here)
    sent: list[int] = []

    def run(
        spark: object, info: object, attempt_id: str, batch: list[RewriteTask], control: Control
    ) -> list[RewrittenTask]:
        sent.append(len(batch))
        return [RewrittenTask(rewrite_task, ()) for rewrite_task in batch]

    rewriter._run = run  # type: ignore[method-assign]

    def rewrite() -> int:
        rewrite_tasks = [RewriteTask(FileRewrite("compact-00001", (FILE,)), "test")]
        control = Control(threading.Event())
        return len(rewriter.rewrite_some(cast(Any, None), cast(Any, None), "a", rewrite_tasks, control))

    # A job after the other is done, and Spark is not started for each of them.
    assert [rewrite() for _ in range(3)] == [1, 1, 1]
    assert (here.rewrite_tasks, sent, len(starts)) == (3, [], 1)
    clock.now_s += START_PAUSE_S
    assert rewrite() == 1
    assert (here.rewrite_tasks, len(starts)) == (4, 2)
    # The cluster is back.
    is_there = True
    clock.now_s += START_PAUSE_S
    assert [rewrite() for _ in range(2)] == [1, 1]
    assert (here.rewrite_tasks, sent, len(starts)) == (4, [1, 1], 3)
