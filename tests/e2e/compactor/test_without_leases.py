"""Two compactors on the same buckets with the leases off: the commit alone keeps them apart (reliability C6)."""

from __future__ import annotations

import signal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakelog.format.jobs.job import COMPACT, FULL, STRATEGY, to_bucket_scope
from tests.e2e.compactor.world import World

pytestmark = [pytest.mark.e2e]


@pytest.mark.parametrize("producer", ["none", "full-compaction"])
def test_one_of_two_is_dropped_and_nothing_is_lost(world: World, producer: str) -> None:
    world.table.alter(set={"changelog-producer": producer, "write-only": "true"}, unset=["lookup-wait"])
    for number in range(3):
        world.upsert(*((key, number) for key in range(number, 20)))
    world.table.delete(pa.table({"k": [3, 4]}))
    before, snapshots = world.shown(), world.table.snapshots().num_rows
    states = [world.table.scan(snapshot_id=number).to_arrow() for number in range(1, snapshots + 1)]
    world.catalog.metastore.request_jobs(world.table.uuid, COMPACT, [to_bucket_scope(b"", 0)], {STRATEGY: FULL})
    racing = [world.start("--once", fault="unleased") for _ in range(2)]
    for each in racing:
        world.wait_for(each.is_frozen)
    # Both have written, and neither has committed.
    assert world.table.snapshots().num_rows == snapshots
    assert world.table.check_files().orphan_files == 2 * (1 if producer == "none" else 2)
    for each in racing:
        each.send(signal.SIGCONT)
    assert [each.wait() for each in racing] == [0, 0]
    (dropped,) = [line for each in racing for line in each.text().splitlines() if '"event": "dropped"' in line]
    assert '"reason": "INPUT_GONE"' in dropped
    assert "removed 'data/" in dropped
    assert world.table.snapshots()["kind"].to_pylist()[snapshots:] == ["COMPACT"]
    assert world.shown() == before
    files = world.table.files()
    assert files.filter(pc.field("bucket") == 0)["level"].to_pylist() == [5]
    for number, state in enumerate(states, start=1):
        assert world.table.scan(snapshot_id=number).to_arrow().equals(state)
    check = world.table.check_files()
    assert (check.orphan_files, check.broken_files) == (0, 0), check
    if producer == "full-compaction":
        # Each change of the bucket once, and nothing of the other one yet.
        assert world.replayed().items() <= before.items()
        assert 0 < len(world.replayed()) < len(before)
