"""The overview: sums over all tables, and what was measured last of what waits and of what is retained for too long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lakelog.format.jobs.overview import MAX_OVERDUE, Overview
from lakelog.format.retention.expiry import OverdueSnapshots

from ..store.transaction import Store, Transaction, run_transaction


class Overviews:
    """The use case of the overview. It measures nothing: steps beside the requests do.

    Args:
        store: Where everything is.
        find_overdue: What was found last of overdue snapshots, the oldest first.
    """

    def __init__(self, store: Store, find_overdue: Callable[[], Sequence[OverdueSnapshots]]) -> None:
        self._store = store
        self._find_overdue = find_overdue

    async def get_overview(self) -> Overview:
        found = await run_transaction(self._store, _load)
        return replace(found, overdue=tuple(self._find_overdue()[:MAX_OVERDUE]))


async def _load(tx: Transaction) -> Overview:
    sums = await tx.sum_tables()
    measured = await tx.find_measured_work()
    if measured.work is None:
        return sums
    return replace(sums, work=measured.work, work_age_ms=max(measured.age_ms, 0))
