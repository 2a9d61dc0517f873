"""When files that dead writers left below tables' locations are to be cleared away.

No commit reports it: the writer that died may have been the last one that ever wrote to the table. So a step beside the
requests looks for attempts that were not committed in time. It covers all tables at once, because such attempts are few
and have an index of their own. Its cost depends neither on the number of tables nor on the number of commits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lakelog.format.jobs.job import CLEAN, DueJob
from lakelog.format.retention.table_files import ABANDONED_MS, SETTLED_MS

from ..store.transaction import Store, Transaction, run_transaction
from .requests import make_due

_TABLES_A_STEP: Final = 1_000
"""Tables that already have such a job are passed over, so that a further step finds the others."""

_PRIORITY: Final = -50
"""Waiting only costs storage."""


class Cleaning:
    """Makes jobs of the kind `clean` due for tables with attempts that are aborted or will never be committed.

    Args:
        store: Where everything is stored.
        jobs_due: Called when jobs were made due.
    """

    def __init__(self, store: Store, jobs_due: Callable[[], None]) -> None:
        self._store = store
        self._jobs_due = jobs_due

    async def step(self) -> int:
        """Looks once; returns for how many tables it made a job due.

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
