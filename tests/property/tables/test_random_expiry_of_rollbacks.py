"""Whatever expires next to compactions, tags and rollbacks, whose entries share files: what is kept shows what it held.

Files that nobody refers to any more are deleted at once. LAKELOG_RANDOM_TABLES makes more of them than CI has time for.
"""

from __future__ import annotations

import os

import pytest

from lakelog.sdk.catalog import Catalog
from tests.property.tables.expiring_history import ExpiringHistory

TABLES = int(os.environ.get("LAKELOG_RANDOM_TABLES", "3"))
FIRST_SEED = int(os.environ.get("LAKELOG_RANDOM_SEED", "1"))


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + TABLES))
def test_what_is_kept_shows_what_it_held(memory_catalog: Catalog, seed: int) -> None:
    check(ExpiringHistory(memory_catalog, f"random.e{seed}", seed))


@pytest.mark.parametrize("seed", range(-FIRST_SEED - TABLES // 2, -FIRST_SEED))
def test_so_it_does_in_a_served_metastore(served_catalog: Catalog, seed: int) -> None:
    check(ExpiringHistory(served_catalog, f"random.e{-seed}", seed))


def check(history: ExpiringHistory) -> None:
    for _ in range(history.random.randrange(8, 16)):
        history.step()
        history.check_newest()
    history.check_what_is_retained()
    history.check_tags()
