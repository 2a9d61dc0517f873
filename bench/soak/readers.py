"""Readers of a soak: each keeps the table from its changes alone, dies now and then, and comes back.

A reader that dies forgets what it had not finished, as a program does whose state is written with its position. One
whose position could not be kept before it died is handed snapshots anew, which it knows by their number.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from random import Random
from typing import Any, Final

import pyarrow as pa

import lakelog
from bench.soak.tables import SoakTable
from lakelog.errors import Fenced, OutcomeUnknown, Unavailable
from lakelog.reads.streams.batch import StreamBatch
from lakelog.reads.streams.subscription import Subscription
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table

MODES: Final = (
    "latest-full",
    "latest",
    "from-snapshot",
    "from-snapshot-full",
    "from-timestamp",
    "from-file-creation-time",
    "compacted-full",
)

_LEFT_OPEN: Final = 0.2
"""Of the readers that die, so many are still open when they come back."""

_FENCED_WITHIN_S: Final = 60.0
"""A reader asks at least every 15 s whether it still is the one; behind a proxy that fails, some more times."""

Row = tuple[Any, ...]


class SoakError(AssertionError):
    """What a reader was told does not fit what it knew."""


class State:
    """The rows of a table as its changes tell them.

    Args:
        keyed: Whether a row replaces the one with its key.
    """

    def __init__(self, keyed: bool) -> None:
        self._keyed = keyed
        self._rows: Counter[Row] = Counter()
        self._by_key: dict[Any, Row] = {}

    def apply(self, data: pa.RecordBatch, description: str) -> None:
        """Takes changes.

        Raises:
            SoakError: An old row is not the one that is there, or a new one comes where there is one.
        """
        for row in data.to_pylist():
            kind = row.pop("_row_kind", "+I")
            values = (row["k"], row["v"], row["s"])
            if not self._keyed:
                self._rows[values] += 1
                continue
            held = self._by_key.get(values[0])
            if kind in ("-U", "-D"):
                if held != values:
                    raise SoakError(f"{description}: {kind} {values}, but {held} is there")
                del self._by_key[values[0]]
            elif held is not None:
                raise SoakError(f"{description}: {kind} {values}, but {held} is there")
            else:
                self._by_key[values[0]] = values

    def load(self, rows: pa.Table) -> None:
        """Begins with the rows of a state."""
        for batch in rows.to_batches():
            self.apply(batch, "state")

    def sorted_rows(self) -> list[Row]:
        """All rows, in an order of their own."""
        rows = self._by_key.values() if self._keyed else self._rows.elements()
        return sorted(rows, key=repr)


def latest_snapshot(table: Table) -> int:
    """The number of a table's newest snapshot; 0: it has none."""
    found = table.snapshots(limit=1)
    return int(found.column("id")[0].as_py()) if found.num_rows else 0


class SoakReader:
    """Follows a table in one mode until all is written and read.

    Args:
        target: The metastore, perhaps through a proxy.
        table: The table.
        mode: The scan mode; `changes` asks for ranges instead of subscribing.
        seed: Decides when it dies.
        ended: Set when nothing more will be written.
    """

    def __init__(self, target: str, table: SoakTable, mode: str, seed: int, ended: threading.Event) -> None:
        self._target = target
        self.table = table
        self._mode = mode
        self._random = Random(seed)
        self._ended = ended
        self._state: State | None = None
        self._pending: list[StreamBatch] = []
        self._applied = 0
        self.batches = 0
        self.comebacks = 0
        self.handed_again = 0
        self.fenced = 0
        self.error: BaseException | None = None

    def __repr__(self) -> str:
        return f"{self.table.name} by {self._mode}"

    def run(self) -> None:
        """Reads until all is read; keeps what went wrong in `error`."""
        try:
            with lakelog.connect(self._target) as catalog:
                follow = self._request if self._mode == "changes" else self._follow
                while not follow(catalog, catalog.table(self.table.full_name)):
                    self._pending = []
                    self.comebacks += 1
        except BaseException as error:
            self.error = error

    def _follow(self, catalog: Catalog, table: Table) -> bool:
        """Subscribes for a while; True when it has read all there will be."""
        dies_after = self._random.randrange(1, 60)
        try:
            with table.subscribe(self._mode, self._consumer, options=self._options(table)) as stream:
                while True:
                    batch = stream.read(0.5)
                    self._settle(table, stream.position)
                    if batch is not None:
                        self.batches += 1
                        self._pending.append(batch)
                        dies_after -= 1
                    elif self._ended.is_set() and stream.position == latest_snapshot(table):
                        return True
                    if dies_after == 0 and not self._ended.is_set():
                        if self._random.random() < _LEFT_OPEN:
                            self._take_over(table, stream)
                        return False
        except (OutcomeUnknown, Unavailable, Fenced):
            time.sleep(0.1)
            return False

    def _take_over(self, table: Table, stream: Subscription) -> None:
        """Comes back while the one that died is still open, which then may not read on."""
        with table.subscribe(self._mode, self._consumer, options=self._options(table)):
            give_up_s = time.monotonic() + _FENCED_WITHIN_S
            while time.monotonic() < give_up_s:
                try:
                    stream.read(0.2)
                except Fenced:
                    self.fenced += 1
                    return
            raise SoakError(f"{self!r}: two readers of one consumer")

    @property
    def _consumer(self) -> str:
        return self._mode.replace("-", "_")

    def _options(self, table: Table) -> dict[str, Any]:
        match self._mode:
            case "from-snapshot":
                return {"scan.snapshot-id": 1}
            case "from-snapshot-full":
                return {"scan.snapshot-id": max(1, latest_snapshot(table))}
            case "from-timestamp":
                return {"scan.timestamp-millis": int(time.time() * 1000) - 1000}
            case "from-file-creation-time":
                return {"scan.file-creation-time-millis": 0}
        return {}

    def _settle(self, table: Table, position: int | None) -> None:
        """Takes for good what the stream says is done."""
        if position is None:
            return
        done = [batch for batch in self._pending if batch.snapshot_id <= position]
        self._pending = self._pending[len(done) :]
        for batch in done:
            if batch.snapshot_id <= self._applied:
                self.handed_again += 1
                continue
            self._begin(table, batch.snapshot_id)
            assert self._state is not None, "it was begun"
            self._state.apply(batch.data, f"{self!r}, snapshot {batch.snapshot_id}")
        self._applied = max(self._applied, position)

    def _begin(self, table: Table, snapshot_id: int) -> None:
        if self._state is not None:
            return
        self._state = State(self.table.keyed)
        if not self._mode.endswith("full") and self._mode != "from-file-creation-time" and snapshot_id > 1:
            self._state.load(table.scan(snapshot_id=snapshot_id - 1).to_arrow())

    def _request(self, catalog: Catalog, table: Table) -> bool:
        self._state = self._state or State(self.table.keyed)
        try:
            while True:
                was_ended, latest = self._ended.is_set(), latest_snapshot(table)
                until = min(latest, self._applied + self._random.randrange(1, 20))
                if until > self._applied:
                    # Whole or not at all.
                    changes = table.changes(self._applied, until).to_arrow()
                    for batch in changes.to_batches():
                        self.batches += 1
                        self._state.apply(batch, f"{self!r}, snapshots {self._applied + 1} to {until}")
                    self._applied = until
                elif was_ended:
                    return True
                else:
                    time.sleep(0.2)
        except (OutcomeUnknown, Unavailable):
            time.sleep(0.1)
            return False

    def compare(self, table: Table) -> None:
        """Raises SoakError where the table has other rows than this reader knows."""
        if self.error is not None:
            raise SoakError(f"{self!r}: {type(self.error).__name__}: {self.error}") from self.error
        if self._state is None:
            return
        wanted = State(self.table.keyed)
        wanted.load(table.scan().to_arrow())
        if self._state.sorted_rows() != wanted.sorted_rows():
            raise SoakError(f"{self!r} knows other rows than the table has")
