"""Reads that last hold their snapshot; what expired under a read says so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

from lakelog.client.leased_reads import LeasedReads
from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import DataCorrupted, SnapshotExpired
from lakelog.format.retention.expiry import SnapshotLeaseKind
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from metastore.testing import InProcessMetastore

AT_ONCE = {"snapshot.time-retained": "0 ms", "snapshot.num-retained.min": "1", "bucket": "1"}


def make(catalog: Catalog) -> Table:
    """A table whose newest snapshot has a hundred thousand rows in several files."""
    catalog.create_database("shop", if_not_exists=True)
    table = catalog.create_table("shop.read", pa.schema([("k", pa.int64())]), options={**AT_ONCE, "bucket-key": "k"})
    for number in range(4):
        table.append(pa.table({"k": range(number * 100_000, number * 100_000 + 100_000)}))
    return table


def expire(metastore: InProcessMetastore, table: Table) -> None:
    """Replaces everything, and deletes what was there."""
    table.overwrite(pa.table({"k": [1]}))
    table.expire_snapshots()
    for path in metastore.list_expired_files(table.uuid, 1000):
        (Path(table.location.removeprefix("file://")) / path).unlink()


@pytest.fixture
def soon(catalog: Catalog, metastore: InProcessMetastore) -> Iterator[LeasedReads]:
    """What lasts a moment counts as long."""
    held = LeasedReads(metastore, long_s=0.05, lease_s=1.0)
    catalog.context.leased_reads.close()
    catalog.context = replace(catalog.context, leased_reads=held)  # type: ignore[misc]
    yield held
    held.close()


def wait_for_snapshot_lease(metastore: InProcessMetastore, table: Table, count: int = 1) -> None:
    give_up_s = time.monotonic() + 10
    while len(metastore.list_snapshot_leases(table.uuid)) != count:
        assert time.monotonic() < give_up_s
        time.sleep(0.01)


def test_a_read_that_lasts_is_held_until_it_ends(
    catalog: Catalog, metastore: InProcessMetastore, soon: LeasedReads
) -> None:
    table = make(catalog)
    batches = table.scan().to_batches()
    first = next(batches)
    wait_for_snapshot_lease(metastore, table)
    ((kind, snapshot_id),) = [(lease.kind, lease.snapshot_id) for lease in metastore.list_snapshot_leases(table.uuid)]
    assert (kind, snapshot_id) == (SnapshotLeaseKind.READER, 4)
    # Longer than it is held once.
    time.sleep(1.2)
    expire(metastore, table)
    assert first.num_rows + sum(batch.num_rows for batch in batches) == 400_000
    wait_for_snapshot_lease(metastore, table, 0)


def test_a_read_that_is_left_is_not_held_any_more(
    catalog: Catalog, metastore: InProcessMetastore, soon: LeasedReads
) -> None:
    table = make(catalog)
    batches = table.scan().to_batches()
    next(batches)
    wait_for_snapshot_lease(metastore, table)
    batches.close()  # type: ignore[attr-defined]
    # The thread that was leasing while the read ended gives the lease back itself.
    wait_for_snapshot_lease(metastore, table, 0)


def test_what_a_consumer_begins_with_is_held_until_it_has_a_position(
    catalog: Catalog, metastore: InProcessMetastore, soon: LeasedReads
) -> None:
    table = make(catalog)
    with table.subscribe(consumer_id="etl", auto_commit=False) as stream:
        read = 0
        while read < 400_000:
            batch = stream.read(20)
            assert batch is not None
            read += batch.data.num_rows
        # All rows are read, and their reader is at work on the last of them.
        time.sleep(0.3)
        assert SnapshotLeaseKind.READER in {lease.kind for lease in metastore.list_snapshot_leases(table.uuid)}
        table.append(pa.table({"k": [7]}))
        table.append(pa.table({"k": [8]}))
        assert table.expire_snapshots().first_kept == 4
        stream.commit()
        # From now on its position does that.
        assert [(lease.kind, lease.snapshot_id) for lease in metastore.list_snapshot_leases(table.uuid)] == [
            (SnapshotLeaseKind.CONSUMER, 4)
        ]
        found = [stream.read(20), stream.read(20)]
        assert [each and (each.snapshot_id, each.data["k"].to_pylist()) for each in found] == [(5, [7]), (6, [8])]


def test_what_a_consumer_would_begin_with_is_not_held_once_it_has_left(
    catalog: Catalog, metastore: InProcessMetastore, soon: LeasedReads
) -> None:
    table = make(catalog)
    stream = table.subscribe(consumer_id="etl")
    wait_for_snapshot_lease(metastore, table)
    stream.close()
    assert metastore.list_snapshot_leases(table.uuid) == []


def test_control_a_read_without_a_lease_finds_its_snapshot_expired(
    catalog: Catalog, metastore: InProcessMetastore
) -> None:
    table = make(catalog)
    scan = table.scan()
    expire(metastore, table)
    with pytest.raises(SnapshotExpired, match=r"Snapshot 4 of shop\.read expired while it was read, .* 5 to 5 can"):
        scan.to_arrow()
    assert table.scan().count() == 1


def test_changes_that_expired_are_reported(catalog: Catalog, metastore: InProcessMetastore) -> None:
    table = make(catalog)
    changes = table.changes(1, 3)
    expire(metastore, table)
    with pytest.raises(SnapshotExpired, match=r"Snapshot 2 of shop\.read expired while it was read"):
        changes.to_arrow()


def test_a_file_that_is_missing_without_having_expired_is_damage(catalog: Catalog) -> None:
    table = make(catalog)
    for path in table.files()["path"].to_pylist():
        (Path(table.location.removeprefix("file://")) / path).unlink()
    with pytest.raises(DataCorrupted, match="is missing, though the table refers to it"):
        table.scan().to_arrow()


def test_short_reads_ask_no_one(catalog: Catalog, metastore: InProcessMetastore) -> None:
    table = make(catalog)
    calls: list[str] = []
    held = metastore.lease_snapshot
    metastore.lease_snapshot = lambda *a: calls.append("hold") or held(*a)  # type: ignore[method-assign,func-returns-value]
    assert table.scan().to_arrow().num_rows == 400_000
    assert calls == []


def test_what_fails_at_one_catalog_leaves_the_others_held(
    catalog: Catalog, metastore: InProcessMetastore, soon: LeasedReads, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def lease_snapshot(self, *_: object) -> int:
            raise RuntimeError("this metastore is a programming error")

    broken = LeasedReads(cast(Metastore, Broken()), long_s=0.01)
    table = make(catalog)
    with broken.reading(catalog.metastore.get_table_by_uuid(table.uuid), 1):
        give_up_s = time.monotonic() + 10
        while "could not be held" not in caplog.text:
            assert time.monotonic() < give_up_s
            time.sleep(0.01)
        batches = table.scan().to_batches()
        next(batches)
        wait_for_snapshot_lease(metastore, table)
    assert sum(batch.num_rows for batch in batches) > 0


LONGER = {
    **AT_ONCE,
    "changelog-producer": "input",
    "changelog.time-retained": "1 d",
    "changelog.num-retained.min": "1",
}


def make_with_changelog(catalog: Catalog) -> Table:
    """A table of whose first snapshots only the changes are kept."""
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])
    table = catalog.create_table("shop.told", schema, primary_key=["k"], options=LONGER)
    for number in range(4):
        table.upsert(pa.table({"k": range(100_000), "v": [number] * 100_000}, schema))
    table.overwrite(pa.table({"k": [1], "v": [9]}, schema))
    table.expire_snapshots()
    assert table.snapshots()["id"].to_pylist() == [5]
    return table


def test_changes_whose_states_have_expired_are_held(
    catalog: Catalog, metastore: InProcessMetastore, soon: LeasedReads
) -> None:
    table = make_with_changelog(catalog)
    batches = table.changes(0, 4).to_batches()
    first = next(batches)
    wait_for_snapshot_lease(metastore, table)
    table.alter(set={"changelog.time-retained": "0 ms"})
    table.expire_snapshots()
    for path in metastore.list_expired_files(table.uuid, 1000):
        (Path(table.location.removeprefix("file://")) / path).unlink(missing_ok=True)
    assert first.num_rows + sum(batch.num_rows for batch in batches) == 400_000


def test_a_changelog_file_that_is_missing_without_having_expired_is_damage(catalog: Catalog) -> None:
    table = make_with_changelog(catalog)
    changes = table.changes(0, 4)
    for path in Path(table.location.removeprefix("file://")).rglob("*changelog*.parquet"):
        path.unlink()
    with pytest.raises(DataCorrupted, match="is missing, though the table refers to it"):
        changes.to_arrow()
