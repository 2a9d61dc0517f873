"""Whoever subscribes to several tables never has a half of a transaction, wherever it begins, stops and comes back.

LAKELOG_RANDOM_TABLES makes more rounds than CI has time for, LAKELOG_RANDOM_SEED begins elsewhere.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Sequence
from random import Random

import pyarrow as pa
import pytest

from lakelog.client.metastore.metastore import LatestSnapshot
from lakelog.format.commit.order import CommitOrder
from lakelog.format.tables.snapshot import Snapshot
from lakelog.reads.streams.subscription import Subscription
from lakelog.sdk.catalog import Catalog

ROUNDS = int(os.environ.get("LAKELOG_RANDOM_TABLES", "6"))
FIRST_SEED = int(os.environ.get("LAKELOG_RANDOM_SEED", "1"))
WAIT_S = 30.0
TABLES = ("a", "b", "c")
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])


class Torn(AssertionError):
    """A half of a transaction was seen."""


class Writer:
    """Commits numbers, each to some of the tables at once."""

    def __init__(self, catalog: Catalog, seed: int) -> None:
        self.catalog = catalog
        self.names = [f"tx{seed}.{table}" for table in TABLES]
        self._random = Random(seed)
        self._tables_of: dict[int, frozenset[str]] = {}
        catalog.create_database(f"tx{seed}")
        for name in self.names:
            keyed = {"primary_key": ["id"], "options": {"bucket": "2"}} if name.endswith("b") else {}
            catalog.create_table(name, SCHEMA, **keyed)  # type: ignore[arg-type]

    def commit(self, count: int) -> None:
        for _ in range(count):
            number = len(self._tables_of) + 1
            chosen = self._random.sample(self.names, self._random.choice([1, 2, 2, 3]))
            # Known before it can be seen.
            self._tables_of[number] = frozenset(chosen)
            with self.catalog.transaction() as tx:
                for name in chosen:
                    table = tx.table(name)
                    (table.upsert if name.endswith("b") else table.append)(pa.table({"id": [number]}, SCHEMA))

    def check_whole(self, seen: set[tuple[str, int]], tables: Sequence[str]) -> None:
        for number, chosen in list(self._tables_of.items()):
            of_it = {name for name in tables if (name, number) in seen}
            if of_it and of_it != chosen & set(tables):
                raise Torn(f"of transaction {number} over {sorted(chosen)} only {sorted(of_it)} was seen")


class Reader:
    """Keeps what it has seen of the tables: what is done for good, and what it would lose by dying."""

    def __init__(self, writer: Writer, tables: Sequence[str], mode: str, name: str) -> None:
        self._writer = writer
        self._tables = list(tables)
        self._mode = mode
        self._name = name
        self._done: set[tuple[str, int]] = set()
        self._seen: set[tuple[str, int]] = set()
        self._stream = self._open()

    def _open(self) -> Subscription:
        self._seen = set(self._done)
        return self._writer.catalog.subscribe(self._tables, self._mode, self._name)

    def read(self, timeout_s: float) -> bool:
        """Takes a batch; False when none came. What is done before it is checked."""
        before = self._stream.positions
        seen_before = set(self._seen)
        batch = self._stream.read(timeout_s)
        if self._stream.positions != before:
            self._done = seen_before
            self._writer.check_whole(self._done, self._tables)
        if batch is None:
            return False
        rows = {(batch.table, number) for number in batch.data.column("id").to_pylist()}
        assert not rows & self._seen, "a row came twice"
        self._seen |= rows
        return True

    def stop_and_come_back(self) -> None:
        """What was not done is forgotten, as by a program that dies."""
        self._stream.close()
        self._stream = self._open()

    def catch_up(self) -> None:
        """Reads all there is, and ends."""
        latest = {name: self._writer.catalog.table(name).snapshots().num_rows for name in self._tables}
        end_s = time.monotonic() + WAIT_S
        while self._stream.positions != latest:
            self.read(0.05)
            assert time.monotonic() < end_s, f"{self._stream!r} of {latest}"
        self._stream.close()
        found = {
            (name, number)
            for name in self._tables
            for number in self._writer.catalog.table(name).scan().to_arrow().column("id").to_pylist()
        }
        if self._mode == "latest-full":
            assert self._done == found
        assert self._done <= found


def run(catalog: Catalog, seed: int) -> None:
    writer, random = Writer(catalog, seed), Random(-seed)
    writer.commit(random.randrange(4))
    readers = []
    writing = threading.Thread(target=writer.commit, args=(25,))
    writing.start()
    try:
        for number in range(4):
            tables = random.sample(writer.names, random.choice([2, 3, 3]))
            readers.append(
                Reader(writer, tables, random.choice(["latest-full", "latest-full", "latest"]), f"r{number}")
            )
            for reader in readers:
                for _ in range(random.randrange(12)):
                    reader.read(0.05)
                if random.random() < 0.6:
                    reader.stop_and_come_back()
    finally:
        writing.join()
    for reader in readers:
        reader.catch_up()


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + ROUNDS))
def test_transactions_are_seen_whole(memory_catalog: Catalog, seed: int) -> None:
    run(memory_catalog, seed)


@pytest.mark.parametrize("seed", range(FIRST_SEED + 100, FIRST_SEED + 100 + ROUNDS // 2))
def test_so_they_are_of_a_served_metastore(served_catalog: Catalog, seed: int) -> None:
    run(served_catalog, seed)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody holds a snapshot back for what was committed together with it."""
    add = CommitOrder.add

    def add_alone(order: CommitOrder, table_uuid: str, snapshots: Sequence[Snapshot], *, more: bool = False) -> None:
        add(order, table_uuid, [dataclasses.replace(each, co_committed={}) for each in snapshots], more=more)

    monkeypatch.setattr(CommitOrder, "add", add_alone)


def run_many(catalog: Catalog) -> None:
    for seed in range(FIRST_SEED + 200, FIRST_SEED + 220):
        run(catalog, seed)


@pytest.mark.usefixtures("alone")
def test_control_without_holding_back_a_half_is_seen(memory_catalog: Catalog) -> None:
    with pytest.raises(Torn):
        run_many(memory_catalog)


def begin_many(writer: Writer) -> None:
    for number in range(20):
        Reader(writer, writer.names, "latest-full", f"r{number}").catch_up()


def test_control_tables_looked_at_one_by_one_begin_within_a_transaction(
    memory_catalog: Catalog,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer = Writer(memory_catalog, FIRST_SEED + 300)
    list_latest = memory_catalog.metastore.list_latest

    def look_one_by_one(table_uuids: Sequence[str]) -> list[LatestSnapshot]:
        found = []
        for table_uuid in table_uuids:
            found += list_latest([table_uuid])
            writer.commit(1)
        return found

    monkeypatch.setattr(memory_catalog.metastore, "list_latest", look_one_by_one)
    with pytest.raises(Torn):
        begin_many(writer)
