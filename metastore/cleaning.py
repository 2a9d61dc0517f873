"""When what dead writers have left below a table's location is to be cleared away; see `metastore.due_work`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

from lakelog.format.job import CLEAN, DueJob
from lakelog.format.table_files import ABANDONED_MS, SETTLED_MS

from .due_work import TableWork
from .store import Transaction

_LOOK_EVERY_S: Final = 600.0
"""At one table. Nobody waits for what is found, and each look goes through all that was not committed in time."""

_MAX_TABLES: Final = 10_000
"""Tables whose last look is remembered; when they are more all are forgotten, and looked at once more."""

_PRIORITY: Final = -50
"""It costs room only."""


class CleaningPlanner:
    """Makes a job of the kind `clean` due at a table with attempts that are over, or will never be.

    Args:
        monotonic_s: The time.
    """

    def __init__(self, monotonic_s: Callable[[], float] = monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._looked_s: dict[str, float] = {}

    async def __call__(self, tx: Transaction, work: TableWork) -> Sequence[DueJob]:
        """The job, if there is work for it."""
        table_uuid, now_s = work.head.table_uuid, self._monotonic_s()
        if now_s - self._looked_s.get(table_uuid, -_LOOK_EVERY_S) < _LOOK_EVERY_S:
            return ()
        if len(self._looked_s) >= _MAX_TABLES:
            self._looked_s.clear()
        self._looked_s[table_uuid] = now_s
        if not await tx.list_unfinished_attempts(table_uuid, ABANDONED_MS, SETTLED_MS, 1):
            return ()
        return (DueJob(work.head.table_id, CLEAN, priority=_PRIORITY),)
