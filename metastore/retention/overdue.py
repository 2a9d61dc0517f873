"""Snapshots that would have expired if nothing retained them: they explain what a table retains."""

from __future__ import annotations

from typing import Final

from lakelog.format.retention.expiry import OverdueSnapshots

from ..metrics import Levels, Metrics
from ..store.transaction import Store, Transaction, run_transaction
from ..store.validation import check_uuid
from ..tables.lookup import find_head
from .expiry import list_overdue

MAX_TABLES: Final = 200
"""Tables that are checked, unless one is named: those with the oldest earliest snapshots."""

_LEVEL: Final[Levels] = "overdue_snapshots"


class Overdue:
    """Finds and measures these snapshots."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self._measured: set[tuple[str, ...]] = set()
        self.latest: list[OverdueSnapshots] = []
        """What the last step found, the oldest first."""

    async def list_overdue_snapshots(self, table_uuid: str = "") -> list[OverdueSnapshots]:
        if table_uuid:
            check_uuid("table_uuid", table_uuid)

        async def load(tx: Transaction) -> list[OverdueSnapshots]:
            if table_uuid:
                heads = [await find_head(tx, table_uuid)]
            else:
                heads = list((await tx.find_heads(await tx.list_needed_tables(MAX_TABLES))).values())
            return [each for head in heads for each in await list_overdue(tx, head)]

        return sorted(await run_transaction(self._store, load), key=lambda each: (each.since_ms, each.table))

    async def step(self) -> None:
        """Measures once.

        Raises:
            Unavailable, OutcomeUnknown: The store is lost.
        """
        self.latest = await self.list_overdue_snapshots()
        found = {(each.table, each.lease.kind.value, each.lease.holder): each.count for each in self.latest}
        for labels, count in found.items():
            self._metrics.set_level(_LEVEL, count, *labels)
        for gone in self._measured - found.keys():
            self._metrics.forget(_LEVEL, *gone)
        self._measured = set(found)
