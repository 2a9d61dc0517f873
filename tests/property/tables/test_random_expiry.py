"""Whoever pins what while a table is compacted, tagged, rolled back and expires: all that is pinned reads as it did.

And once nobody pins anything any more, of all files that the table ever referred to only the live ones are left.
LAKELOG_RANDOM_TABLES makes more of them than CI has time for, LAKELOG_RANDOM_SEED begins elsewhere.
"""

from __future__ import annotations

import os
import time

import pyarrow as pa
import pytest

from lakelog.format.retention.consumer import ConsumerPosition
from lakelog.format.retention.expiry import SnapshotLease
from lakelog.format.tables.plan import InRange, PlanRequest
from lakelog.sdk.catalog import Catalog
from lakelog.storage.parquet.live_file import to_live_files
from tests.property.tables.expiring_history import ExpiringHistory
from tests.support.random_tables.history import sorted_rows

TABLES = int(os.environ.get("LAKELOG_RANDOM_TABLES", "4"))
FIRST_SEED = int(os.environ.get("LAKELOG_RANDOM_SEED", "1"))


class LeasedHistory(ExpiringHistory):
    """A history of which readers and consumers need parts for a while.

    Args:
        catalog: Where the table is made.
        name: Its full name.
        seed: Decides everything.
    """

    def __init__(self, catalog: Catalog, name: str, seed: int) -> None:
        self.consumers: dict[str, int] = {}
        self.leases: dict[str, int] = {}
        self.referred: set[str] = set()
        self.held_back = 0
        self._noted = 0
        super().__init__(catalog, name, seed)
        self._metastore = catalog.metastore

    def step(self) -> None:
        """One of a history's steps, and perhaps somebody who begins, goes on or ends."""
        super().step()
        self.note_files()
        if not self.model.snapshots:
            return
        dice, newest = self.random, len(self.model.snapshots)
        if dice.random() < 0.3:
            name = dice.choice(("c1", "c2"))
            position = dice.randint(max(self.consumers.get(name, self.earliest), self.earliest), newest)
            (opened,) = self._metastore.open_consumer(name, [self.table.uuid], "test")
            self._metastore.advance_consumer(name, [ConsumerPosition(self.table.uuid, opened.epoch, position)])
            self.consumers[name] = position
        if self.consumers and dice.random() < 0.2:
            name = dice.choice([*self.consumers])
            self.table.consumers.delete(name)
            del self.consumers[name]
        if dice.random() < 0.3:
            name = dice.choice(("r1", "r2"))
            self.leases[name] = dice.randint(self.earliest, newest)
            self._metastore.lease_snapshot(self.table.uuid, name, self.leases[name], 600_000)
        if self.leases and dice.random() < 0.3:
            name = dice.choice([*self.leases])
            self._metastore.release_snapshot(self.table.uuid, name)
            del self.leases[name]

    def expire(self, kept: int) -> None:
        """Lets all but some expire that nobody needs, and deletes what goes with them."""
        self.note_files()
        wanted = max(len(self.model.snapshots) + 1 - kept, self.earliest)
        leases = [*self.consumers.values(), *self.leases.values()]
        # Who needs a snapshot needs all behind it.
        bound = min([wanted, *(max(lease, self.earliest) for lease in leases)])
        found = self.table.expire_snapshots(older_than=int((time.time() + 86_400) * 1000), retain_last=kept)
        assert found.first_kept == bound
        assert bool(found.held_by) == (bound < wanted)
        self.held_back += bound < wanted
        self.earliest = bound
        paths = self._metastore.list_expired_files(self.table.uuid, 10_000)
        if paths:
            self.table._context.open_store(self.table.info).delete_many(paths)
            self._metastore.forget_expired_files(self.table.uuid, paths)

    def note_files(self) -> None:
        """Remembers all files that snapshots since the last time refer to."""
        newest = self._metastore.list_snapshots(self.table.uuid, limit=1).latest_snapshot_id
        if newest <= self._noted:
            return
        for changelog in (False, True):
            plan = self._metastore.plan(PlanRequest(self.table.uuid, InRange(self._noted, newest), changelog=changelog))
            self.referred |= find_paths(plan.files)
        self._noted = newest

    def check_store(self) -> None:
        """With the last pin the last file goes that is not live."""
        for name in self.consumers:
            self.table.consumers.delete(name)
        for name in self.leases:
            self._metastore.release_snapshot(self.table.uuid, name)
        for name in self.tags:
            self.table.tags.delete(name)
        self.consumers, self.leases, self.tags = {}, {}, {}
        self.expire(1)
        newest = len(self.model.snapshots)
        live = find_paths(self._metastore.plan(PlanRequest(self.table.uuid)).files)
        at = InRange(newest - 1, newest)
        live |= find_paths(self._metastore.plan(PlanRequest(self.table.uuid, at, changelog=True)).files)
        stored = {each.path for each in self.table._context.open_store(self.table.info).list_objects()}
        assert stored & self.referred == live
        found = self.table.scan().to_arrow().to_pylist()
        assert sorted_rows(found) == sorted_rows(self.model.snapshots[-1].rows)


def find_paths(files: pa.Table) -> set[str]:
    """The files of a plan, and those that they name."""
    live = to_live_files(files)
    return {file.path for file in live} | {file.deletion_vector_path for file in live if file.deletion_vector_path}


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + TABLES))
def test_what_is_pinned_stays(memory_catalog: Catalog, seed: int) -> None:
    check(LeasedHistory(memory_catalog, f"random.p{seed}", seed))


@pytest.mark.parametrize("seed", range(-FIRST_SEED - TABLES // 2, -FIRST_SEED))
def test_so_it_does_in_a_served_metastore(served_catalog: Catalog, seed: int) -> None:
    check(LeasedHistory(served_catalog, f"random.p{-seed}", seed))


def test_control_without_snapshot_leases_somebody_loses_what_is_needed(
    memory_catalog: Catalog,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def load_no_snapshot_leases(*_: object) -> list[SnapshotLease]:
        return []

    monkeypatch.setattr("metastore.retention.expiry.load_snapshot_leases", load_no_snapshot_leases)
    with pytest.raises(AssertionError, match="first_kept"):  # noqa: PT012 - the first that finds it
        for seed in range(FIRST_SEED, FIRST_SEED + 4):
            check(LeasedHistory(memory_catalog, f"random.w{seed}", seed))


def check(history: LeasedHistory) -> None:
    for _ in range(history.random.randrange(8, 16)):
        history.step()
        history.check_newest()
    history.check_what_is_retained()
    history.check_tags()
    if history.model.snapshots:
        history.check_store()
