"""Compactions of any neighbouring files, at any moment, change nothing that a table shows, now or of older snapshots.

LAKELOG_RANDOM_TABLES makes more of them than CI has time for, LAKELOG_RANDOM_SEED begins elsewhere.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import in_process
from metastore.use_cases import UseCases
from tests.property.tables.compacted import CompactedHistory
from tests.property.tables.late_history import LateHistory, SteppedClock
from tests.support.random_tables.keyed_changes import check_keyed_changes

TABLES = int(os.environ.get("LAKELOG_RANDOM_TABLES", "8"))
FIRST_SEED = int(os.environ.get("LAKELOG_RANDOM_SEED", "1"))


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + TABLES))
def test_a_compacted_table_shows_what_lists_show(memory_catalog: Catalog, seed: int) -> None:
    run(memory_catalog, seed)


@pytest.mark.parametrize("seed", range(-FIRST_SEED - TABLES // 4, -FIRST_SEED))
def test_so_does_one_of_a_served_metastore(served_catalog: Catalog, seed: int) -> None:
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
