"""What keeps expiry from doing harm, taken out one by one: each time harm is done."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import SnapshotExpired
from lakelog.format.commit.request import CommitRequest
from lakelog.format.retention.expiry import SnapshotLease
from metastore.heavy_work import HeavyWork
from metastore.plans.packing import Packer
from metastore.postgres import PostgresStore
from metastore.postgres.retention import _EXPIRE
from metastore.postgres.store import PostgresTransaction
from metastore.store.records import Packed
from metastore.testing import InProcessMetastore
from tests.contract.metastore.expiring import append_many, expire, expired, file_ids, live, make_history, replace_all
from tests.support.metastore.making import append, compaction, make_table
from tests.support.metastore.opening import open_in_process


@contextmanager
def opened(url: str, transaction: type[PostgresTransaction] = PostgresTransaction) -> Iterator[InProcessMetastore]:
    class Store(PostgresStore):
        transaction_type = transaction

    metastore = open_in_process(url, store_type=Store)
    try:
        yield metastore
    finally:
        metastore.close()


class WithoutSnapshotLeases(PostgresTransaction):
    """Asks nobody who reads."""

    async def list_leases(self, table_id: int) -> list[SnapshotLease]:
        return []


class WithoutSharing(PostgresTransaction):
    """Takes each entry for the only one of its file."""

    expire_sql = _EXPIRE.replace("WHERE d.there IS NULL AND s.there IS NULL", "")


class WithoutChunks(PostgresTransaction):
    """Does not look at what was packed when something expires."""

    expiring = False

    async def set_earliest(self, table_id: int, earliest: int, earliest_change: int) -> None:
        self.expiring = True
        await super().set_earliest(table_id, earliest, earliest_change)

    async def find_chunks(self, table_id: int) -> Packed:
        return Packed(0, ()) if self.expiring else await super().find_chunks(table_id)


def read_while_leased(metastore: Metastore) -> list[str]:
    table = make_table(metastore)
    make_history(metastore, table)
    metastore.lease_snapshot(table.table_uuid, "reader", 3, 60_000)
    expire(metastore, table)
    return live(metastore, table, 3)


def test_a_held_snapshot_is_read(migrated_url: str) -> None:
    with opened(migrated_url) as metastore:
        assert len(read_while_leased(metastore)) == 3


def test_control_without_snapshot_leases_it_is_gone(migrated_url: str) -> None:
    with opened(migrated_url, WithoutSnapshotLeases) as metastore, pytest.raises(SnapshotExpired):
        read_while_leased(metastore)


def find_expired_live_files(metastore: Metastore) -> set[str]:
    table = make_table(metastore)
    append(metastore, table, 1, names="a", min_key=b"1", max_key=b"2")
    moved = compaction(table, moves=file_ids(metastore, table), level=5)
    metastore.commit(CommitRequest("compactor", 1, (moved,)))
    expire(metastore, table)
    return set(expired(metastore, table)) & set(live(metastore, table))


def test_no_live_file_expires(migrated_url: str) -> None:
    with opened(migrated_url) as metastore:
        assert find_expired_live_files(metastore) == set()


def test_control_one_that_moved_expires_with_its_first_entry(migrated_url: str) -> None:
    with opened(migrated_url, WithoutSharing) as metastore:
        assert find_expired_live_files(metastore) == {"a.parquet"}


def read_packed(metastore: InProcessMetastore) -> Sequence[str]:
    """What is live, planned from chunks that were packed before what has expired was removed."""
    # Nothing else packs, before or meanwhile.
    metastore.stop_background()
    table = make_table(metastore)
    for number in range(1, 6):
        append_many(metastore, table, number)
    metastore.run(Packer(metastore.store, HeavyWork(), min_unpacked=1).step())
    replace_all(metastore, table, 1, "z")
    for number in range(6, 9):
        append_many(metastore, table, number)
    give_up_s = time.monotonic() + 30
    while len(expired(metastore, table)) < 5000:
        # Whoever packs at this moment keeps entries from going.
        assert time.monotonic() < give_up_s
        expire(metastore, table)
    return live(metastore, table)


def test_plans_from_chunks_stay_right(migrated_url: str) -> None:
    with opened(migrated_url) as metastore:
        found = read_packed(metastore)
        assert len(found) == len(set(found)) == 3001


def test_control_not_looking_at_chunks_shows_files_that_are_gone(migrated_url: str) -> None:
    with opened(migrated_url, WithoutChunks) as metastore:
        assert len(read_packed(metastore)) == 8001
