"""A compactor that is told where Spark runs tasks, as a process: large jobs go there, from a session of its own."""

from __future__ import annotations

import dataclasses
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakelog.format.jobs.job import COMPACT, FULL, STRATEGY, JobState, to_bucket_scope
from tests.e2e.compactor.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

FILES = 12
ROWS = 7
ROW_BYTES = 1 << 20


@pytest.fixture
def large(world: World) -> World:
    """An append table of 84 MB, whose compaction has four pieces."""
    schema = pa.schema([("k", pa.int64()), ("v", pa.binary())])
    table = world.catalog.create_table(f"{world.table.name}_log", schema, options={"target-file-size": "16 mb"})
    random = np.random.default_rng(1)
    for number in range(FILES):
        blobs = [random.bytes(ROW_BYTES) for _ in range(ROWS)]
        table.append(pa.table({"k": range(number * ROWS, (number + 1) * ROWS), "v": blobs}, schema=schema))
    world.catalog.metastore.request_jobs(table.uuid, COMPACT, [to_bucket_scope(b"", 0)], {STRATEGY: FULL})
    return dataclasses.replace(world, table=table)


def is_done(world: World) -> bool:
    """Whether the compaction is; of other kinds there may be jobs as well."""
    jobs = world.catalog.metastore.list_jobs([world.table.uuid])
    return [job.state for job in jobs if job.kind == COMPACT] == [JobState.DONE]


def test_large_jobs_are_tasks(large: World) -> None:
    killed = large.start("--spark-master", "local[2]", fault="written")
    assert killed.wait(200) == -signal.SIGKILL, killed.text()
    # It takes the job over once the lease of the dead one is over.
    compactor = large.start("--spark-master", "local[2]", "--spark-conf", "spark.driver.memory=600m")
    large.wait_for(lambda: is_done(large), 200)
    compactor.send(signal.SIGTERM)
    assert compactor.wait() == 0, compactor.text()
    assert "starting Spark" in compactor.text()
    keys = large.table.scan(["k"]).to_arrow().column("k").to_pylist()
    assert sorted(keys) == list(range(FILES * ROWS))
    live = {Path(path).name for path in large.table.files()["path"].to_pylist()}
    # compact-NUMBER-TASK_ATTEMPT-FILE-BUCKET
    assert len({name.split("-")[2] for name in live}) > 1, "pieces were tasks"
    there = {path.name for path in Path(large.table.info.location.removeprefix("file://")).rglob("compact-*")}
    assert there == live, "of the dead one, and of tasks, only what was committed is there"
