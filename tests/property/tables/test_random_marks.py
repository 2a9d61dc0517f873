"""Whatever is written, compacted and rolled back around its marks, a table shows what lists show.

LAKELOG_RANDOM_TABLES makes more of them than CI has time for, LAKELOG_RANDOM_SEED begins elsewhere.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from lakelog.catalog import Catalog
from lakelog.format.commit import CommitRequest
from lakelog.storage import superseded
from tests.property.tables.compacted import mark_some
from tests.property.tables.rolled_back import RolledBackHistory
from tests.property.tables.test_random_rollbacks import check
from tests.property.tables.test_random_tables import memory_catalog, served_catalog  # noqa: F401

TABLES = int(os.environ.get("LAKELOG_RANDOM_TABLES", "3"))
FIRST_SEED = int(os.environ.get("LAKELOG_RANDOM_SEED", "1"))


class MarkedHistory(RolledBackHistory):
    """A history of a table with a key whose buckets are marked again and again, at once or when others came before."""

    keyed_share = 1.0
    producers = ("none", "none", "input", "lookup")

    def begin(self) -> None:
        """Nothing waits to be committed."""
        super().begin()
        self._found: list[CommitRequest] = []

    def step(self) -> None:
        """One of a history's steps, and marks that were found before it, or are found now."""
        super().step()
        if (found := mark_some(self.table, self.random)) is not None:
            self._found.append(found)
        while self._found and self.random.random() < 0.7:
            self.commit_rewritten(self._found.pop(0))
        self._note_states()
        # Else reads would go by what they have found before.
        self.table._catalog.caches.positions.clear()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[bool]:
    """How many sections with marks were read by their positions, and how many merged for files that are gone."""
    counts: Counter[bool] = Counter()
    read = superseded._Section._read_committed

    def count(self: superseded._Section) -> object:
        found = read(self)
        if any(file.superseded_path and file.added_snapshot != file.order_snapshot for file in self._files):
            counts[found is not None] += 1
        return found

    monkeypatch.setattr(superseded._Section, "_read_committed", count)
    return counts


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + TABLES))
def test_a_marked_table_shows_what_lists_show(memory_catalog: Catalog, seed: int) -> None:  # noqa: F811
    check(MarkedHistory(memory_catalog, f"random.m{seed}", seed))


@pytest.mark.parametrize("seed", range(-FIRST_SEED - TABLES // 3, -FIRST_SEED))
def test_so_does_one_of_a_served_metastore(served_catalog: Catalog, seed: int) -> None:  # noqa: F811
    check(MarkedHistory(served_catalog, f"random.m{-seed}", seed))


def test_what_is_marked_is_read_so(memory_catalog: Catalog, reads: Counter[bool]) -> None:  # noqa: F811
    """In some of these histories at least: else they would show nothing."""
    for seed in range(1, 20):
        history = MarkedHistory(memory_catalog, f"random.n{seed}", seed)
        for _ in range(8):
            history.step()
            history.check_newest()
        if reads[True] > 3:
            return
    raise AssertionError(f"marks are not made, or not read: {reads}")
