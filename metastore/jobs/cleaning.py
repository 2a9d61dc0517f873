"""When what dead writers have left below tables' locations is to be cleared away.

No commit tells of it: whoever died may have been the last who ever wrote to the table. So attempts that were not
committed in time are looked for beside the requests, of all tables at once: there are few, in an index of their own.
What the look costs does not depend on how many tables there are, nor on how many commits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lakelog.format.jobs.job import CLEAN, DueJob
from lakelog.format.retention.table_files import ABANDONED_MS, SETTLED_MS

from ..store.transaction import Store, Transaction, run_transaction
from .requests import make_due

_TABLES_A_STEP: Final = 1_000
"""Those for which a job is due already are passed over, so that a further step finds the others."""

_PRIORITY: Final = -50
"""It costs room only."""


class Cleaning:
    """Makes jobs of the kind `clean` due at tables with attempts that are over, or will never be.

    Args:
        store: Where everything is kept.
        jobs_due: Called when jobs were made due.
    """

    def __init__(self, store: Store, jobs_due: Callable[[], None]) -> None:
        self._store = store
        self._jobs_due = jobs_due

    async def step(self) -> int:
        """Looks once; for how many tables a job is due since.

        Raises:
            Unavailable, OutcomeUnknown: The store is lost; a later step finds the rest.
        """
        tables = await run_transaction(
            self._store, lambda tx: tx.list_uncleaned_tables(ABANDONED_MS, SETTLED_MS, _TABLES_A_STEP)
        )
        for table_uuid in tables:
            await self._make_due(table_uuid)
        return len(tables)

    async def _make_due(self, table_uuid: str) -> None:
        async def make(tx: Transaction) -> None:
            head = (await tx.find_heads([table_uuid])).get(table_uuid)
            if head is not None:
                await make_due(tx, table_uuid, [DueJob(head.table_id, CLEAN, priority=_PRIORITY)])

        await run_transaction(self._store, make)
        self._jobs_due()
