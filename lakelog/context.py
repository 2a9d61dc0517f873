"""What all objects of one catalog share: the metastore, the stores, the caches, and the clock."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from lakelog.client.connection.reader_target import ReaderTarget
from lakelog.client.leased_reads import LeasedReads
from lakelog.client.metastore.metastore import Metastore, ReadyWatches
from lakelog.clock import Clock, SystemClock
from lakelog.format.tables.table import TableInfo
from lakelog.log.opening import LogOpener, open_table_log
from lakelog.storage.lookup.caches import Caches
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.objects.stores import Stores


@dataclass(frozen=True, eq=False)
class Context:
    """What tables, scans, transactions and streams of one catalog share. Threads may share it.

    It pickles as its addresses and settings. A copy has caches, connections and a clock of its own process.

    Args:
        metastore: Has snapshots and names.
        stores: Have the files.
        caches: This process's caches of the tables that it reads.
        leased_reads: The running reads of this process.
        clock: Gives the time and waits.
        rng: Returns a random number in [0, 1), for the jitter of waits.
        open_log: Opens the log of a table.
        reader: The reader services for subscriptions. Without targets there are none, but its TLS files and token serve
            one that is named.
        ready_watches: Subscriptions wait by these, and their readers drive them; None: each has a thread that waits.
    """

    metastore: Metastore
    stores: Stores
    caches: Caches
    leased_reads: LeasedReads
    clock: Clock
    rng: Callable[[], float]
    open_log: LogOpener
    reader: ReaderTarget
    ready_watches: ReadyWatches | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return (_unpickle, (self.metastore, self.stores, self.caches.folder, self.reader))

    def open_store(self, info: TableInfo) -> ObjectStore:
        """The store with a table's files."""
        return self.stores.open(info.location)

    def close(self) -> None:
        """Releases all snapshots, and ends the connections to the metastore; idempotent."""
        self.leased_reads.close()
        self.metastore.close()


def make_context(
    metastore: Metastore,
    stores: Stores,
    *,
    clock: Clock | None = None,
    rng: Callable[[], float] = random.random,
    cache_folder: str | None = None,
    reader: ReaderTarget | None = None,
    open_log: LogOpener = open_table_log,
) -> Context:
    """Makes a context with new caches; arguments as in `lakelog.Catalog`. Never fails."""
    clock = clock or SystemClock()
    caches = Caches(cache_folder, clock)
    return Context(metastore, stores, caches, LeasedReads(metastore), clock, rng, open_log, reader or ReaderTarget(()))


def _unpickle(metastore: Metastore, stores: Stores, cache_folder: str | None, reader: ReaderTarget) -> Context:
    return make_context(metastore, stores, cache_folder=cache_folder, reader=reader)
