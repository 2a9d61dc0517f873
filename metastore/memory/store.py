"""The store in memory: transactions one after the other, rolled back on error.

Running them one at a time is one of the orders that READ COMMITTED with locks allows, so what holds for every order
holds here; effects of overlapping transactions show only in Postgres. Nothing sleeps and nothing is random.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import asynccontextmanager

from lakelog.clock import Clock

from ..store.transaction import Store, Transaction
from .commits.commits import MemoryCommits
from .commits.snapshots import MemorySnapshots
from .consumers import MemoryConsumers
from .dropped import MemoryDropped
from .grants import MemoryGrants
from .jobs.deletion_vectors import MemoryDeletionVectors
from .jobs.due import MemoryDue
from .jobs.runs import MemoryJobRuns
from .jobs.services import MemoryServices
from .jobs.work import MemoryWork
from .jobs.work_cursors import MemoryWorkCursors
from .journal import Journal
from .publishing import MemoryPublishing
from .retention import MemoryRetention
from .state import State
from .table_files import MemoryTableFiles
from .tags import MemoryTags
from .waiting_work import MemoryWaitingWork


class MemoryTransaction(
    MemoryCommits,
    MemoryDropped,
    MemoryJobRuns,
    MemorySnapshots,
    MemoryWork,
    MemoryServices,
    MemoryWorkCursors,
    MemoryConsumers,
    MemoryDue,
    MemoryDeletionVectors,
    MemoryTags,
    MemoryGrants,
    MemoryRetention,
    MemoryTableFiles,
    MemoryWaitingWork,
    MemoryPublishing,
):
    """A transaction on the state, which holds the store's only lock."""


class MemoryStore(Store):
    """Stores everything in memory.

    Args:
        clock: Replaces the database's clock.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._state = State()
        # It replaces random numbers. It is no part of the state either, so setting the state back repeats none.
        self._draws = itertools.count()
        self._lock = asyncio.Lock()
        self._listeners: set[asyncio.Queue[frozenset[str] | None]] = set()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        async with self._lock:
            journal = Journal()
            try:
                yield MemoryTransaction(self._state, journal, self._clock, self._draws)
            except BaseException:
                journal.roll_back()
                raise

    async def announce(self, table_uuids: Collection[str]) -> None:
        """Notifies all listeners, including the caller's own metastore."""
        for queue in self._listeners:
            queue.put_nowait(frozenset(table_uuids))

    async def listen(self) -> AsyncGenerator[frozenset[str]]:
        """The announcements of metastores on this store, until closed."""
        queue: asyncio.Queue[frozenset[str] | None] = asyncio.Queue()
        self._listeners.add(queue)
        try:
            while (announced := await queue.get()) is not None:
                yield announced
        finally:
            self._listeners.discard(queue)

    async def close(self) -> None:
        """Ends listening; idempotent."""
        for queue in self._listeners:
            queue.put_nowait(None)
