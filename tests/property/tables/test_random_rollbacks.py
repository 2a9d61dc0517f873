"""Whatever is compacted, tagged and rolled back in between: every snapshot and every tag shows what it held.

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
from tests.property.tables.late_history import LateHistory, SteppedClock
from tests.property.tables.rolled_back import RolledBackHistory, check

TABLES = int(os.environ.get("LAKELOG_RANDOM_TABLES", "4"))
FIRST_SEED = int(os.environ.get("LAKELOG_RANDOM_SEED", "1"))


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + TABLES))
def test_a_table_that_is_rolled_back_shows_what_lists_show(memory_catalog: Catalog, seed: int) -> None:
    check(RolledBackHistory(memory_catalog, f"random.r{seed}", seed))


@pytest.mark.parametrize("seed", range(-FIRST_SEED - TABLES // 3, -FIRST_SEED))
def test_so_does_one_of_a_served_metastore(served_catalog: Catalog, seed: int) -> None:
    check(RolledBackHistory(served_catalog, f"random.r{-seed}", seed))


class LateRolledBackHistory(RolledBackHistory, LateHistory):
    """One whose deletes beat late rows for a while: also when they come back with a state."""

    def __init__(self, catalog: Catalog, name: str, seed: int, clock: SteppedClock) -> None:
        LateHistory.__init__(self, catalog, name, seed, clock)
        self.begin()


@pytest.mark.parametrize("seed", range(FIRST_SEED + 500, FIRST_SEED + 500 + TABLES // 2))
def test_so_does_one_whose_deletes_beat_late_rows_for_a_while(tmp_path: Path, seed: int) -> None:
    clock = SteppedClock()

    async def open_store() -> Store:
        return MemoryStore(clock)

    metastore = in_process(open_store, lambda store: UseCases(store, tmp_path.as_uri()))
    with Catalog(metastore, LocationStores()) as catalog:
        catalog.create_database("random")
        check(LateRolledBackHistory(catalog, f"random.r{seed}", seed, clock))
