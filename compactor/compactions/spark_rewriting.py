"""Rewrite tasks of a compaction as tasks of a Spark session.

Small amounts are done in this process, because the first Python task takes seconds to start. Larger ones go out in
batches, with one Spark job for each batch and one Spark task for each rewrite task; between batches the caller commits
the finished ones. A lost or stopped job cancels its tasks, which leave files of an attempt that is then given up. The
clean-up of aborted attempts finds what one of them still writes after these were deleted. No result names the files of
failed or duplicated tasks; they are deleted after the commit.
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
from lakelog.spark.executor_check import mark_version
from lakelog.spark.executor_files import check_files_are_here
from lakelog.spark.session.executors import count_executors
from lakelog.spark.task_errors import lakelog_errors
from lakelog.storage.objects.store import ObjectStore
from lakelog.writes.attempt import CommitAttempt

from ..executor import Control
from .bucket_work import RewriteTask, RewrittenTask
from .rewriting import COMMIT_EVERY_S, MAX_TASKS_TOGETHER, LocalRewriter
from .tasks import rewrite_in_task

LITTLE_BYTES: Final = 64 << 20
"""Up to this size of its files, a job is done here: that takes about two seconds, as the first Python task does."""

_BATCH_A_CORE: Final = 2
"""Rewrite tasks of a batch for each core, so that the other cores do not wait long for the slowest task."""

_POLL_S: Final = 0.2
"""How often a running job is checked for being still wanted."""

START_PAUSE_S: Final = 300.0
"""After a failed start: a cluster may come back, and each try costs a job some ten seconds or more."""


WITHOUT_EXECUTORS_S: Final = 60.0
"""How long a batch waits for executors before it is done in this process: Spark itself waits for ever."""


class NoExecutorsError(Exception):
    """No executor has run for so long; nothing of the batch is done."""


class SparkRewriter:
    """Implements `Rewriter` by Spark tasks; for one thread.

    Args:
        start_spark: Makes the session, when it is first needed.
        clock: Measures for how long nothing was committed.
        log: The service's log.
        little_bytes: Up to this size a job is done in this process.
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
        """As `Rewriter`; when stopped, it cancels its running tasks."""
        if self._is_dead or sum(rewrite_task.size_bytes for rewrite_task in rewrite_tasks) <= self._little_bytes:
            return self._here.rewrite_some(store, info, attempt_id, rewrite_tasks, control)
        spark = self._find_spark()
        if spark is None or self._must_wait():
            return self._here.rewrite_some(store, info, attempt_id, rewrite_tasks, control)
        count = min(_BATCH_A_CORE * spark.sparkContext.defaultParallelism, MAX_TASKS_TOGETHER)
        finished: list[RewrittenTask] = []
        began_s = self._clock.monotonic_s()
        while rewrite_tasks and len(finished) + count <= MAX_TASKS_TOGETHER and not control.is_stopping:
            control.check()
            try:
                done = self._run(spark, info, attempt_id, rewrite_tasks[:count], control)
            except NoExecutorsError:
                self._start_after_s = self._clock.monotonic_s() + START_PAUSE_S
                self._log.error(
                    "Spark has no executors; jobs are done in this process for now. Look at the cluster's master.",
                    master=spark.sparkContext.master,
                    next_try_s=START_PAUSE_S,
                )
                return finished or self._here.rewrite_some(store, info, attempt_id, rewrite_tasks, control)
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
        """The session, or None while there is none: no job fails for want of Spark, which it can do without."""
        if self._spark is not None:
            return self._spark
        if self._must_wait():
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

    def _must_wait(self) -> bool:
        """Whether Spark could not be used a short time ago."""
        return self._start_after_s is not None and self._clock.monotonic_s() < self._start_after_s

    def _run(
        self, spark: SparkSession, info: TableInfo, attempt_id: str, batch: list[RewriteTask], control: Control
    ) -> list[RewrittenTask]:
        """Does a batch as one Spark job; returns nothing if it was stopped before all tasks were finished.

        Raises:
            NoExecutorsError: No executor ran for a minute.
        """
        context = spark.sparkContext
        group = f"compaction {attempt_id}"

        def act() -> list[RewrittenTask]:
            context.setJobGroup(group, f"Compaction of {info.name}", interruptOnCancel=True)
            mark_version(context)
            with lakelog_errors():
                task = partial(rewrite_in_task, info, attempt_id)
                return context.parallelize(batch, len(batch)).map(task).collect()

        action: Future[list[RewrittenTask]] = self._pool.submit(act)
        had_executors_s, is_alone = self._clock.monotonic_s(), False
        while not wait([action], _POLL_S).done:
            if count_executors(context):
                had_executors_s = self._clock.monotonic_s()
            is_alone = is_alone or self._clock.monotonic_s() - had_executors_s > WITHOUT_EXECUTORS_S
            if control.is_stopping or control.is_lost or is_alone:
                # Repeated, because cancelling before the job has begun has no effect.
                context.cancelJobGroup(group)
        control.check()
        error = action.exception()
        if error is None:
            done = action.result()
            written = (file.path for each in done for file in (*each.files, *each.changelog))
            check_files_are_here(str(info.name), info.location, written)
            return done
        if control.is_stopping:
            return []
        if is_alone:
            raise NoExecutorsError
        if not isinstance(error, LakelogError):
            self._look_after(spark)
        raise error

    def _look_after(self, spark: SparkSession) -> None:
        """Gives up Spark from now on if its engine has ended, for example by a lack of memory."""
        try:
            self._is_dead = bool(spark.sparkContext._jsc.sc().isStopped())
        except Exception:
            self._is_dead = True
        if self._is_dead:
            self._log.error("Spark has ended; jobs are done in this process from now on. Start the service again.")
