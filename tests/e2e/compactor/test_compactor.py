"""The compactor as processes: it works, shares, stops, dies, is taken over; nothing is lost, doubled, out of order."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request

import pyarrow as pa
import pytest

import lakelog
from lakelog.errors import Unavailable
from lakelog.format.jobs.job import JobState
from tests.e2e.compactor.world import SCHEMA, World
from tests.support.forked import run_forked
from tests.support.forked_stack import forked_stack
from tests.support.repository import ROOT

pytestmark = [pytest.mark.e2e]


def test_it_attaches_what_is_there_and_what_comes_and_stops_clean(world: World) -> None:
    world.upsert((1, 1), (2, 1))
    compactor = world.start("--metrics-port", "0")
    world.wait_for(lambda: world.complete_until == 1)
    began = time.monotonic()
    world.upsert((1, 2))
    assert world.changes()[-2:] == [(2, "-U", 1, 1), (2, "+U", 1, 2)]
    # The compactor is told of the commit, and who reads of the changelog.
    assert time.monotonic() - began < 2
    port = next(line["port"] for line in map(json.loads, compactor.text().splitlines()) if line["event"] == "metrics")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        assert "lakelog_compactor_changelog_snapshots_total 2.0" in page.read().decode()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz") as page:
        assert page.read() == b"SERVING\n"
    compactor.send(signal.SIGTERM)
    assert compactor.wait(5) == 0
    assert json.loads(compactor.text().splitlines()[-1])["event"] == "stopped"
    world.wait_for(lambda: world.job.state is JobState.DONE)


def test_once_ends_when_nothing_is_due(world: World) -> None:
    world.upsert((1, 1))
    assert world.start("--once").wait() == 0
    assert world.complete_until == 1


def test_a_table_that_is_dropped_meanwhile_is_left_out(world: World) -> None:
    other = world.catalog.create_table(f"{world.table.name}_b", SCHEMA, primary_key=["k"])
    compactor = world.start("--tables", f"{world.table.name},{other.name}")
    world.upsert((1, 1))
    world.wait_for(lambda: world.complete_until == 1)
    world.catalog.drop_table(other.name)
    for number in range(3):
        world.upsert((1, number))
        world.wait_for(lambda: world.complete_until == 2 + number)  # noqa: B023
    # It looks at the tables between two jobs.
    compactor.send(signal.SIGTERM)
    assert compactor.wait(5) == 0
    reported = [json.loads(line) for line in compactor.text().splitlines()]
    assert [line["table"] for line in reported if "was dropped" in line["event"]] == [other.name]


@pytest.mark.parametrize("step", ["taken", "staged", "written", "attached"])
def test_who_is_killed_at_any_step_is_taken_over(world: World, step: str) -> None:
    for number in range(3):
        world.upsert((1, number), (2, number))
    assert world.start(fault=step).wait() == -signal.SIGKILL
    left = len(world.changelog_files)
    world.upsert((3, 3))
    world.start()
    world.wait_for(lambda: world.job.state is JobState.DONE)
    assert world.complete_until == 4
    assert world.replayed() == world.shown() == {1: 2, 2: 2, 3: 3}
    # What the dead one wrote is in use, or gone.
    assert left >= (2 if step in ("written", "attached") else 0)
    assert len(world.changelog_files) == len(_files_in_use(world))


def test_who_was_frozen_and_wakes_up_does_no_harm(world: World) -> None:
    world.upsert((1, 1))
    world.upsert((1, 2))
    zombie = world.start(fault="frozen")
    world.wait_for(zombie.is_frozen)
    other = world.start()
    world.wait_for(lambda: world.complete_until == 2)
    world.upsert((1, 3))
    world.wait_for(lambda: world.complete_until == 3)
    other.send(signal.SIGTERM)
    assert other.wait() == 0
    zombie.send(signal.SIGCONT)
    world.wait_for(lambda: "job lost" in zombie.text())
    # It goes on with what is due now.
    world.upsert((2, 1))
    world.wait_for(lambda: world.complete_until == 4)
    assert world.replayed() == world.shown() == {1: 3, 2: 1}
    world.wait_for(lambda: len(world.changelog_files) == len(_files_in_use(world)))


@pytest.mark.slow
def test_several_share_the_work_of_writers_with_faults(world: World) -> None:
    """Writers upsert all the time, compactors are killed and frozen, a subscriber sees each change once, in order."""
    ending = threading.Event()
    seen: dict[int, int] = {}
    last = [0]

    def write(seed: int) -> None:
        draw = random.Random(seed)
        with lakelog.connect(world.stack.target) as catalog:
            table = catalog.table(world.table.name)
            while not ending.is_set():
                keys = draw.sample(range(20), draw.randrange(1, 8))
                if draw.random() < 0.2:
                    table.delete(pa.table({"k": keys}))
                else:
                    table.upsert(pa.table([keys, [draw.randrange(1000) for _ in keys]], schema=SCHEMA))
                time.sleep(0.02)

    def read() -> None:
        with lakelog.connect(world.stack.target) as catalog, catalog.table(world.table.name).subscribe() as stream:
            for batch in stream:
                assert batch.snapshot_id >= last[0]
                for row in batch.data.to_pylist():
                    if row["_row_kind"] in ("-U", "-D"):
                        assert seen.pop(row["k"], "nothing") == row["v"]
                    else:
                        assert row["k"] not in seen
                        seen[row["k"]] = row["v"]
                last[0] = batch.snapshot_id
                if ending.is_set() and last[0] >= end[0] > 0:
                    return

    end = [0]
    threads = [threading.Thread(target=write, args=(seed,)) for seed in (1, 2)]
    reader = threading.Thread(target=read)
    reader.start()
    for each in threads:
        each.start()
    draw = random.Random(7)
    running = [world.start(lease_s=1), world.start(lease_s=1)]
    for _ in range(6):
        time.sleep(1.0)
        victim = draw.choice(running)
        if draw.random() < 0.5:
            victim.send(signal.SIGKILL)
            victim.wait()
            running.remove(victim)
            running.append(world.start(lease_s=1))
        else:
            victim.send(signal.SIGSTOP)
            time.sleep(1.5)
            victim.send(signal.SIGCONT)
    ending.set()
    for each in threads:
        each.join(30)
    world.upsert((1, -1))
    end[0] = world.catalog.metastore.list_snapshots(world.table.uuid, limit=1).latest_snapshot_id
    reader.join(60)
    assert not reader.is_alive(), f"the reader is at {last[0]} of {end[0]}\n{running[0].text()[-3000:]}"
    assert seen == world.shown()
    assert world.replayed() == world.shown()
    assert end[0] > 50


def test_a_table_that_does_not_exist_and_a_metastore_that_is_not_there_are_reported(world: World) -> None:
    def run(*arguments: str, target: str = world.stack.target) -> subprocess.CompletedProcess[str]:
        words = ["run", "--once", "--target", target, *arguments]
        return run_forked("compactor", words, folder=ROOT, environment=os.environ)

    missing = run("--tables", f"shop.nothing,{world.table.name},shop.neither")
    assert missing.returncode == 8
    assert "--tables names shop.nothing, shop.neither, which do not exist." in missing.stderr
    away = run("--patience-seconds", "0", target="127.0.0.1:1")
    assert away.returncode == 7
    assert "127.0.0.1:1" in away.stderr
    wrong = run("--tables", "nothing")
    assert (wrong.returncode, "name a table as database.table" in wrong.stderr) == (2, True)
    assert run("--lease-seconds", "x").returncode == 2


def test_a_stack_brings_its_compactor() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="ll-comp-", ignore_cleanup_errors=True) as folder,
        forked_stack(folder, services=["metastore", "compactor"]) as stack,
        lakelog.connect(stack.target) as catalog,
    ):
        catalog.create_database("shop")
        options = {"changelog-producer": "lookup", "write-only": "true"}
        table = catalog.create_table("shop.t", SCHEMA, primary_key=["k"], options=options)
        table.upsert(pa.table([[1], [1]], schema=SCHEMA))
        assert table.changes().count() == 1
        stack.kill("compactor")
        table.upsert(pa.table([[1], [2]], schema=SCHEMA))
        with pytest.raises(Unavailable, match=r"Snapshot 2 of shop\.t still waits for a compactor"):
            table.changes(timeout=0.5)
        stack.restart("compactor")
        assert table.changes().count() == 3
        # It finds its metastore again, whoever was restarted.
        stack.restart("metastore")
        table.upsert(pa.table([[1], [3]], schema=SCHEMA))
        assert table.changes(timeout=30).count() == 5


def _files_in_use(world: World) -> list[str]:
    from lakelog.format.tables.plan import InRange, PlanRequest

    until = world.catalog.metastore.list_snapshots(world.table.uuid, limit=1).latest_snapshot_id
    plan = world.catalog.metastore.plan(PlanRequest(world.table.uuid, InRange(0, until), changelog=True))
    paths: list[str] = plan.files.column("path").to_pylist()
    return paths
