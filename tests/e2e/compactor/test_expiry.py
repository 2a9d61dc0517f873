"""Compactors as processes that expire snapshots by themselves, and die while they do."""

from __future__ import annotations

import signal
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.errors import SnapshotExpired
from lakelog.format.retention.expiry import SnapshotLeaseKind
from tests.e2e.compactor.world import SCHEMA, World

pytestmark = [pytest.mark.e2e]

OPTIONS = {
    "lookup-wait": "true",
    "snapshot.time-retained": "0 ms",
    "snapshot.num-retained.min": "1",
    # Nothing else is to be due.
    "num-sorted-run.compaction-trigger": "100",
}


@pytest.fixture
def replaced(world: World) -> World:
    """Some commits whose files were all replaced, but for the newest."""
    world.table.alter(set=OPTIONS)
    for number in range(6):
        # One file for each bucket.
        world.table.overwrite(pa.table([[1, 2, 3, 4], [number] * 4], schema=SCHEMA))
    return world


def stored(world: World) -> list[str]:
    """Every file that lies in the table's folder."""
    return sorted(path.name for path in Path(world.table.info.location.removeprefix("file://")).rglob("*.parquet"))


def live(world: World) -> list[str]:
    found: list[str] = world.table.files()["path"].to_pylist()
    return sorted(Path(path).name for path in found)


@pytest.mark.parametrize("step", ["", "aborted", "deleted"])
def test_what_expired_leaves_the_store_no_matter_who_dies_meanwhile(replaced: World, step: str) -> None:
    before = replaced.shown()
    replaced.table.tags.create("first", 1)
    tagged = replaced.table.scan(tag="first").to_arrow()
    if step:
        assert replaced.start(fault=step).wait() == -signal.SIGKILL
        assert replaced.shown() == before
    replaced.start()
    replaced.wait_for(lambda: len(stored(replaced)) == len(live(replaced)) + 2)
    assert replaced.shown() == before
    assert replaced.table.scan(tag="first").to_arrow() == tagged
    assert replaced.table.snapshots()["id"].to_pylist() == [6]
    replaced.table.tags.delete("first")
    replaced.wait_for(lambda: stored(replaced) == live(replaced))


def test_what_a_consumer_needs_stays_until_it_moves(replaced: World) -> None:
    metastore = replaced.catalog.metastore
    with replaced.table.subscribe("from-snapshot", "billing", options={"scan.snapshot-id": 3}):
        pass
    metastore.open_consumer("billing", [replaced.table.uuid], "test")
    replaced.table.consumers.reset("billing", 3)
    replaced.start()
    replaced.wait_for(lambda: replaced.table.snapshots()["id"].to_pylist() == [3, 4, 5, 6])
    assert [lease.kind for lease in metastore.list_snapshot_leases(replaced.table.uuid)] == [SnapshotLeaseKind.CONSUMER]
    assert replaced.table.scan(snapshot_id=3).count() == 4
    with pytest.raises(SnapshotExpired):
        replaced.table.scan(snapshot_id=2)
    replaced.table.consumers.delete("billing")
    replaced.wait_for(lambda: replaced.table.snapshots()["id"].to_pylist() == [6])
    replaced.wait_for(lambda: stored(replaced) == live(replaced))
