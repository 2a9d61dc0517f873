"""Where the pieces of a compaction are rewritten: here, in this process, or wherever else somebody does the same."""

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
"""What was rewritten is committed so often, so that the death of a long compaction costs little."""

MAX_TASKS_TOGETHER: Final = 500
"""Of one commit."""


class Rewriter(Protocol):
    """Rewrites pieces of a compaction."""

    def rewrite_some(
        self, store: ObjectStore, info: TableInfo, attempt_id: str, rewrite_tasks: list[RewriteTask], control: Control
    ) -> list[RewrittenTask]:
        """Takes pieces off the list and does them, until it is time to commit or to stop; blocks.

        Returns:
            Those that are done; none where it was told to stop before. Files of the attempt that no piece names were
            left by those that failed: `delete_orphans` deletes them once the attempt is committed.

        Raises:
            Fenced: The job is lost.
            DataCorrupted: A data file is damaged or missing; named.
            LakelogError: The store failed.
        """
        ...

    def delete_orphans(self, attempt: CommitAttempt, kept: Collection[str]) -> None:
        """Deletes what an attempt that is committed left besides the paths to keep; never raises lakelog errors."""
        ...


class LocalRewriter:
    """Implements `Rewriter` in this process, one piece after the other.

    Args:
        clock: For how long nothing was committed.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def rewrite_some(
        self, store: ObjectStore, info: TableInfo, attempt_id: str, rewrite_tasks: list[RewriteTask], control: Control
    ) -> list[RewrittenTask]:
        """As `Rewriter`; told to stop, it ends behind the piece in hand."""
        finished: list[RewrittenTask] = []
        began_s = self._clock.monotonic_s()
        while rewrite_tasks and len(finished) < MAX_TASKS_TOGETHER and not control.is_stopping:
            control.check()
            finished.append(run_rewrite_task(store, info, attempt_id, rewrite_tasks.pop(0)))
            if self._clock.monotonic_s() - began_s > COMMIT_EVERY_S:
                break
        return finished

    def delete_orphans(self, attempt: CommitAttempt, kept: Collection[str]) -> None:
        """Nothing is left: a piece that fails deletes its own files."""
