"""Writers, zombies, an overwriter, a collector and auditors under faults: nothing lost, nothing doubled, nothing torn.

A failure prints its seed, and the same seed gives the same history.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from functools import partial

import pytest

from lakelog.format.table import TableName
from metastore.memory.store import MemoryStore as MemoryCatalogStore
from metastore.service import MetastoreService
from tests.simulation import actors
from tests.simulation.actors import Habits, World
from tests.simulation.scheduler import Scheduler
from tests.simulation.world import CountedIds, Faults, SimulatedStores, VirtualClock

FIRST_SEED = int(os.environ.get("LAKELOG_SIMULATION_FIRST_SEED", "1"))
SEED_COUNT = int(os.environ.get("LAKELOG_SIMULATION_SEEDS", "25"))


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def simulate(seed: int, loop: asyncio.AbstractEventLoop, habits: Habits | None = None, **rates: float) -> World:
    """One history; raises what an actor or an auditor found."""
    faults = Faults(
        request_lost=rates.get("request_lost", 0.05),
        reply_lost=rates.get("reply_lost", 0.08),
        write_fails=rates.get("write_fails", 0.03),
    )
    scheduler = Scheduler(
        seed,
        kill_rate=rates.get("kill_rate", 0.01),
        freeze_rate=rates.get("freeze_rate", 0.01),
        on_death=lambda dead: actors.replace_with_successor(world, dead),
    )
    clock = VirtualClock(scheduler)
    service = MetastoreService(MemoryCatalogStore(clock), "memory://warehouse", clock=clock, ids=CountedIds())
    world = World(seed, scheduler, service, loop, faults, SimulatedStores(scheduler, faults), 6, habits or Habits())
    world.finish(service.create_database("sim"))
    world.finish(service.create_table(TableName("sim", "t"), actors.SCHEMA, primary_key=["k"], options={"bucket": "2"}))
    for writer in ("a", "b", "c"):
        scheduler.start(writer, partial(actors.write, world, writer))
    scheduler.start("overwriter", lambda: actors.overwrite(world), mortal=False)
    scheduler.start("collector", lambda: actors.collect(world), mortal=False)
    scheduler.start("auditor", lambda: actors.audit_now_and_then(world), mortal=False)
    scheduler.run()
    actors.audit(world)
    world.finish(service.close())
    return world


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEED_COUNT))
def test_every_history_holds(seed: int, loop: asyncio.AbstractEventLoop) -> None:
    world = simulate(seed, loop)
    expected = {(writer, number) for writer in "abc" for number in range(1, 7)}
    assert expected <= actors.audit(world), f"seed {seed}: a writer gave up"


def test_faults_take_effect(loop: asyncio.AbstractEventLoop) -> None:
    injected: set[str] = set()
    kills = freezes = 0
    for seed in range(100, 108):
        world = simulate(seed, loop)
        injected |= set(world.faults.injected)
        kills += world.scheduler.kills
        freezes += world.scheduler.freezes
    assert {"request lost: commit", "reply lost: commit", "reply lost: abandon_attempt", "write fails"} <= injected
    assert kills >= 3
    assert freezes >= 3


def test_a_seed_gives_the_same_history(loop: asyncio.AbstractEventLoop) -> None:
    first, second = (simulate(7, loop) for _ in range(2))
    assert first.scheduler.trace == second.scheduler.trace


@pytest.mark.parametrize(
    ("habits", "expected"),
    [
        (Habits(same_identifier_on_repeat=False), "applied twice"),
        (Habits(doom_before_delete=False), "does not exist|not there|missing|no object"),
        (Habits(keep_files_on_unknown=False), "does not exist|not there|missing|no object"),
    ],
    ids=["a new identifier for a repeat", "deleting without dooming", "deleting on an unknown outcome"],
)
def test_a_bad_habit_is_noticed(habits: Habits, expected: str, loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(Exception, match=f"(?i){expected}"):  # noqa: PT012 - the first of many histories that breaks
        for seed in range(1, 60):
            simulate(seed, loop, habits, reply_lost=0.4)
