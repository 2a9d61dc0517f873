"""Subscribers among writers and faults: what each was told adds up to the table, and each snapshot counts once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.simulation.actors import Habits
from tests.simulation.running import simulate
from tests.simulation.seeds import FIRST_SEED, SEED_COUNT

READERS = {"full": "latest-full", "first": "from-snapshot"}


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + (SEED_COUNT + 1) // 2))
def test_every_subscriber_keeps_up(seed: int, loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    simulate(seed, loop, readers=READERS, cache_folder=str(tmp_path))


def test_faults_take_effect(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    injected: set[str] = set()
    kills = fenced = 0
    for seed in (102, 105):
        world = simulate(seed, loop, readers=READERS, cache_folder=str(tmp_path / str(seed)), freeze_rate=0.02)
        injected |= set(world.faults.injected)
        kills += sum(name in line for line in world.scheduler.trace for name in READERS if "is killed" in line)
        fenced += sum(sink.fenced for sink in world.sinks.values())
    assert {"watch breaks", "reply lost: advance_consumer", "request lost: open_consumer"} <= injected
    assert kills >= 3
    assert fenced >= 3


@pytest.mark.parametrize("seed", [200, 201, 202, 204, 206, 208, 209, 210, 211])
def test_late_readers_keep_up(seed: int, loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    restart_late(seed, loop, tmp_path)


def test_readers_whose_consumer_has_expired_restart(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    """They begin with all rows, since what comes next has expired as well; from a snapshot on some would be missing."""
    assert sum(restart_late(seed, loop, tmp_path / str(seed)) for seed in (203, 205, 207)) >= 3


def restart_late(seed: int, loop: asyncio.AbstractEventLoop, folder: Path) -> int:
    """A history in which readers come late; how many found that their consumer had expired."""
    readers = {"one": "latest-full", "other": "latest-full"}
    world = simulate(
        seed, loop, readers=readers, cache_folder=str(folder), expirers=1, late_readers=0.5, kill_rate=0.03
    )
    return sum(sink.restarted for sink in world.sinks.values())


def test_subscribers_keep_up_while_columns_change(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    """Those that began with a column that has gone since subscribe again, and go on where they were."""
    alterations = broken = 0
    for seed in range(306, 346):
        folder = str(tmp_path / str(seed))
        world = simulate(seed, loop, readers=READERS, cache_folder=folder, alterers=3, kill_rate=0.06)
        alterations += world.alterations
        broken += sum(sink.broken for sink in world.sinks.values())
        # A reader has to begin between two changes and to see a commit after the second: every fifth history has one.
        if broken and alterations > 100:
            return
    pytest.fail(f"of 40 histories with {alterations} changes none ended a stream")


def test_a_seed_gives_the_same_history(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    first, second = (simulate(7, loop, readers=READERS, cache_folder=str(tmp_path / name)) for name in ("1", "2"))
    assert first.scheduler.trace == second.scheduler.trace


@pytest.mark.parametrize(
    ("habits", "expected"),
    [
        (Habits(keep_position_when_done=False), "differs from the table|is there|is not there|ended at snapshot"),
        (Habits(own_epoch=False), "were handled twice"),
    ],
    ids=["a position before its snapshot is done", "no fence"],
)
def test_a_bad_habit_is_noticed(habits: Habits, expected: str, loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=expected):  # noqa: PT012 - the first of many histories that breaks
        for seed in range(1, 60):
            folder = str(tmp_path / str(seed))
            simulate(seed, loop, habits, readers=READERS, cache_folder=folder, kill_rate=0.03, freeze_rate=0.03)
