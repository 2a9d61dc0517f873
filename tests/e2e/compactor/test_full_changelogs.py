"""Compactors that die while they tell what has changed (semantics 3.6): nothing is told twice, or never."""

from __future__ import annotations

import signal

import pyarrow as pa
import pytest

from lakelog.format.jobs.job import COMPACT, FULL, STRATEGY, JobState, to_bucket_scope
from tests.e2e.compactor.world import World

pytestmark = [pytest.mark.e2e]

SCOPES = [to_bucket_scope(b"", bucket) for bucket in range(2)]


def request(world: World) -> None:
    world.catalog.metastore.request_jobs(world.table.uuid, COMPACT, SCOPES, {STRATEGY: FULL})


def are_done(world: World) -> bool:
    return all(job.state is JobState.DONE for job in world.catalog.metastore.list_jobs([world.table.uuid]))


@pytest.mark.parametrize("step", ["written", "committed"])
def test_a_kill_at_any_step_emits_nothing_twice(world: World, step: str) -> None:
    world.table.alter(set={"changelog-producer": "full-compaction", "write-only": "true"})
    world.upsert(*((key, 1) for key in range(20)))
    request(world)
    first = world.start()
    world.wait_for(lambda: are_done(world))
    first.send(signal.SIGTERM)
    assert first.wait() == 0
    emitted = world.replayed()
    assert emitted == world.shown()
    world.upsert(*((key, 2) for key in range(5, 10)))
    world.table.delete(pa.table({"k": [3, 4]}))
    assert world.replayed() == emitted
    request(world)
    assert world.start(fault=step).wait() == -signal.SIGKILL
    world.replayed()
    world.start()
    world.wait_for(lambda: are_done(world))
    assert world.replayed() == world.shown()
    assert world.table.files()["level"].to_pylist() == [5, 5]
