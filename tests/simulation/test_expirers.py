"""Snapshots that expire while all others are at work: what is held is read, what is live stays."""

from __future__ import annotations

import asyncio

import pytest

from tests.simulation.actors import Habits
from tests.simulation.running import simulate

SEEDS = range(1, 7)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_history_holds(seed: int, loop: asyncio.AbstractEventLoop) -> None:
    world = simulate(seed, loop, compactors=2, expirers=2)
    assert world.expired > 0


def test_reads_are_held_in_most_of_them(loop: asyncio.AbstractEventLoop) -> None:
    assert sum(simulate(seed, loop, compactors=1, expirers=1).leased_reads for seed in (7, 8)) >= 4


def test_a_read_that_is_not_held_is_lost(loop: asyncio.AbstractEventLoop) -> None:
    habits = Habits(lease_what_is_read=False)
    with pytest.raises(AssertionError, match="lost snapshot"):  # noqa: PT012 - the first that finds it
        for seed in range(1, 20):
            simulate(seed, loop, habits, compactors=1, expirers=2)


def test_deleting_what_is_not_live_is_noticed(loop: asyncio.AbstractEventLoop) -> None:
    habits = Habits(delete_only_aborted=False)
    with pytest.raises(Exception, match=r"(?i)does not exist|not there|missing|no object|lost snapshot"):  # noqa: PT012
        for seed in range(1, 20):
            simulate(seed, loop, habits, compactors=1, expirers=1)
