"""Removes the names of writers that never committed anything and are no longer used.

The rule: a name goes if no table, dropped ones included, has a result of a commit under it, no attempt under it is
unfinished, and for `UNUSED_MS` no one has registered it or become its owner.

Why this breaks nothing: results are kept per writer for ever (reliability C2), and a name with a result stays, so a
repeated commit always finds its first result. The name's epoch goes with it. An epoch is a time, so the next one is
higher, and a process that comes back with the old one is fenced: it registers again. The owner goes, too: the next
caller that uses the name owns it, and there is nothing under the name that it could take.
"""

from __future__ import annotations

from typing import Final

from ..store.transaction import NameRound, Store

UNUSED_MS: Final = 90 * 86_400_000
"""Ninety days: longer than a pipeline waits for its first rows."""

_NAMES_A_STEP: Final = 1000


class UnusedWriters(NameRound):
    """Looks through the names of writers, some in each step."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, lambda tx, after: tx.forget_unused_writers(after, UNUSED_MS, _NAMES_A_STEP))
