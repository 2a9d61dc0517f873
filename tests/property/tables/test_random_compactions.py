"""Compactions of any neighbouring files, at any moment, change nothing that a table shows, now or of older snapshots.

LAKELOG_RANDOM_TABLES makes more of them than CI has time for, LAKELOG_RANDOM_SEED begins elsewhere.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.clock import SystemClock
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import in_process
from metastore.use_cases import UseCases
from tests.property.tables.compacted import CompactedHistory
from tests.property.tables.test_random_tables import memory_catalog, served_catalog  # noqa: F401
from tests.support.random_tables.columns import ALL_TYPES, TableColumn
from tests.support.random_tables.keyed_changes import check_keyed_changes

TABLES = int(os.environ.get("LAKELOG_RANDOM_TABLES", "8"))
RETENTION_MS = 10
FIRST_SEED = int(os.environ.get("LAKELOG_RANDOM_SEED", "1"))


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + TABLES))
def test_a_compacted_table_shows_what_lists_show(memory_catalog: Catalog, seed: int) -> None:  # noqa: F811
    run(memory_catalog, seed)


@pytest.mark.parametrize("seed", range(-FIRST_SEED - TABLES // 4, -FIRST_SEED))
def test_so_does_one_of_a_served_metastore(served_catalog: Catalog, seed: int) -> None:  # noqa: F811
    run(served_catalog, seed)


@pytest.mark.parametrize("seed", range(FIRST_SEED + 500, FIRST_SEED + 500 + TABLES))
def test_so_does_one_whose_deletes_beat_late_rows_for_a_while(tmp_path: Path, seed: int) -> None:
    clock = SteppedClock()

    async def open_store() -> Store:
        return MemoryStore(clock)

    metastore = in_process(open_store, lambda store: UseCases(store, tmp_path.as_uri()))
    with Catalog(metastore, LocationStores()) as catalog:
        catalog.create_database("random")
        check(LateHistory(catalog, f"random.c{seed}", seed, clock))


class SteppedClock(SystemClock):
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.at_ms = 1_000_000

    def now_ms(self) -> int:
        return self.at_ms


class LateHistory(CompactedHistory):
    """One of a table with a sequence column of few values, whose deletes are over after some commits.

    Without the producer `lookup`: a writer that looks old rows up does not know when its commit will be, and tells a
    late row by the time of its base.
    """

    keyed_share = 1.0
    producers = ("none", "none", "input")

    def __init__(self, catalog: Catalog, name: str, seed: int, clock: SteppedClock) -> None:
        self._clock = clock
        super().__init__(catalog, name, seed)
        self.model.retention_ms = RETENTION_MS

    def now_ms(self) -> int:
        return self._clock.at_ms

    def step(self) -> None:
        self._clock.at_ms += self.random.choice((0, 1, 3, 6, RETENTION_MS + 1))
        super().step()

    def _draw_columns(self) -> None:
        while True:
            super()._draw_columns()
            if self.sequence and not self.kind_column:
                break
        kept = [column for column in self.columns if column.name not in self.sequence]
        self.sequence = self.sequence[:1]
        column_type = next(each for each in ALL_TYPES if each.data_type == pa.int8())
        few = dataclasses.replace(column_type, draw=lambda random: random.randrange(5))
        self.columns = [*kept, TableColumn(self.sequence[0], few, True)]
        self.by_name = {column.name: column for column in self.columns}

    def _draw_options(self) -> None:
        super()._draw_options()
        self.options["sequence.delete-retention"] = f"{RETENTION_MS} ms"


def run(catalog: Catalog, seed: int) -> None:
    check(CompactedHistory(catalog, f"random.c{abs(seed)}", seed))


def check(history: CompactedHistory) -> None:
    for _ in range(history.random.randrange(6, 16)):
        history.step()
        history.check_newest()
    history.check_reads(12)
    for number in range(1, len(history.model.snapshots) + 1):
        assert history.table.scan(snapshot_id=number).count() == len(history.model.snapshots[number - 1].rows)
    history.check_times()
    history.check_listing()
    history.check_order()
    history.check_changes()
    check_keyed_changes(history, 6)
