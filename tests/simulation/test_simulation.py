"""Writers, zombies, an overwriter, a collector and auditors under faults: nothing lost, nothing doubled, nothing torn.

A failure prints its seed, and the same seed gives the same history.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.simulation.actors import Habits
from tests.simulation.running import simulate
from tests.simulation.seeds import FIRST_SEED, SEED_COUNT


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEED_COUNT))
def test_every_history_holds(seed: int, loop: asyncio.AbstractEventLoop) -> None:
    world = simulate(seed, loop)
    expected = {(writer, number) for writer in "abc" for number in range(1, 7)}
    assert expected <= world.applied, f"seed {seed}: a writer gave up"


def test_faults_take_effect(loop: asyncio.AbstractEventLoop) -> None:
    injected: set[str] = set()
    kills = freezes = 0
    for seed in (101, 106, 107):
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
        (Habits(abort_before_delete=False), "does not exist|not there|missing|no object"),
        (Habits(keep_files_on_unknown=False), "does not exist|not there|missing|no object"),
    ],
    ids=["a new identifier for a repeat", "deleting without dooming", "deleting on an unknown outcome"],
)
def test_a_bad_habit_is_noticed(habits: Habits, expected: str, loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(Exception, match=f"(?i){expected}"):  # noqa: PT012 - the first of many histories that breaks
        for seed in range(1, 60):
            simulate(seed, loop, habits, reply_lost=0.4)
