from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakelog.reads.streams.log import tail as log_tail
from lakelog.reads.streams.uncommitted import follow as uncommitted_follow
from tests.support.log.log_brokers import FakeBrokers
from tests.support.log.log_world import World
from tests.support.metastore.either_store import catalog, metastore, planners, warehouse

__all__ = ["catalog", "metastore", "planners", "warehouse"]


@pytest.fixture
def polls_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows that are told before their commit nothing is waited for as long as with brokers far away."""
    monkeypatch.setattr(uncommitted_follow, "_POLL_S", 0.05)
    monkeypatch.setattr(log_tail, "_FETCH_S", 0.02)
    monkeypatch.setattr(log_tail, "_REST_S", 0.1)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


@pytest.fixture
def brokers() -> FakeBrokers:
    return FakeBrokers()
