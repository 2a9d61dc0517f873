"""Compactions of any neighbouring files, at any moment, change nothing that a table shows, now or of older snapshots.

LAKELOG_RANDOM_TABLES makes more of them than CI has time for, LAKELOG_RANDOM_SEED begins elsewhere.
"""

from __future__ import annotations

import os

import pytest

from lakelog.catalog import Catalog
from tests.property.tables.compacted import CompactedHistory
from tests.property.tables.keyed_changes import check_keyed_changes
from tests.property.tables.test_random_tables import memory_catalog, served_catalog  # noqa: F401

TABLES = int(os.environ.get("LAKELOG_RANDOM_TABLES", "12"))
FIRST_SEED = int(os.environ.get("LAKELOG_RANDOM_SEED", "1"))


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + TABLES))
def test_a_compacted_table_shows_what_lists_show(memory_catalog: Catalog, seed: int) -> None:  # noqa: F811
    run(memory_catalog, seed)


@pytest.mark.parametrize("seed", range(-FIRST_SEED - TABLES // 4, -FIRST_SEED))
def test_so_does_one_of_a_served_metastore(served_catalog: Catalog, seed: int) -> None:  # noqa: F811
    run(served_catalog, seed)


def run(catalog: Catalog, seed: int) -> None:
    history = CompactedHistory(catalog, f"random.c{abs(seed)}", seed)
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
