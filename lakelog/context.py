"""What everything that one catalog makes has in common: where things are, what is remembered of them, and the time."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from lakelog.client.connection.reader_target import ReaderTarget
from lakelog.client.leased_reads import LeasedReads
from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import Clock, SystemClock
from lakelog.format.tables.table import TableInfo
from lakelog.log.opening import LogOpener, open_table_log
from lakelog.storage.lookup.caches import Caches
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.objects.stores import Stores


@dataclass(frozen=True, eq=False)
class Context:
    """What tables, scans, transactions and streams of one catalog share. Threads may share it.

    It pickles as what says where things are. A copy has caches, connections and a clock of its own process.

    Args:
        metastore: Where snapshots and names are kept.
        stores: Where the files are.
        caches: What this process keeps of tables that it reads.
        leased_reads: The reads that are going on in this process.
        clock: For the time and for waiting.
        rng: A random number in [0, 1), for the jitter of waits.
        open_log: Opens the log of a table.
        reader: Which reader services read for subscriptions; without targets: none, but how to talk to one that is
            named.
    """

    metastore: Metastore
    stores: Stores
    caches: Caches
    leased_reads: LeasedReads
    clock: Clock
    rng: Callable[[], float]
    open_log: LogOpener
    reader: ReaderTarget

    def __reduce__(self) -> tuple[object, ...]:
        return (_unpickle, (self.metastore, self.stores, self.caches.folder, self.reader))

    def open_store(self, info: TableInfo) -> ObjectStore:
        """Where a table's files are."""
        return self.stores.open(info.location)

    def close(self) -> None:
        """Holds no snapshot any more, and ends the connections to the metastore; idempotent."""
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
    """Makes a context with new caches; arguments as of `lakelog.Catalog`. Does nothing that can fail."""
    clock = clock or SystemClock()
    caches = Caches(cache_folder, clock)
    return Context(metastore, stores, caches, LeasedReads(metastore), clock, rng, open_log, reader or ReaderTarget(()))


def _unpickle(metastore: Metastore, stores: Stores, cache_folder: str | None, reader: ReaderTarget) -> Context:
    return make_context(metastore, stores, cache_folder=cache_folder, reader=reader)
