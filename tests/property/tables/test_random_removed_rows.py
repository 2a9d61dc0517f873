"""Random histories of append tables from which conditions delete rows, against lists.

Between appends, deletions, overwrites and rollbacks files are compacted. Compactions wait for their commits, so that
they lose races. Snapshots with tags are kept, others expire. Whatever happens, every snapshot shows the rows that its
list has, in tables with buckets in their order.

LAKELOG_RANDOM_TABLES makes more of them than CI has time for, LAKELOG_RANDOM_SEED begins elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import SnapshotExpired
from lakelog.format.commit.request import CommitRequest
from lakelog.format.tables.plan import PlanRequest
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.parquet.live_file import to_live_files
from tests.property.tables.compacted import compact_some, rewrite_some

TABLES = int(os.environ.get("LAKELOG_RANDOM_TABLES", "6"))
FIRST_SEED = int(os.environ.get("LAKELOG_RANDOM_SEED", "1"))

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int64()), ("day", pa.string())])
Row = tuple[int, int | None, str]


class Removals:
    """An append table and its rows by snapshot.

    Args:
        catalog: Where the table is made.
        name: Its full name.
        random: Decides everything.
    """

    def __init__(self, catalog: Catalog, name: str, random: Random) -> None:
        self.random = random
        self.ordered = random.random() < 0.5
        options = {"target-file-size": random.choice(["1 kb", "1 mb"]), "compaction.min.file-num": "2"}
        if self.ordered:
            options |= {"bucket": "1", "bucket-key": "id"}
        partitions = ["day"] if random.random() < 0.5 else []
        self.table: Table = catalog.create_table(name, SCHEMA, partition_by=partitions, options=options)
        self.states: dict[int, list[Row]] = {0: []}
        self.tags: dict[str, int] = {}
        self.waiting: list[CommitRequest] = []
        self.removed = 0
        self.next_id = 0

    @property
    def latest(self) -> int:
        return max(self.states)

    def step(self) -> None:
        steps: list[tuple[Callable[[], None], int]] = [
            (self.append, 4),
            (self.delete, 5),
            (self.begin_compaction, 4),
            (self.end_compaction, 4),
            (self.rollback, 1),
            (self.overwrite, 1),
            (self.tag, 1),
            (self.expire, 1),
        ]
        do, weights = zip(*steps, strict=True)
        self.random.choices(do, weights)[0]()

    def append(self) -> None:
        count = self.random.randint(1, 30)
        rows: list[Row] = [
            (self.next_id + each, self.random.choice([None, *range(6)]), self.random.choice("ab"))
            for each in range(count)
        ]
        self.next_id += count
        self.table.append(to_table(rows))
        self.states[self.latest + 1] = self.states[self.latest] + rows

    def delete(self) -> None:
        low, value, day = self.random.randrange(self.next_id + 1), self.random.randrange(6), self.random.choice("ab")
        choices: list[tuple[str, Callable[[Row], bool]]] = [
            (f"id >= {low} AND id < {low + 7}", lambda row: low <= row[0] < low + 7),
            (f"v = {value}", lambda row: row[1] == value),
            (f"day = '{day}' AND v <> {value}", lambda row: row[2] == day and row[1] not in (None, value)),
            (f"day = '{day}' AND id % 3 = 0", lambda row: row[2] == day and row[0] % 3 == 0),
            ("v IS NULL", lambda row: row[1] is None),
            *([(f"day = '{day}'", lambda row: row[2] == day)] if self.random.random() < 0.2 else []),
        ]
        condition, goes = self.random.choice(choices)
        rows = self.states[self.latest]
        left = [row for row in rows if not goes(row)]
        result = self.table.delete_where(condition)
        assert result.deleted_rows == len(rows) - len(left), condition
        self.removed += len(rows) - len(left)
        if len(left) < len(rows):
            assert result.snapshot_id == self.latest + 1
            self.states[self.latest + 1] = left
        else:
            assert result.snapshot_id is None

    def begin_compaction(self) -> None:
        found = self.random.choice((compact_some, rewrite_some))(self.table, self.random)
        if found is not None:
            self.waiting.append(found)

    def end_compaction(self) -> None:
        if not self.waiting:
            return
        request = self.waiting.pop(self.random.randrange(len(self.waiting)))
        (result,) = self.table._context.metastore.commit(request).results
        if result.snapshot_id is not None:
            self.states[result.snapshot_id] = self.states[result.snapshot_id - 1]

    def rollback(self) -> None:
        wanted: Any = self.random.choice([*self.tags, *[each for each in self.states if each]] or [None])
        if wanted is None:
            return
        at = self.tags.get(wanted, wanted)
        try:
            result = self.table.rollback_to(wanted)
        except SnapshotExpired:
            return
        if result.snapshot_id is not None:
            self.states[result.snapshot_id] = self.states[at]

    def overwrite(self) -> None:
        rows: list[Row] = [(self.next_id, 1, "a")]
        self.next_id += 1
        self.table.overwrite(to_table(rows))
        self.states[self.latest + 1] = rows

    def tag(self) -> None:
        if self.latest:
            name = f"t{len(self.tags)}"
            self.table.tags.create(name)
            self.tags[name] = self.latest

    def expire(self) -> None:
        if self.latest > 3:
            self.table.expire_snapshots(older_than="2100-01-01", retain_last=3)

    def check(self) -> None:
        """Compares what can be read with the lists."""
        self._compare(self.states[self.latest])
        if not self.latest:
            return
        assert self.table.count() == len(self.states[self.latest])
        wanted = self.random.randint(1, self.latest)
        try:
            self._compare(self.states[wanted], snapshot_id=wanted)
        except SnapshotExpired:
            assert wanted not in self.table.snapshots()["id"].to_pylist()
        for name, at in self.tags.items():
            self._compare(self.states[at], tag=name)
        for file in to_live_files(self.table._context.metastore.plan(PlanRequest(self.table.uuid)).files):
            assert 0 <= file.delete_count < file.row_count
            assert (file.delete_count > 0) is (file.deletion_vector_path is not None)

    def _compare(self, rows: list[Row], **at: Any) -> None:
        shown: list[Row] = [(row["id"], row["v"], row["day"]) for row in self.table.scan(**at).to_arrow().to_pylist()]
        if self.ordered:
            for day in "ab" if self.table.partition_by else [""]:
                mine, theirs = ([row for row in found if not day or row[2] == day] for found in (shown, rows))
                assert mine == theirs
        assert sorted(shown, key=str) == sorted(rows, key=str)


def to_table(rows: list[Row]) -> pa.Table:
    return pa.table(dict(zip(SCHEMA.names, zip(*rows, strict=True), strict=True)), schema=SCHEMA)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + TABLES))
def test_every_state_shows_its_rows(memory_catalog: Catalog, seed: int) -> None:
    history = Removals(memory_catalog, f"random.removals{seed}", Random(seed))
    for _ in range(60):
        history.step()
        history.check()
    assert history.removed


@pytest.mark.parametrize("seed", range(-FIRST_SEED - TABLES // 3, -FIRST_SEED))
def test_so_does_one_of_a_served_metastore(served_catalog: Catalog, seed: int) -> None:
    history = Removals(served_catalog, f"random.removals{-seed}", Random(seed))
    for _ in range(40):
        history.step()
        history.check()
    assert history.removed
