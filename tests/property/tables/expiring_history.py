"""Histories of which the older part goes."""

from __future__ import annotations

import time

import pytest

from lakelog.errors import SnapshotExpired
from lakelog.sdk.catalog import Catalog
from tests.property.tables.rolled_back import RolledBackHistory
from tests.support.random_tables.history import sorted_rows


class ExpiringHistory(RolledBackHistory):
    """A history of which the older part goes, again and again.

    Args:
        catalog: Where the table is made.
        name: Its full name.
        seed: Decides everything.
    """

    def __init__(self, catalog: Catalog, name: str, seed: int) -> None:
        super().__init__(catalog, name, seed)
        self.earliest = 1

    def step(self) -> None:
        """One of a history's steps, and perhaps expiry."""
        super().step()
        if self.model.snapshots and self.random.random() < 0.4:
            self.expire(self.random.choice((1, 2, 5)))

    def targets(self) -> list[int]:
        """Snapshots that can be read."""
        named = [each for each in self.tags.values() if each < self.earliest]
        return [*named, *range(self.earliest, len(self.model.snapshots) + 1)]

    def expire(self, kept: int) -> None:
        """Lets all but some expire, and deletes what goes with them."""
        in_a_day_ms = int((time.time() + 86_400) * 1000)
        found = self.table.expire_snapshots(older_than=in_a_day_ms, retain_last=kept)
        assert found.first_kept is not None
        self.earliest = found.first_kept
        assert self.earliest == max(len(self.model.snapshots) + 1 - kept, self.earliest)
        metastore = self.table._context.metastore
        paths = metastore.list_expired_files(self.table.uuid, 10_000)
        if paths:
            self.table._context.open_store(self.table.info).delete_many(paths)
            metastore.forget_expired_files(self.table.uuid, paths)

    def check_what_is_retained(self) -> None:
        """Each snapshot shows what it held, or is said to have expired."""
        kept = set(self.targets())
        for number, model in enumerate(self.model.snapshots, 1):
            if number not in kept:
                with pytest.raises(SnapshotExpired):
                    self.table.scan(snapshot_id=number)
                continue
            found = self.table.scan(snapshot_id=number).to_arrow().to_pylist()
            assert sorted_rows(found) == sorted_rows(model.rows), f"{self!r} at {number} of {sorted(kept)}"
