"""Transactions that guard what they read are serializable, whatever breaks (`./run bench SERIALIZABLE` runs more)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.serializability import run_history
from tests.support.forked_stack import ForkedStack

pytestmark = pytest.mark.e2e


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ll-ser-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", range(100, 104))
def test_guarded_transactions_are_serializable(folder: Path, seed: int) -> None:
    report = run_history(folder, 15.0, seed, stack_type=ForkedStack)
    assert report.findings == []
    assert report.outcomes["committed"] > 5
    assert report.faults.total() > 2


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_control_without_guards_updates_are_lost(folder: Path) -> None:
    assert run_history(folder, 6.0, 200, guarded=False, stack_type=ForkedStack).findings != []
