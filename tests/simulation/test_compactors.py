"""Compactors that race each other, writers, overwrites and the collector: no read changes, whatever they lose."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.simulation.actors import Habits
from tests.simulation.running import simulate

SEEDS = range(1, 9)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_history_holds(seed: int, loop: asyncio.AbstractEventLoop) -> None:
    simulate(seed, loop, compactors=3)


@pytest.mark.parametrize("seed", range(50, 54))
def test_readers_see_nothing_of_it(seed: int, loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    readers = {"r1": "latest-full", "r2": "from-snapshot"}
    simulate(seed, loop, compactors=2, readers=readers, cache_folder=str(tmp_path))


def test_races_are_lost_in_whole_and_in_part(loop: asyncio.AbstractEventLoop) -> None:
    lost = [each for seed in (4, 5, 7) for each in simulate(seed, loop, compactors=3).compactions]
    assert sum(dropped == 0 for _, dropped in lost) >= 20
    assert sum(dropped == groups for groups, dropped in lost) >= 10
    assert sum(0 < dropped < groups for groups, dropped in lost) >= 3


def test_a_bad_habit_is_noticed(loop: asyncio.AbstractEventLoop) -> None:
    habits = Habits(delete_dropped_groups_only=False)
    with pytest.raises(Exception, match=r"(?i)does not exist|not there|missing|no object"):  # noqa: PT012 - the first
        for seed in range(1, 60):
            simulate(seed, loop, habits, compactors=3)
