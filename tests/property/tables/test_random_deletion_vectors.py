"""Whatever is written, compacted and rolled back around its marks, a table shows what lists show.

LAKELOG_RANDOM_TABLES makes more of them than CI has time for, LAKELOG_RANDOM_SEED begins elsewhere.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from lakelog.format.commit.request import CommitRequest
from lakelog.sdk.catalog import Catalog
from lakelog.storage.merging import deletion_vectors
from tests.property.tables.compacted import build_some
from tests.property.tables.rolled_back import RolledBackHistory, check

TABLES = int(os.environ.get("LAKELOG_RANDOM_TABLES", "3"))
FIRST_SEED = int(os.environ.get("LAKELOG_RANDOM_SEED", "1"))


class VectoredHistory(RolledBackHistory):
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
        if (found := build_some(self.table, self.random)) is not None:
            self._found.append(found)
        while self._found and self.random.random() < 0.7:
            self.commit_rewritten(self._found.pop(0))
        self._note_states()
        # Else reads would go by what they have found before.
        self.table._context.caches.deletion_vectors.clear()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[bool]:
    """How many sections with marks were read by their positions, and how many merged for files that are gone."""
    counts: Counter[bool] = Counter()
    read = deletion_vectors._Section._read_committed

    def count(self: deletion_vectors._Section) -> object:
        found = read(self)
        if any(file.deletion_vector_path and file.added_snapshot != file.order_snapshot for file in self._files):
            counts[found is not None] += 1
        return found

    monkeypatch.setattr(deletion_vectors._Section, "_read_committed", count)
    return counts


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + TABLES))
def test_a_table_with_deletion_vectors_shows_what_lists_show(memory_catalog: Catalog, seed: int) -> None:
    check(VectoredHistory(memory_catalog, f"random.m{seed}", seed))


@pytest.mark.parametrize("seed", range(-FIRST_SEED - TABLES // 3, -FIRST_SEED))
def test_so_does_one_of_a_served_metastore(served_catalog: Catalog, seed: int) -> None:
    check(VectoredHistory(served_catalog, f"random.m{-seed}", seed))


def test_deletion_vectors_are_read(memory_catalog: Catalog, reads: Counter[bool]) -> None:
    """In some of these histories at least: else they would show nothing."""
    for seed in range(1, 20):
        history = VectoredHistory(memory_catalog, f"random.n{seed}", seed)
        for _ in range(8):
            history.step()
            history.check_newest()
        if reads[True] > 3:
            return
    raise AssertionError(f"marks are not made, or not read: {reads}")
