"""Removes leases that no one has held for a long time, and the reports of their pipelines.

The rule: a lease goes if for `UNUSED_MS` no one has held it, and its epoch is as old.

Why this breaks nothing: the epoch goes with it, and no epoch may be given twice (`lakelog.format.commit.epochs`). An
epoch is a time, so the next one is higher than one that is that old. A process that comes back with the old one is
fenced: it acquires the lease again. Nothing but a report belongs to a lease, so the next holder takes nothing over.
"""

from __future__ import annotations

from typing import Final

from ..store.transaction import NameRound, Store

UNUSED_MS: Final = 90 * 86_400_000
"""Ninety days, as for the names of writers: longer than a pipeline is away that comes back."""

_LEASES_A_STEP: Final = 1000


class UnusedLeases(NameRound):
    """Looks through the leases, some in each step."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, lambda tx, after: tx.forget_unused_leases(after, UNUSED_MS, _LEASES_A_STEP))
