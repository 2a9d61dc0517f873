"""Compactors as processes that die, freeze and race over buckets: reads stay, and nothing is left behind."""

from __future__ import annotations

import random
import signal
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

import lakelog
from lakelog.format.jobs.job import COMPACT, FULL, MINOR, STRATEGY, JobState, to_bucket_scope
from tests.e2e.compactor.world import SCHEMA, World

pytestmark = [pytest.mark.e2e]

SCOPES = [to_bucket_scope(b"", bucket) for bucket in range(2)]


@pytest.fixture
def written(world: World) -> World:
    """Some commits to both buckets, each with its changelog."""
    world.table.alter(set={"lookup-wait": "true"})
    for number in range(4):
        world.upsert(*((key, number) for key in range(number, 20)))
    world.table.delete(pa.table({"k": [3, 4]}))
    return world


def request(world: World, strategy: str = FULL) -> None:
    world.catalog.metastore.request_jobs(world.table.uuid, COMPACT, SCOPES, {STRATEGY: strategy})


def are_done(world: World) -> bool:
    jobs = world.catalog.metastore.list_jobs([world.table.uuid])
    return all(job.state is JobState.DONE for job in jobs if job.kind == COMPACT)


def compacted(world: World) -> list[Path]:
    """Every file that a compaction wrote and that is still there."""
    return sorted(Path(world.table.info.location.removeprefix("file://")).rglob("compact-*.parquet"))


def live(world: World) -> list[str]:
    found: list[str] = world.table.files()["path"].to_pylist()
    return sorted(Path(path).name for path in found)


@pytest.mark.parametrize("step", ["taken", "staged", "written", "committed"])
def test_who_is_killed_at_any_step_is_taken_over(written: World, step: str) -> None:
    before, changes = written.shown(), written.changes()
    request(written)
    assert written.start(fault=step).wait() == -signal.SIGKILL
    assert written.shown() == before
    written.start()
    written.wait_for(lambda: are_done(written))
    assert written.shown() == before
    assert written.changes() == changes
    # One file a bucket, and of what the dead one wrote only what was committed is there.
    assert written.table.files()["level"].to_pylist() == [5, 5]
    assert sorted(path.name for path in compacted(written)) == live(written)


def test_who_was_frozen_and_wakes_up_does_no_harm(written: World) -> None:
    before = written.shown()
    request(written)
    zombie = written.start(fault="frozen")
    written.wait_for(zombie.is_frozen)
    other = written.start()
    written.wait_for(lambda: are_done(written))
    other.send(signal.SIGTERM)
    assert other.wait() == 0
    zombie.send(signal.SIGCONT)
    written.wait_for(lambda: "job lost" in zombie.text())
    assert written.shown() == before
    written.wait_for(lambda: sorted(path.name for path in compacted(written)) == live(written))
    # It goes on with what is due now.
    written.upsert((1, 100), (2, 100))
    request(written)
    written.wait_for(lambda: are_done(written))
    assert written.shown() == before | {1: 100, 2: 100}


def test_compactions_never_hold_writers_up_or_change_what_is_read(written: World) -> None:
    """Writers upsert and delete all the time, compactors are killed meanwhile, a subscriber sees each change once."""
    ending = threading.Event()
    failures: list[BaseException] = []
    seen: dict[int, int] = {}

    def write(seed: int) -> None:
        draw = random.Random(seed)
        try:
            with lakelog.connect(written.stack.target) as catalog:
                table = catalog.table(written.table.name)
                while not ending.is_set():
                    keys = draw.sample(range(20), draw.randrange(1, 8))
                    if draw.random() < 0.2:
                        table.delete(pa.table({"k": keys}))
                    else:
                        table.upsert(pa.table([keys, [draw.randrange(1000) for _ in keys]], schema=SCHEMA))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(seed,)) for seed in (1, 2)]
    with written.table.subscribe("from-snapshot", options={"scan.snapshot-id": 1}) as stream:
        for thread in threads:
            thread.start()
        for number in range(6):
            request(written, FULL if number % 2 else MINOR)
            compactor = written.start()
            time.sleep(0.7)
            compactor.send(signal.SIGKILL if number % 3 else signal.SIGTERM)
            compactor.wait()
        ending.set()
        for thread in threads:
            thread.join()
        assert not failures
        last = written.table.snapshots()["id"].to_pylist()[-1]
        while (batch := stream.read(1.0)) is not None:
            for row in batch.data.to_pylist():
                if row["_row_kind"] in ("-U", "-D"):
                    assert seen.pop(row["k"], "nothing") == row["v"]
                else:
                    assert row["k"] not in seen
                    seen[row["k"]] = row["v"]
    assert last > 20
    assert seen == written.shown()
    written.start()
    request(written)
    written.wait_for(lambda: are_done(written))
    assert seen == written.shown()
    assert written.table.files()["level"].to_pylist() == [5, 5]
    assert {"APPEND", "COMPACT"} == set(written.table.snapshots()["kind"].to_pylist())
