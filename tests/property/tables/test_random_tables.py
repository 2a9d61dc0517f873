"""Any table, whatever happens to it, shows what lists and dicts show.

LAKELOG_RANDOM_TABLES makes more of them than CI has time for, LAKELOG_RANDOM_SEED begins elsewhere.
"""

from __future__ import annotations

import os
import pickle

import pytest

from lakelog.sdk.catalog import Catalog
from tests.support.random_tables.history import History
from tests.support.random_tables.keyed_changes import check_keyed_changes
from tests.support.random_tables.system_tables import check_system_tables

TABLES = int(os.environ.get("LAKELOG_RANDOM_TABLES", "12"))
FIRST_SEED = int(os.environ.get("LAKELOG_RANDOM_SEED", "1"))


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + TABLES))
def test_a_table_shows_what_lists_show(memory_catalog: Catalog, seed: int) -> None:
    _run(memory_catalog, seed)


@pytest.mark.parametrize("seed", range(-FIRST_SEED - TABLES // 4, -FIRST_SEED))
def test_so_does_a_table_of_a_served_metastore(served_catalog: Catalog, seed: int) -> None:
    """The same over gRPC and Postgres."""
    _run(served_catalog, seed)


def test_scans_and_changes_can_be_taken_to_another_process(served_catalog: Catalog) -> None:
    history = History(served_catalog, "random.taken", 4)
    assert history.key
    for _ in range(5):
        history.step()
    for scan in (history.table.scan(), history.table.changes(), history.table.changes(raw=True)):
        copied = pickle.loads(pickle.dumps(scan))
        assert copied.schema == scan.schema
        assert repr(copied.to_arrow().to_pylist()) == repr(scan.to_arrow().to_pylist())


def _run(catalog: Catalog, seed: int) -> None:
    history = History(catalog, f"random.t{abs(seed)}", seed)
    for _ in range(history.random.randrange(3, 12)):
        history.step()
        history.check_newest()
    history.check_reads(12)
    history.check_times()
    history.check_listing()
    history.check_order()
    history.check_changes()
    check_keyed_changes(history, 6)
    check_system_tables(history, 4)
