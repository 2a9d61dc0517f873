"""Rewriting the pieces of a compaction as tasks of a Spark session.

What is little is done in this process, since the first Python task takes seconds. What is more goes out in batches, one
job a batch and one task a piece; between batches the caller commits what was done. A job that is lost or told to stop
cancels its tasks, which then leave files of an attempt that is given up; what one of them still writes after these
were deleted, the collector finds. Files that a failed or doubled task has left
are not named by any result; they are deleted behind the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Final

from pyspark.sql import SparkSession

from lakelog.clock import Clock
from lakelog.errors import LakelogError
from lakelog.format.tables.table import TableInfo
from lakelog.serving.logging_setup import Logger
from lakelog.spark.task_errors import lakelog_errors
from lakelog.storage.objects.store import ObjectStore
from lakelog.writes.attempt import CommitAttempt

from ..executor import Control
from .bucket_work import RewriteTask, RewrittenTask
from .rewriting import COMMIT_EVERY_S, MAX_TASKS_TOGETHER, LocalRewriter
from .tasks import rewrite_in_task

LITTLE_BYTES: Final = 64 << 20
"""Of a job's files: rewritten here in about two seconds, about what the first Python task takes to start."""

_BATCH_A_CORE: Final = 2
"""Pieces of a batch for each core, so that none waits for long for the one that takes longest."""

_POLL_S: Final = 0.2
"""How often it is looked whether a job that runs is still wanted."""

START_PAUSE_S: Final = 300.0
"""After a start in vain: a cluster may come back, and each try costs a job some ten seconds or more."""


class SparkRewriter:
    """Implements `Rewriter` by tasks; for one thread.

    Args:
        start_spark: Makes the session, when it is first needed.
        clock: For how long nothing was committed.
        log: For lines.
        little_bytes: Up to so many bytes a job is done here.
    """

    def __init__(
        self, start_spark: Callable[[], SparkSession], clock: Clock, log: Logger, little_bytes: int = LITTLE_BYTES
    ) -> None:
        self._start_spark = start_spark
        self._clock = clock
        self._log = log
        self._little_bytes = little_bytes
        self._here = LocalRewriter(clock)
        self._spark: SparkSession | None = None
        self._is_dead = False
        self._start_after_s: float | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="lakelog-job")

    def rewrite_some(
        self, store: ObjectStore, info: TableInfo, attempt_id: str, rewrite_tasks: list[RewriteTask], control: Control
    ) -> list[RewrittenTask]:
        """As `Rewriter`; told to stop, it gives up what its tasks are at."""
        if self._is_dead or sum(rewrite_task.size_bytes for rewrite_task in rewrite_tasks) <= self._little_bytes:
            return self._here.rewrite_some(store, info, attempt_id, rewrite_tasks, control)
        spark = self._find_spark()
        if spark is None:
            return self._here.rewrite_some(store, info, attempt_id, rewrite_tasks, control)
        count = min(_BATCH_A_CORE * spark.sparkContext.defaultParallelism, MAX_TASKS_TOGETHER)
        finished: list[RewrittenTask] = []
        began_s = self._clock.monotonic_s()
        while rewrite_tasks and len(finished) + count <= MAX_TASKS_TOGETHER and not control.is_stopping:
            control.check()
            done = self._run(spark, info, attempt_id, rewrite_tasks[:count], control)
            if not done:
                break
            del rewrite_tasks[:count]
            finished += done
            if self._clock.monotonic_s() - began_s > COMMIT_EVERY_S:
                break
        return finished

    def delete_orphans(self, attempt: CommitAttempt, kept: Collection[str]) -> None:
        """As `Rewriter`."""
        if self._spark is not None:
            attempt.delete_unnamed(kept)

    def _find_spark(self) -> SparkSession | None:
        """The session, or None while none can be had: no job fails for what it can be done without."""
        if self._spark is not None:
            return self._spark
        if self._start_after_s is not None and self._clock.monotonic_s() < self._start_after_s:
            return None
        try:
            self._spark = self._start_spark()
        except Exception as error:
            self._start_after_s = self._clock.monotonic_s() + START_PAUSE_S
            self._log.error(
                "Spark cannot be started; jobs are done in this process until it can",
                error=f"{error!s:.500}",
                next_try_s=START_PAUSE_S,
            )
        return self._spark

    def _run(
        self, spark: SparkSession, info: TableInfo, attempt_id: str, batch: list[RewriteTask], control: Control
    ) -> list[RewrittenTask]:
        """Does a batch by one job; none are done where it was told to stop before they all were."""
        context = spark.sparkContext
        group = f"compaction {attempt_id}"

        def act() -> list[RewrittenTask]:
            context.setJobGroup(group, f"Compaction of {info.name}", interruptOnCancel=True)
            with lakelog_errors():
                task = partial(rewrite_in_task, info, attempt_id)
                return context.parallelize(batch, len(batch)).map(task).collect()

        action: Future[list[RewrittenTask]] = self._pool.submit(act)
        while not wait([action], _POLL_S).done:
            if control.is_stopping or control.is_lost:
                # Again and again: what is cancelled before it has begun is not.
                context.cancelJobGroup(group)
        control.check()
        error = action.exception()
        if error is None:
            return action.result()
        if control.is_stopping:
            return []
        if not isinstance(error, LakelogError):
            self._look_after(spark)
        raise error

    def _look_after(self, spark: SparkSession) -> None:
        """Does without Spark from now on where its engine has ended, as by a lack of memory."""
        try:
            self._is_dead = bool(spark.sparkContext._jsc.sc().isStopped())
        except Exception:
            self._is_dead = True
        if self._is_dead:
            self._log.error("Spark has ended; jobs are done in this process from now on. Start the service again.")
