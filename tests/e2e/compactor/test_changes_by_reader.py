"""Changes that full compactions tell, read through the reader service, while its compactor and its replicas die."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

import lakelog
from lakelog.format.jobs.job import COMPACT, FULL, STRATEGY, JobState, to_bucket_scope
from tests.e2e.compactor.world import SCHEMA, World
from tests.support.replicas import Replica, end_replica, launch_replica

pytestmark = [pytest.mark.e2e]

SCOPES = [to_bucket_scope(b"", bucket) for bucket in range(2)]
KEYS = 40


@pytest.fixture
def start_replica(world: World) -> Iterator[Callable[..., Replica]]:
    """Starts a replica, once more at the address of one before it."""
    started: list[Replica] = []

    def start(listen: str = "127.0.0.1:0") -> Replica:
        log = world.folder / f"reader-{len(started)}.log"
        started.append(launch_replica(world.stack.target, log, (), listen))
        return started[-1]

    yield start
    for each in started:
        end_replica(each)


@pytest.mark.slow
def test_each_change_comes_once_no_matter_who_is_killed(world: World, start_replica: Callable[..., Replica]) -> None:
    world.table.alter(set={"changelog-producer": "full-compaction", "write-only": "true"}, unset=["lookup-wait"])
    world.upsert(*((key, 0) for key in range(KEYS)))
    replicas = [start_replica(), start_replica()]
    ending = threading.Event()
    failures: list[BaseException] = []
    writing = threading.Thread(target=write, args=(world, ending, failures))
    seen: dict[int, int] = {}
    # Changes from the very first on, though none is told yet.
    with world.table.subscribe(
        "from-snapshot",
        consumer_id="sums",
        options={"scan.snapshot-id": 1},
        reader=",".join(each.target for each in replicas),
    ) as stream:
        writing.start()
        try:
            request(world)
            # Each takes over from the one before: what that has written is nobody's, what it has committed is told.
            for step in ("written", "committed"):
                assert world.start(fault=step).wait() == -signal.SIGKILL
            world.start()
            for number, replica in enumerate(replicas):
                world.wait_for(lambda: are_done(world))
                take(stream, seen, until=lambda: bool(seen))
                # One of them serves, and what the next compaction tells is still to come.
                replica.kill()
                replicas[number] = start_replica(replica.target)
                request(world)
        finally:
            ending.set()
            writing.join()
        assert not failures, failures
        # What the last one was asked for may have begun before the last row was written.
        world.wait_for(lambda: are_done(world))
        request(world)
        world.wait_for(lambda: are_done(world))
        expected = world.shown()
        take(stream, seen, until=lambda: seen == expected)
        assert stream.read(1.0) is None, "more came than what has changed"
    assert seen == expected
    assert world.replayed() == expected
    assert world.table.snapshots()["kind"].to_pylist().count("COMPACT") >= 3


def write(world: World, ending: threading.Event, failures: list[BaseException]) -> None:
    draw = random.Random(1)
    try:
        with lakelog.connect(world.stack.target) as catalog:
            table = catalog.table(world.table.name)
            while not ending.wait(0.1):
                keys = draw.sample(range(KEYS), draw.randrange(1, 8))
                if draw.random() < 0.2:
                    table.delete(pa.table({"k": keys}))
                else:
                    table.upsert(pa.table([keys, [draw.randrange(1000) for _ in keys]], schema=SCHEMA))
    except BaseException as error:
        failures.append(error)


def request(world: World) -> None:
    world.catalog.metastore.request_jobs(world.table.uuid, COMPACT, SCOPES, {STRATEGY: FULL})


def are_done(world: World) -> bool:
    return all(job.state is JobState.DONE for job in world.catalog.metastore.list_jobs([world.table.uuid]))


def take(stream: lakelog.Subscription, seen: dict[int, int], *, until: Callable[[], bool]) -> None:
    """Applies what comes, each change to what it says was there."""
    give_up = time.monotonic() + 60
    while not until():
        assert time.monotonic() < give_up, "what was told did not come"
        batch = stream.read(1.0)
        for row in [] if batch is None else batch.data.to_pylist():
            if row["_row_kind"] in ("-U", "-D"):
                assert seen.pop(row["k"], "nothing") == row["v"], f"{row} takes away what was not there"
            else:
                assert row["k"] not in seen, f"{row} adds what is there already"
                seen[row["k"]] = row["v"]
