"""Repairers without patience among writers, compactors, overwrites and the collector: no live file is deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from lakelog.sdk.maintenance.checking import file_check
from lakelog.sdk.maintenance.checking.file_check_result import FileCheck
from tests.simulation.running import simulate


@pytest.mark.parametrize("seed", range(1, 7))
def test_every_history_holds(seed: int, loop: asyncio.AbstractEventLoop) -> None:
    repair_often(seed, loop)


def test_they_find_much(loop: asyncio.AbstractEventLoop) -> None:
    assert sum(each.deleted_files for seed in (8, 11) for each in repair_often(seed, loop)) >= 5


def repair_often(seed: int, loop: asyncio.AbstractEventLoop) -> list[FileCheck]:
    """A history with repairers, every second time with compactors too; what they found."""
    return simulate(seed, loop, repairers=2, compactors=seed % 2 * 2, freeze_rate=0.04).repairs


def test_control_without_aborting_first_a_live_file_is_deleted(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_age_alone(self: Any, old: Sequence[str], orphans: Sequence[Any]) -> set[str]:
        return set(old)

    monkeypatch.setattr(file_check._Check, "_abort", by_age_alone)
    with pytest.raises(Exception, match=r"(?i)does not exist|not there|missing|no object|the table lacks"):  # noqa: PT012 - the first
        for seed in range(5, 64):
            simulate(seed, loop, repairers=2, freeze_rate=0.04)
