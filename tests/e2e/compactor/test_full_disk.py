"""A compactor whose disk is full: it says so, leaves nothing behind, harms no read, and goes on when there is room."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from lakelog.cli import app
from lakelog.format.jobs.job import COMPACT, FULL, STRATEGY, JobState, to_bucket_scope
from tests.e2e.compactor.world import SCHEMA, World
from tests.support.small_disk import SmallDisk, small_disk

pytestmark = [pytest.mark.e2e]

ROWS = 30_000
COMMITS = 3


@pytest.fixture(params=["none", "full-compaction"])
def disk(world: World, request: pytest.FixtureRequest) -> Iterator[SmallDisk]:
    """The table's folder on a disk of its own, with room for its rows and not for a compaction of them."""
    options = {"changelog-producer": request.param, "write-only": "true", "bucket": "1", "target-file-size": "64 kb"}
    world.table = world.catalog.create_table(f"{world.table.name}_small", SCHEMA, primary_key=["k"], options=options)
    folder = Path(world.table.info.location.removeprefix("file://"))
    with small_disk([folder], "64m") as mounted:
        draw = np.random.default_rng(1)
        for number in range(COMMITS):
            keys = np.arange(number * 100, ROWS + number * 100)
            world.table.upsert(pa.table([keys, draw.integers(0, 1 << 62, ROWS)], schema=SCHEMA))
        used = sum(path.stat().st_size for path in files(world))
        # What half of a compaction takes, so that some files are written when it is full: of the result, which is as
        # large as one commit, and of the changelog beside it.
        half = used // COMMITS // (2 if request.param == "none" else 1)
        mounted.resize(f"{(used + half) // 1024}k")
        yield mounted
        end_compactors(world)


def end_compactors(world: World) -> None:
    """Before the disk goes away under them."""
    for each in world.compactors:
        each.process.kill()
        each.process.wait()


def files(world: World) -> set[Path]:
    return {path for path in Path(world.table.info.location.removeprefix("file://")).rglob("*") if path.is_file()}


def listed(world: World, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What `lakelog jobs` says of the table's compaction."""
    capsys.readouterr()
    assert app.run(["--target", world.stack.target, "jobs", "list", world.table.name, "-o", "json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)
    return cast(dict[str, Any], record)


def test_a_full_disk_stops_a_compaction_and_nothing_else(
    world: World, disk: SmallDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    metastore = world.catalog.metastore
    before, there, snapshots = world.shown(), files(world), world.table.snapshots().num_rows
    metastore.request_jobs(world.table.uuid, COMPACT, [to_bucket_scope(b"", 0)], {STRATEGY: FULL})
    compactor = world.start()

    def rests_after_trying_again() -> bool:
        (job,) = metastore.list_jobs([world.table.uuid])
        return job.state is JobState.DUE and job.attempts >= 3

    world.wait_for(rests_after_trying_again)
    # The pause is four seconds by now: nobody writes.
    assert files(world) == there, "a failed attempt has left files where there is no room for any"
    found = listed(world, capsys)
    assert (found["state"], found["kind"]) == ("resting", "compact")
    assert "No space left on device" in found["reason"]
    assert "Make room" in found["reason"]
    assert world.shown() == before
    assert world.table.snapshots().num_rows == snapshots
    disk.resize("64m")
    world.wait_for(lambda: all(job.state is JobState.DONE for job in metastore.list_jobs([world.table.uuid])))
    assert world.shown() == before
    assert set(world.table.files()["level"].to_pylist()) == {5}
    live = {Path(path).name for path in world.table.files()["path"].to_pylist()}
    assert {path.name for path in files(world) - there if "changelog" not in path.name} == live
    if world.table.options["changelog-producer"] == "full-compaction":
        assert world.replayed() == before
    assert compactor.process.poll() is None, "it was the job that failed, and not the service"
