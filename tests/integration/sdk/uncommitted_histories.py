"""Random writers at tables of every shape: some die, some are tried once more or have rivals, some are replaced.

`Writers` does one step after the other. `Expected` is a model of what a subscriber is to show after each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import Fenced
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.sdk.transaction import Transaction
from tests.integration.sdk.uncommitted_streams import OPTIONS, die

SCHEMA = pa.schema(
    [
        pa.field("p", pa.int64(), nullable=False),
        pa.field("k", pa.int64(), nullable=False),
        ("v", pa.int64()),
        ("w", pa.string()),
    ]
)
NAME = "shop.orders"
KEYS = 6
_VISIBLE = ("+I", "+U")


@dataclass(frozen=True)
class Shape:
    """What a table is like.

    Args:
        options: Its options, besides those of its log.
        keyed: Whether it has a primary key.
        partitioned: Whether it has partitions.
        is_early: Whether rows are shown before their commit.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    keyed: bool = True
    partitioned: bool = False
    is_early: bool = True

    @property
    def sequence(self) -> int:
        """1: the highest value of `v` wins, -1: the lowest, 0: the last row."""
        if "sequence.field" not in self.options:
            return 0
        return -1 if self.options.get("sequence.field.sort-order") == "descending" else 1

    def make(self, catalog: Catalog) -> Table:
        """The table."""
        options = {**OPTIONS, **self.options}
        if not self.keyed:
            del options["bucket"]
        return catalog.create_table(
            NAME,
            SCHEMA,
            primary_key=["p", "k"] if self.keyed else [],
            partition_by=["p"] if self.partitioned else [],
            options=options,
        )


SHAPES: dict[str, Shape] = {
    "keyed": Shape(),
    "one-bucket": Shape({"bucket": "1"}),
    "sequence": Shape({"sequence.field": "v", "log.format": "json"}),
    "descending": Shape({"sequence.field": "v", "sequence.field.sort-order": "descending"}),
    "lookup": Shape({"changelog-producer": "lookup", "log.changelog-mode": "all"}),
    "partitioned": Shape(partitioned=True),
    "partitioned-sequence": Shape({"sequence.field": "v", "bucket": "1"}, partitioned=True),
    "input": Shape({"changelog-producer": "input"}, is_early=False),
    "first-row": Shape({"merge-engine": "first-row"}, is_early=False),
    "append": Shape(keyed=False),
    "append-partitioned": Shape(keyed=False, partitioned=True),
}


@dataclass
class Written:
    """A row that was written: its number, kind and values. Each has a number of its own, which is its `v`."""

    kind: str
    row: tuple[int, int, int, str | None]

    @property
    def key(self) -> int:
        return self.row[1]


@dataclass
class Try:
    """A transaction under a name and a number of its own, or of another one's."""

    tx: Transaction
    writer: str | None
    identifier: int | None
    epoch: int
    rows: list[Written] = field(default_factory=list)

    @property
    def attempt_id(self) -> str:
        return self.tx._attempt.attempt_id


@dataclass
class _Open:
    opened_ms: int
    rows: list[Written]


class Expected:
    """What is to be shown: the table, and behind it what open attempts have sent since its last commit of a key.

    It knows the order of everything, since steps come one after the other, and the reader has seen all before the next.
    """

    def __init__(self, metastore: Metastore, table: Table, shape: Shape) -> None:
        self._metastore = metastore
        self._table = table
        self._shape = shape
        self._records: dict[int, tuple[Written, int]] = {}
        self._open: dict[str, _Open] = {}

    @property
    def has_open(self) -> bool:
        return any(each.rows for each in self._open.values())

    def send(self, attempt: Try, rows: Sequence[Written]) -> None:
        if attempt.attempt_id not in self._open:
            sent = self._metastore.find_attempts(self._table.uuid, [attempt.attempt_id])[attempt.attempt_id]
            self._open[attempt.attempt_id] = _Open(sent.opened_ms, [])
        self._open[attempt.attempt_id].rows.extend(rows)

    def end(self, attempts: Sequence[str]) -> None:
        for each in attempts:
            self._open.pop(each, None)

    def commit(self, rows: Sequence[Written], *, replaces: bool = False) -> None:
        (newest,) = self._metastore.list_snapshots(self._table.uuid, newest=True, limit=1).snapshots
        now_ms, before = newest.committed_at_ms, self._records
        after = {} if replaces else dict(before)
        for each in rows:
            if each.key not in after or self._wins(each, after[each.key][0]):
                after[each.key] = (each, now_ms)
        self._records = after
        decided = {each.key: after[each.key][1] for each in rows}
        decided |= dict.fromkeys(before.keys() - after.keys(), now_ms)
        for attempt in self._open.values():
            attempt.rows = [each for each in attempt.rows if decided.get(each.key, -1) <= attempt.opened_ms]

    def rows(self) -> dict[int, tuple[Any, ...]]:
        """By key."""
        shown = {key: each for key, (each, _) in self._records.items()}
        for attempt in self._open.values():
            for each in attempt.rows:
                if each.key not in shown or self._wins(each, shown[each.key]):
                    shown[each.key] = each
        return {key: each.row for key, each in shown.items() if each.kind in _VISIBLE}

    def _wins(self, later: Written, earlier: Written) -> bool:
        return (later.row[2] - earlier.row[2]) * self._shape.sequence >= 0


class Writers:
    """Writes to one table: some at once, some in transactions that stay open for a while, some of which die.

    Args:
        catalog: The catalog.
        table: The table.
        shape: What it is like.
        draw: Decides.
    """

    def __init__(self, catalog: Catalog, table: Table, shape: Shape, draw: Random) -> None:
        self._catalog = catalog
        self._table = table
        self._shape = shape
        self._rng = draw
        self._numbers = 0
        self._identifiers = 0
        self.expected = Expected(catalog.metastore, table, shape)
        self.open: list[Try] = []
        self.dead: list[Try] = []
        self.written: dict[int, Written] = {}
        self.done: list[str] = []
        """What was done, for messages."""

    def __enter__(self) -> Writers:
        return self

    def __exit__(self, *_: object) -> None:
        for attempt in self.open:
            attempt.tx.abandon()

    def step(self) -> None:
        what = self._rng.choice(
            [
                *("open", "open", "open", "more", "write", "commit", "commit", "abandon"),
                *("die", "die", "retry", "retry", "rival", "register", "overwrite"),
            ]
        )
        self.done.append(what)
        getattr(self, f"_{what}")()

    def end(self) -> None:
        """Nobody writes any more; the dead stay dead."""
        for attempt in list(self.open):
            self._rng.choice([self._commit_one, self._abandon_one])(attempt)

    def _open(self) -> None:
        if len(self.open) >= 4:
            return
        if self._rng.random() < 0.3:
            self._begin(None, None, self._draw_rows())
            return
        self._identifiers += 1
        self._begin(self._rng.choice(["a", "b"]), self._identifiers, self._draw_rows())

    def _more(self) -> None:
        if self.open:
            self._send(self._rng.choice(self.open), self._draw_rows())

    def _write(self) -> None:
        self._open()
        if self.open:
            self._commit_one(self.open[-1])

    def _commit(self) -> None:
        if self.open:
            self._commit_one(self._rng.choice(self.open))

    def _abandon(self) -> None:
        if self.open:
            self._abandon_one(self._rng.choice(self.open))

    def _die(self) -> None:
        if self.open:
            attempt = self.open.pop(self._rng.randrange(len(self.open)))
            die(attempt.tx)
            self.dead.append(attempt)

    def _retry(self) -> None:
        """A dead writer's commit, with the same rows or with others."""
        named = [each for each in self.dead if each.writer is not None]
        if named:
            again = self._rng.choice(named)
            rows = list(again.rows) if self._rng.random() < 0.5 else self._draw_rows()
            self._begin(again.writer, again.identifier, rows)
            if self._rng.random() < 0.7:
                self._commit_one(self.open[-1])

    def _rival(self) -> None:
        named = [each for each in self.open if each.writer is not None]
        if named:
            other = self._rng.choice(named)
            self._begin(other.writer, other.identifier, self._draw_rows())

    def _register(self) -> None:
        if self._rng.random() < 0.5:
            return
        writer = self._rng.choice(["a", "b"])
        epoch = self._catalog.register_writer(writer)
        own = [each for each in (*self.open, *self.dead) if each.writer == writer and each.epoch < epoch]
        self.expected.end([each.attempt_id for each in own])

    def _overwrite(self) -> None:
        if self._shape.keyed and "merge-engine" not in self._shape.options and self._rng.random() < 0.5:
            rows = [Written("+I", each.row) for each in self._draw_rows()]
            self._table.overwrite(_to_table(rows, self._shape, with_kinds=False))
            self.expected.commit(rows, replaces=True)

    def _begin(self, writer: str | None, identifier: int | None, rows: Sequence[Written]) -> None:
        epoch = 0 if writer is None else self._catalog.writer_epoch(writer)
        attempt = Try(self._catalog.transaction(writer=writer, identifier=identifier), writer, identifier, epoch)
        self.open.append(attempt)
        self._send(attempt, rows)

    def _send(self, attempt: Try, rows: Sequence[Written]) -> None:
        attempt.rows.extend(rows)
        target = attempt.tx.table(NAME)
        if self._shape.keyed and self._table.options.get("merge-engine") != "first-row":
            target.write(_to_table(rows, self._shape, with_kinds=True))
        else:
            target.append(_to_table(rows, self._shape, with_kinds=False))
        uncommitted = attempt.tx._table_writes[self._table.uuid].uncommitted
        if uncommitted is not None:
            uncommitted.finish()
        found = self._catalog.metastore.find_attempts(self._table.uuid, [attempt.attempt_id])[attempt.attempt_id]
        if found.state.value == "open":
            self.expected.send(attempt, rows)

    def _commit_one(self, attempt: Try) -> None:
        self.open.remove(attempt)
        try:
            result = attempt.tx.commit()
        except Fenced:
            self.expected.end([attempt.attempt_id])
            return
        self.expected.end([attempt.attempt_id])
        if result.already_applied:
            return
        if attempt.writer is not None:
            same = [
                each.attempt_id
                for each in (*self.open, *self.dead)
                if (each.writer, each.identifier) == (attempt.writer, attempt.identifier)
            ]
            self.expected.end(same)
        self.expected.commit(attempt.rows)

    def _abandon_one(self, attempt: Try) -> None:
        self.open.remove(attempt)
        attempt.tx.abandon()
        self.expected.end([attempt.attempt_id])

    def _draw_rows(self) -> list[Written]:
        rows = []
        for _ in range(self._rng.randrange(1, 4)):
            self._numbers += 1
            key = self._rng.randrange(KEYS)
            value = (key % 2, key, self._numbers, self._rng.choice([None, "", "é"]))
            keyed = self._shape.keyed and "merge-engine" not in self._shape.options
            rows.append(Written(self._rng.choice(["+I", "+I", "+U", "-D"]) if keyed else "+I", value))
            self.written[self._numbers] = rows[-1]
        return rows


def _to_table(rows: Sequence[Written], shape: Shape, *, with_kinds: bool) -> pa.Table:
    columns = list(zip(*(each.row for each in rows), strict=True))
    table = pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA)
    return table.append_column("_row_kind", pa.array([each.kind for each in rows])) if with_kinds else table
