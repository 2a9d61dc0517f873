"""The overview: sums over all tables, and the last measurement of what waits."""

from __future__ import annotations

from dataclasses import replace

from lakelog.format.jobs.overview import Overview

from ..store.transaction import Store, Transaction, run_transaction


class Overviews:
    """The use case of the overview. It measures nothing: `measuring` does so in the background."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get_overview(self) -> Overview:
        return await run_transaction(self._store, _load)


async def _load(tx: Transaction) -> Overview:
    sums = await tx.sum_tables()
    measured = await tx.find_measured_work()
    if measured.work is None:
        return sums
    return replace(sums, work=measured.work, work_age_ms=max(measured.age_ms, 0))
