"""Removes old runs of jobs: what is kept of each table is bounded, however often it is compacted.

Runs that ended badly are counted on their own, so that a thousand good ones do not hide why one failed.
"""

from __future__ import annotations

from typing import Final

from ..store.transaction import NameRound, Store

KEPT_RUNS: Final = 500
"""Of each table, of those that ended well and of those that ended badly: some 100 KB each."""

KEPT_MS: Final = 30 * 86_400_000
"""Thirty days."""

_TABLES_A_STEP: Final = 200


class OldRuns(NameRound):
    """Looks through the tables, some in each step."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, lambda tx, after: tx.forget_old_runs(after, KEPT_RUNS, KEPT_MS, _TABLES_A_STEP))
