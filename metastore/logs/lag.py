"""How far logs lag their tables, measured here because a dead publisher measures nothing."""

from __future__ import annotations

from typing import Final

from ..metrics import Levels, Metrics
from ..store.transaction import Store, run_transaction

_LEVELS: Final[tuple[Levels, ...]] = ("log_snapshots_behind", "log_behind_seconds", "log_problems")


class LogLags:
    """Measures all logs."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self._measured: set[str] = set()

    async def step(self) -> None:
        """Measures once.

        Raises:
            Unavailable, OutcomeUnknown: The store is lost.
        """
        lags = await run_transaction(self._store, lambda tx: tx.list_log_lags())
        for lag in lags:
            values = (lag.snapshots_behind, lag.behind_ms / 1000, int(lag.has_problem))
            for name, value in zip(_LEVELS, values, strict=True):
                self._metrics.set_level(name, value, lag.table)
        tables = {lag.table for lag in lags}
        for gone in self._measured - tables:
            for name in _LEVELS:
                self._metrics.forget(name, gone)
        self._measured = tables
