"""Compactors that tell what has changed, without leases, late and at once: what they tell is what there is, once.

Beside them one compacts and tells nothing, and others overwrite and roll back.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from compactor.compactions import changelog_emission
from lakelog.format.commit import rebase as commit_rebase
from tests.simulation.running import simulate

SEEDS = range(1, 7)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_history_is_emitted_once(seed: int, loop: asyncio.AbstractEventLoop) -> None:
    assert simulate(seed, loop, emitters=3, compactors=1).emissions > 0


@pytest.mark.parametrize("seed", range(20, 25))
def test_also_where_snapshots_expire(seed: int, loop: asyncio.AbstractEventLoop) -> None:
    world = simulate(seed, loop, emitters=3, compactors=1, expirers=1)
    assert world.expired > 0


def test_races_are_lost_by_some_of_them(loop: asyncio.AbstractEventLoop) -> None:
    lost = [each for seed in (1, 3) for each in simulate(seed, loop, emitters=3, compactors=1).compactions]
    assert sum(dropped == 0 for _, dropped in lost) >= 15
    assert sum(dropped > 0 for _, dropped in lost) >= 15


def test_a_group_that_is_not_judged_by_the_baseline_is_noticed(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_rebase, "_find_baseline_conflict", lambda *_: None)
    with pytest.raises(AssertionError, match=r"told|reader of changes"):  # noqa: PT012 - the first that finds it
        for seed in range(11, 40):
            simulate(seed, loop, emitters=3, compactors=1)


def test_what_was_in_the_baseline_and_is_gone_is_not_forgotten(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = changelog_emission.plan_emission_work

    def forget(live: Any, bucket: Any, strategy: Any, baseline: Any) -> Any:
        there = set(live.files["file_id"].to_pylist())
        return plan(live, bucket, strategy, [file for file in baseline if file.file_id in there])

    monkeypatch.setattr(changelog_emission, "plan_emission_work", forget)
    with pytest.raises(AssertionError, match=r"told|reader of changes"):  # noqa: PT012 - the first that finds it
        for seed in range(11, 40):
            simulate(seed, loop, emitters=3, compactors=1)
