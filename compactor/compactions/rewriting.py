"""Where the rewrite tasks of a compaction run: in this process, or elsewhere with the same result."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Protocol

from lakelog.clock import Clock
from lakelog.format.tables.table import TableInfo
from lakelog.storage.objects.store import ObjectStore
from lakelog.writes.attempt import CommitAttempt

from ..executor import Control
from .bucket_work import RewriteTask, RewrittenTask, run_rewrite_task

COMMIT_EVERY_S: Final = 60.0
"""How often rewritten files are committed, so that the crash of a long compaction costs little."""

MAX_TASKS_TOGETHER: Final = 500
"""Rewrite tasks of one commit."""


class Rewriter(Protocol):
    """Does the rewrite tasks of a compaction."""

    def rewrite_some(
        self, store: ObjectStore, info: TableInfo, attempt_id: str, rewrite_tasks: list[RewriteTask], control: Control
    ) -> list[RewrittenTask]:
        """Takes tasks off the list and does them, until it is time to commit or to stop; blocks.

        Returns:
            The finished tasks; none if it was stopped before. Files of the attempt that no task names were left by
            failed tasks: `delete_orphans` deletes them once the attempt is committed.

        Raises:
            Fenced: The job is lost.
            DataCorrupted: A data file is damaged or missing; the error names it.
            LakelogError: The store failed.
        """
        ...

    def delete_orphans(self, attempt: CommitAttempt, kept: Collection[str]) -> None:
        """Deletes a committed attempt's files except the paths to keep; never raises lakelog errors."""
        ...


class LocalRewriter:
    """Implements `Rewriter` in this process, one task after the other.

    Args:
        clock: Measures for how long nothing was committed.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def rewrite_some(
        self, store: ObjectStore, info: TableInfo, attempt_id: str, rewrite_tasks: list[RewriteTask], control: Control
    ) -> list[RewrittenTask]:
        """As `Rewriter`; when stopped, it finishes the current task."""
        finished: list[RewrittenTask] = []
        began_s = self._clock.monotonic_s()
        while rewrite_tasks and len(finished) < MAX_TASKS_TOGETHER and not control.is_stopping:
            control.check()
            finished.append(run_rewrite_task(store, info, attempt_id, rewrite_tasks.pop(0)))
            if self._clock.monotonic_s() - began_s > COMMIT_EVERY_S:
                break
        return finished

    def delete_orphans(self, attempt: CommitAttempt, kept: Collection[str]) -> None:
        """Nothing is left: a task that fails deletes its own files."""
