"""Writers of a soak: each repeats what it does not know the end of, under the same number, until it is done."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from typing import Final

import numpy as np
import pyarrow as pa

import lakelog
from bench.soak.tables import KEYS, SCHEMA, TABLES, SoakTable
from lakelog.errors import OutcomeUnknown, ResourceExhausted, Unavailable
from lakelog.results import WriteResult
from lakelog.sdk.catalog import Catalog

_PAUSE_S: Final = 0.05
_ROWS: Final = 40


class SoakWriter:
    """Writes to all tables until told to stop.

    Args:
        target: The metastore, perhaps through a proxy.
        name: The writer's.
        seed: Decides what it writes.
        stop: When it ends.
    """

    def __init__(self, target: str, name: str, seed: int, stop: threading.Event) -> None:
        self._target = target
        self._name = name
        self._random = Random(seed)
        self._stop = stop
        self.commits = 0
        self.repeats = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        """Writes until stopped; keeps what went wrong in `error`."""
        try:
            with lakelog.connect(self._target) as catalog:
                identifier = 0
                while not self._stop.is_set():
                    identifier += 1
                    self._write(catalog, identifier)
                    self.commits += 1
                    self._stop.wait(_PAUSE_S * self._random.random())
        except BaseException as error:
            self.error = error

    def _write(self, catalog: Catalog, identifier: int) -> None:
        chosen = self._random.sample(TABLES, self._random.choice((1, 1, 1, 2)))
        if len(chosen) == 1:
            self._repeat(self._pick_call(catalog, chosen[0], identifier))
            return
        rows = [self._rows() for _ in chosen]

        def commit_both() -> WriteResult:
            with catalog.transaction(writer=self._name, identifier=identifier) as transaction:
                for table, own in zip(chosen, rows, strict=True):
                    transaction.table(table.full_name).append(own)
            return WriteResult(None, False)

        self._repeat(commit_both)

    def _pick_call(self, catalog: Catalog, chosen: SoakTable, identifier: int) -> Callable[[], WriteResult]:
        table = catalog.table(chosen.full_name)
        name = self._name
        rows = self._rows()
        kind = self._random.random()
        if chosen.deletes and kind < 0.25:
            keys = rows.select(["k", "v"] if "sequence.field" in chosen.options else ["k"])
            return lambda: table.delete(keys, writer=name, identifier=identifier)
        if chosen.overwrites and kind < 0.27:
            return lambda: table.overwrite(rows, writer=name, identifier=identifier)
        return lambda: table.append(rows, writer=name, identifier=identifier)

    def _repeat(self, call: Callable[[], WriteResult]) -> None:
        while True:
            try:
                call()
            except (OutcomeUnknown, Unavailable, ResourceExhausted):
                self.repeats += 1
                if self._stop.wait(0.2) and self.repeats > 10_000:
                    raise
            else:
                return

    def _rows(self) -> pa.Table:
        random = np.random.default_rng(self._random.randrange(1 << 60))
        count = int(random.integers(1, _ROWS))
        columns = [random.integers(0, KEYS, count), random.integers(0, 50, count), random.integers(0, 9, count)]
        return pa.table([columns[0], columns[1], pa.array(columns[2]).cast(pa.string())], schema=SCHEMA)
