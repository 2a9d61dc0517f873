"""A large bucket is marked by itself, whoever dies or freezes at it: reads stay, and no file is left behind."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakelog.format.jobs.job import DELETION_VECTORS, Job, JobState
from lakelog.format.tables.plan import PlanRequest
from lakelog.storage.merging.deletion_vectors import are_committed
from lakelog.storage.parquet.live_file import LiveFile, to_live_files
from tests.e2e.compactor.world import SCHEMA, World

pytestmark = [pytest.mark.e2e]

ROWS = 800_000
"""Of keys and values that cannot be compressed, and half of them again: some 17 MB, all of which a read merges."""


def upsert(world: World, keys: np.ndarray, seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, 1 << 62, len(keys))
    world.table.upsert(pa.table([keys, values], schema=SCHEMA))


def find_job(world: World) -> Job | None:
    jobs = world.catalog.metastore.list_jobs([world.table.uuid])
    return next((job for job in jobs if job.kind == DELETION_VECTORS), None)


def hurry(world: World) -> None:
    """Waits until the bucket is to be marked, and has it done at once: nobody waits for a minute here."""
    world.wait_for(lambda: (job := find_job(world)) is not None and job.state is JobState.DUE)
    job = find_job(world)
    assert job is not None
    assert 0 < job.remaining_ms <= 60_000
    world.catalog.metastore.retry_job(job.job_id)


def is_done(world: World) -> bool:
    job = find_job(world)
    return job is not None and job.state is JobState.DONE


def live(world: World) -> list[LiveFile]:
    return to_live_files(world.catalog.metastore.plan(PlanRequest(world.table.uuid)).files)


def deletion_vectors(world: World) -> list[str]:
    """Every file of positions that is still there, relative to the table."""
    root = Path(world.table.info.location.removeprefix("file://"))
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("deletion-vectors-*"))


def named(world: World) -> list[str]:
    return sorted({file.deletion_vector_path for file in live(world) if file.deletion_vector_path})


def digest(world: World) -> tuple[int, int]:
    found = world.catalog.table(world.table.name).scan().to_arrow()
    total = pc.sum(pc.bit_wise_xor(found["k"], found["v"])).as_py()
    return found.num_rows, total


@pytest.mark.slow
def test_who_dies_or_freezes_at_any_step_is_taken_over(world: World) -> None:
    name = f"{world.table.name}_large"
    world.table = world.catalog.create_table(name, SCHEMA, primary_key=["k"], options={"bucket": "1"})
    keys = np.sort(np.array(random.Random(1).sample(range(1 << 62), ROWS)))
    upsert(world, keys, 1)
    upsert(world, keys[::2].copy(), 2)
    hurry(world)
    before, listed = digest(world), live(world)
    for step in ("staged", "written"):
        assert world.start(fault=step).wait() == -signal.SIGKILL
        assert live(world) == listed
    zombie = world.start(fault="frozen")
    world.wait_for(zombie.is_frozen)
    other = world.start()
    world.wait_for(lambda: is_done(world))
    assert digest(world) == before
    zombie.send(signal.SIGCONT)
    world.wait_for(lambda: "job lost" in zombie.text())
    for each in (zombie, other):
        each.send(signal.SIGTERM)
        assert each.wait() == 0
    assert deletion_vectors(world) == named(world)
    assert len(named(world)) == 1
    # The next time one dies before it can say that it is done.
    upsert(world, keys[:10].copy(), 3)
    hurry(world)
    before = digest(world)
    assert world.start(fault="committed").wait() == -signal.SIGKILL
    world.start()
    world.wait_for(lambda: is_done(world))
    assert are_committed(live(world))
    assert digest(world) == before
    assert set(deletion_vectors(world)) > set(named(world))
    assert len(named(world)) == 1
    assert set(world.table.snapshots()["kind"].to_pylist()) == {"APPEND", "COMPACT"}
