"""Dropped tables are purged and orphans repaired by processes that die on the way; a writer at work loses nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from lakelog.errors import NotFound
from lakelog.format.jobs.job import PURGE
from tests.e2e.compactor.world import SCHEMA, World
from tests.support.forked import preload, run_forked
from tests.support.repository import ROOT

pytestmark = [pytest.mark.e2e]


preload("lakelog.cli.app")


def folder_of(world: World) -> Path:
    return Path(world.table.location.removeprefix("file://"))


def files(world: World) -> list[Path]:
    return [path for path in folder_of(world).rglob("*") if path.is_file()]


def hurry_purge(world: World) -> None:
    """Lets the time be over for which the dropped table is kept."""
    (job,) = [each for each in world.catalog.metastore.list_jobs([world.table.uuid]) if each.kind == PURGE]
    with psycopg.connect(world.stack.database_url.replace("+psycopg", "")) as connection:
        kept = "UPDATE catalog_table SET kept_until_ms = dropped_at_ms WHERE table_uuid = %s"
        connection.execute(kept, (world.table.uuid,))
        connection.execute("UPDATE job SET due_at = clock_timestamp() WHERE job_id = %s", (job.job_id,))


@pytest.mark.parametrize("step", ["purge-half", "purge-rows"])
def test_a_purge_whose_compactor_is_killed_goes_on(world: World, step: str) -> None:
    other = world.catalog.create_table(f"{world.table.name}_other", SCHEMA, primary_key=["k"])
    other.upsert(pa.table([[1], [1]], schema=SCHEMA))
    for number in range(4):
        world.upsert((1, number), (2, number))
    before = world.shown()
    world.catalog.drop_table(world.table.name)
    assert world.catalog.restore_table(world.table.name).scan().count() == len(before)
    world.catalog.drop_table(world.table.name)
    hurry_purge(world)
    count = len(files(world))
    assert world.start(for_all_tables=True, fault=step).wait() == -signal.SIGKILL
    left = len(files(world))
    assert 0 < left < count if step == "purge-half" else left == 0
    with pytest.raises(NotFound, match="kept no longer"):
        world.catalog.restore_table(world.table.name)
    world.start(for_all_tables=True)
    world.wait_for(lambda: not world.catalog.metastore.list_jobs([world.table.uuid]))
    assert not folder_of(world).exists()
    assert world.catalog.dropped_tables("shop").column("uuid").to_pylist().count(world.table.uuid) == 0
    assert other.scan().count() == 1


def run_python(world: World, code: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Runs a program, whose output is a file of the test's folder."""
    environment = {**os.environ, "LAKELOG_TARGET": world.stack.target, "PYTHONPATH": str(ROOT)}
    with (world.folder / "output.txt").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), *arguments],
            cwd=world.folder,
            env=environment,
            stdout=output,
            stderr=output,
        )


def check(world: World, *arguments: str) -> dict[str, object]:
    words = ["table", "check", world.table.name, "-o", "json", *arguments]
    environment = {**os.environ, "LAKELOG_TARGET": world.stack.target, "PYTHONPATH": str(ROOT)}
    done = run_forked("lakelog.cli.main", words, folder=world.folder, environment=environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


WRITER = """
    import sys, time
    from pathlib import Path
    import psycopg
    import pyarrow as pa
    import lakelog
    from lakelog.client.grpc.metastore import GrpcMetastore

    name, written, go = sys.argv[1:]
    commit = GrpcMetastore.commit

    def slow_commit(self, request):
        Path(written).touch()
        while not Path(go).exists():
            time.sleep(0.02)
        return commit(self, request)

    GrpcMetastore.commit = slow_commit
    with lakelog.connect() as catalog:
        table = catalog.table(name)
        table.upsert(pa.table([[7, 8], [1, 1]], schema=table.schema))
"""

KILLED_REPAIR = """
    import os, signal, sys
    from lakelog.cli.main import main
    from lakelog.storage.objects.local import LocalStore

    delete_many = LocalStore.delete_many

    def dies(self, paths):
        delete_many(self, paths[: len(paths) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

    LocalStore.delete_many = dies
    sys.argv[1:] = ["table", "check", sys.argv[1], "--repair", "-y"]
    main()
"""


@pytest.mark.slow
def test_a_repair_that_is_killed_is_done_again_and_a_writer_at_work_commits(world: World) -> None:
    world.upsert((1, 1))
    attempt = world.catalog.metastore.stage_attempt([world.table.uuid], "dead").attempt_id
    world.catalog.metastore.abandon_attempt(attempt)
    left = folder_of(world) / "data" / attempt
    left.mkdir()
    for number in range(10):
        (left / f"f{number}.parquet").write_bytes(b"left")
    written, go = world.folder / "written", world.folder / "go"
    writer = run_python(world, WRITER, world.table.name, str(written), str(go))
    try:
        world.wait_for(written.exists)
        assert check(world)["orphan_files"] == 12, "two of them are the writer's, one a bucket"
        killed = run_python(world, KILLED_REPAIR, world.table.name)
        assert killed.wait(60) == -signal.SIGKILL
        assert 0 < len(list(left.glob("*"))) < 10
        repaired = check(world, "--repair", "-y")
        assert (repaired["deleted_files"], repaired["orphan_files"]) == (5, 7)
        assert not left.exists()
    finally:
        go.touch()
        assert writer.wait(60) == 0, (world.folder / "output.txt").read_text()
    assert world.shown() == {1: 1, 7: 1, 8: 1}
    assert check(world)["orphan_files"] == 0
