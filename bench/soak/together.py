"""A reader of several tables at once: what was committed to them together it has seen together, wherever it stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from random import Random

import lakelog
from bench.soak.readers import SoakError, State, latest_snapshot
from bench.soak.tables import SoakTable
from lakelog.errors import Fenced, OutcomeUnknown, Unavailable
from lakelog.reads.streams.batch import StreamBatch
from lakelog.sdk.catalog import Catalog


class TogetherReader:
    """Follows some tables by one subscription until all is written and read.

    Args:
        target: The metastore, perhaps through a proxy.
        tables: The tables.
        seed: Decides when it dies.
        ended: Set when nothing more will be written.
    """

    def __init__(self, target: str, tables: Sequence[SoakTable], seed: int, ended: threading.Event) -> None:
        self._target = target
        self._tables = {table.full_name: table for table in tables}
        self._random = Random(seed)
        self._ended = ended
        self._states = {name: State(table.keyed) for name, table in self._tables.items()}
        self._applied = dict.fromkeys(self._tables, 0)
        self._pending: list[StreamBatch] = []
        self._stops: list[Mapping[str, int]] = []
        self.batches = 0
        self.comebacks = 0
        self.handed_again = 0
        self.fenced = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        """Reads until all is read; keeps what went wrong in `error`."""
        try:
            with lakelog.connect(self._target) as catalog:
                while not self._follow(catalog):
                    self._pending = []
                    self.comebacks += 1
        except BaseException as error:
            self.error = error

    def compare(self, catalog: Catalog) -> None:
        """Raises SoakError where a table has other rows than this reader knows, or it stopped inside of a commit."""
        if self.error is not None:
            raise SoakError(f"together: {type(self.error).__name__}: {self.error}") from self.error
        names: dict[str, str] = {}
        for name, table in self._tables.items():
            found = catalog.table(name)
            names[found.uuid] = name
            wanted = State(table.keyed)
            wanted.load(found.scan().to_arrow())
            if self._states[name].sorted_rows() != wanted.sorted_rows():
                raise SoakError(f"together: it knows other rows than {name} has")
        for uuid, name in names.items():
            for snapshot in catalog.metastore.list_snapshots(uuid, limit=10_000).snapshots:
                for other, snapshot_id in snapshot.co_committed.items():
                    for stop in self._stops if other in names else ():
                        if (stop[name] >= snapshot.snapshot_id) is not (stop[names[other]] >= snapshot_id):
                            raise SoakError(f"together: at {dict(stop)} it has half of the commit of {name} {snapshot}")

    def _follow(self, catalog: Catalog) -> bool:
        dies_after = self._random.randrange(1, 60)
        try:
            with catalog.subscribe(list(self._tables), "latest-full", "together") as stream:
                while True:
                    batch = stream.read(0.5)
                    self._settle(stream.positions)
                    if batch is not None:
                        self.batches += 1
                        self._pending.append(batch)
                        dies_after -= 1
                    elif self._ended.is_set() and stream.positions == self._latest(catalog):
                        return True
                    if dies_after == 0 and not self._ended.is_set():
                        return False
        except (OutcomeUnknown, Unavailable, Fenced):
            time.sleep(0.1)
            return False

    def _settle(self, positions: Mapping[str, int]) -> None:
        if not positions or positions == self._applied:
            return
        left = []
        for batch in self._pending:
            if batch.snapshot_id > positions[batch.table]:
                left.append(batch)
            elif batch.snapshot_id <= self._applied[batch.table]:
                self.handed_again += 1
            else:
                self._states[batch.table].apply(batch.data, f"together, {batch.table} {batch.snapshot_id}")
        self._pending = left
        self._applied = dict(positions)
        self._stops.append(self._applied)

    def _latest(self, catalog: Catalog) -> dict[str, int]:
        return {name: latest_snapshot(catalog.table(name)) for name in self._tables}
