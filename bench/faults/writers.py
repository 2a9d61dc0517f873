"""A writer of the fault lab: a process that copies its source into a table, going on from where the metastore says."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from bench.faults.tables import make_batch
from lakelog.client.connection.retry import Deadlines, RetryPolicy
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.errors import CommitConflict, LakelogError, OutcomeUnknown, Unavailable
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores

_TRY_S: Final = 2.0
_LONGEST_PAUSE_S: Final = 0.06
_END_S: Final = 30.0

# Forked from one that has imported everything: a start takes a hundredth of what it would take from nothing.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["bench.faults.writers"])


@dataclass(frozen=True)
class Orders:
    """What a writer is to do.

    Args:
        target: The metastore.
        table: Its table.
        writer: Its name.
        seed: Decides what it writes.
        keyed: Whether the table has a key.
        large: As of `make_batch`.
    """

    target: str
    table: str
    writer: str
    seed: int
    keyed: bool
    large: float


class WriterProcess:
    """A running writer, and its successors."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._process: Any = None
        self.start()

    def start(self) -> None:
        """Starts it, or its successor."""
        name = f"writer {self._orders.writer}"
        self._process = _FORKS.Process(target=write, args=(self._orders,), name=name, daemon=True)
        self._process.start()

    def kill(self) -> None:
        """Ends it by SIGKILL."""
        self._signal(signal.SIGKILL)
        self._process.join(_END_S)

    def freeze(self) -> None:
        """Stops it until `thaw`."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets it go on."""
        self._signal(signal.SIGCONT)

    def finish(self) -> None:
        """Lets it end behind the batch in hand; raises AssertionError where it does not, or ended with an error."""
        self._signal(signal.SIGTERM)
        self._process.join(_END_S)
        if self._process.exitcode is None:
            self.kill()
        code = self._process.exitcode
        # A successor may not have come as far as to listen for the signal; then it has done nothing.
        assert code in (0, -signal.SIGTERM), f"writer {self._orders.writer} ended with {code}"

    def _signal(self, number: signal.Signals) -> None:
        if self._process.is_alive():
            os.kill(self._process.pid, number)


def write(orders: Orders) -> None:
    """The process."""
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    deadlines, retries = Deadlines(connect_s=2.0, call_s=_TRY_S), RetryPolicy(total_s=_TRY_S, commit_total_s=_TRY_S)
    catalog = Catalog(GrpcMetastore(orders.target, deadlines=deadlines, retries=retries), LocationStores())
    dice = Random()
    last = _find_last(catalog, orders)
    while not stopping:
        last += 1
        _commit(catalog, orders, last)
        time.sleep(dice.uniform(0.0, _LONGEST_PAUSE_S))


def _find_last(catalog: Catalog, orders: Orders) -> int:
    while True:
        try:
            table = catalog.table(orders.table)
            return catalog.metastore.get_writer_progress(orders.writer, table.uuid).last_identifier or 0
        except Unavailable:
            time.sleep(0.05)


def _commit(catalog: Catalog, orders: Orders, identifier: int) -> None:
    """Repeats what it does not know the end of, under the same number."""
    batch = make_batch(orders.seed, orders.writer, identifier, keyed=orders.keyed, large=orders.large)
    while True:
        try:
            catalog.table(orders.table).write(batch, writer=orders.writer, identifier=identifier)
        except (OutcomeUnknown, Unavailable, CommitConflict):
            time.sleep(0.05)
        except LakelogError as error:
            raise AssertionError(f"{orders.writer} {identifier}: {error}") from error
        else:
            return
