"""However columns change between writes, compactions and rollbacks: every state shows its rows with its own columns.

LAKELOG_RANDOM_TABLES makes more of them than CI has time for, LAKELOG_RANDOM_SEED begins elsewhere.
"""

from __future__ import annotations

import os

import pytest

from lakelog.sdk.catalog import Catalog
from tests.property.tables.altered import AlteredHistory
from tests.property.tables.expiring_history import ExpiringHistory
from tests.support.random_tables.keyed_changes import check_keyed_changes

TABLES = int(os.environ.get("LAKELOG_RANDOM_TABLES", "8"))
FIRST_SEED = int(os.environ.get("LAKELOG_RANDOM_SEED", "1"))


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + TABLES))
def test_a_table_whose_columns_change_shows_what_lists_show(memory_catalog: Catalog, seed: int) -> None:
    check(AlteredHistory(memory_catalog, f"random.a{seed}", seed))


@pytest.mark.parametrize("seed", range(-FIRST_SEED - TABLES // 4, -FIRST_SEED))
def test_so_does_one_of_a_served_metastore(served_catalog: Catalog, seed: int) -> None:
    check(AlteredHistory(served_catalog, f"random.a{-seed}", seed))


@pytest.mark.parametrize("seed", range(FIRST_SEED + 500, FIRST_SEED + 500 + TABLES // 2))
def test_so_does_one_whose_older_part_expires(memory_catalog: Catalog, seed: int) -> None:
    history = AlteredExpiringHistory(memory_catalog, f"random.a{seed}", seed)
    for _ in range(history.random.randrange(8, 16)):
        history.step()
        history.check_newest()
    history.check_what_is_retained()
    history.check_tags()


class AlteredExpiringHistory(AlteredHistory, ExpiringHistory):
    """A history in which columns change, and of which the older part goes."""


def check(history: AlteredHistory) -> None:
    for _ in range(history.random.randrange(6, 14)):
        history.step()
        history.check_newest()
    history.check_columns_of_then()
    history.check_reads(12)
    history.check_times()
    history.check_tags()
    history.check_listing()
    history.check_order()
    history.forget_then()
    history.check_changes()
    check_keyed_changes(history, 6)
    history.check_shown_overwrites()
