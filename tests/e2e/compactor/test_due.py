"""What is due by itself, between processes that die: nothing is forgotten, and nothing is done in vain."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pyarrow as pa
import pytest

from lakelog.format.jobs.job import COMPACT, Job
from lakelog.sdk.tables.table import Table
from tests.e2e.compactor.world import SCHEMA, World

pytestmark = [pytest.mark.e2e]


@pytest.fixture(params=["keyed", "append"])
def small(world: World, request: pytest.FixtureRequest) -> Iterator[Table]:
    """A table of its own, with what is usual, and nobody else's."""
    has_key = request.param == "keyed"
    name = f"{world.table.name}_{request.param}"
    world.catalog.drop_table(world.table.name)
    world.table = world.catalog.create_table(
        name, SCHEMA, primary_key=["k"] if has_key else [], options={"bucket": "1"} if has_key else {}
    )
    yield world.table
    world.catalog.drop_table(name)


def write(table: Table, first: int, count: int) -> None:
    for number in range(first, first + count):
        rows = pa.table({"k": [number % 20], "v": [number]}, schema=SCHEMA)
        if table.info.schema.primary_key:
            table.upsert(rows)
        else:
            table.append(rows)


def jobs(world: World) -> list[Job]:
    return [job for job in world.catalog.metastore.list_jobs([world.table.uuid]) if job.kind == COMPACT]


def sums(table: Table) -> tuple[int, int]:
    """How many rows there are, and their sum."""
    found = table.scan().to_arrow()["v"].to_pylist()
    return len(found), sum(found)


def test_many_commits_leave_few_files_though_compactors_are_killed(world: World, small: Table) -> None:
    compactor = world.start(for_all_tables=True)
    for round_ in range(4):
        write(small, 25 * round_, 25)
        if round_ < 3:
            compactor.send(signal.SIGKILL)
            compactor.wait()
            compactor = world.start(for_all_tables=True)
    world.wait_for(lambda: small.files().num_rows <= 5)
    expected = list(range(80, 100)) if small.info.schema.primary_key else list(range(100))
    assert sums(small) == (len(expected), sum(expected))
    kinds = small.snapshots()["kind"].to_pylist()
    assert 1 <= kinds.count("COMPACT") <= 50
    assert kinds.count("APPEND") == 100
    assert len(jobs(world)) == 1


@contextmanager
def planning_held_up(world: World) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """Nobody plans the table meanwhile; whoever wants to forgets it, as one who dies."""
    with psycopg.connect(world.stack.database_url.replace("+psycopg", ""), autocommit=True) as connection:
        row = connection.execute("SELECT table_id FROM table_head WHERE name = %s", [world.table.name]).fetchone()
        assert row is not None
        connection.execute("SELECT pg_advisory_lock(hashtextextended('work_cursor', %s))", [row[0]])
        yield connection


@pytest.mark.parametrize("small", ["keyed"], indirect=True)
@pytest.mark.parametrize("is_recovered", [True, False], ids=["recovered", "control"])
def test_a_metastore_killed_between_commit_and_plan_forgets_nothing(
    world: World, small: Table, is_recovered: bool
) -> None:
    with planning_held_up(world) as connection:
        write(small, 0, 6)
        assert jobs(world) == []
        world.stack.kill("metastore")
        if not is_recovered:
            # Control: nothing tells that this was not planned.
            connection.execute(
                "INSERT INTO work_cursor (table_id, planned_until, requested, answered) "
                "SELECT table_id, latest_snapshot_id, 0, 0 FROM table_head WHERE name = %s "
                "ON CONFLICT (table_id) DO UPDATE SET planned_until = excluded.planned_until",
                [world.table.name],
            )
    world.stack.restart("metastore")
    world.start(for_all_tables=True)
    if is_recovered:
        world.wait_for(lambda: small.files().num_rows == 1)
        return
    # Another table is planned, and compacted, behind it.
    other = world.catalog.create_table(f"{world.table.name}_2", SCHEMA)
    write(other, 0, 6)
    world.wait_for(lambda: other.files().num_rows == 1)
    assert jobs(world) == []
    assert small.files().num_rows == 6
    world.catalog.drop_table(other.name)


@pytest.mark.parametrize("small", ["append"], indirect=True)
def test_a_write_only_table_is_compacted_by_anyone_who_is_sent_to_it(world: World, small: Table) -> None:
    small.alter(set={"write-only": "true"})
    write(small, 0, 6)
    everywhere = world.start(for_all_tables=True)
    other = world.catalog.create_table(f"{world.table.name}_2", SCHEMA)
    write(other, 0, 6)
    world.wait_for(lambda: other.files().num_rows == 1)
    assert jobs(world) == []
    everywhere.send(signal.SIGTERM)
    assert everywhere.wait() == 0
    world.start()
    world.wait_for(lambda: small.files().num_rows == 1)
    # And what is committed while it runs.
    write(small, 6, 6)
    world.wait_for(lambda: small.files().num_rows <= 3)
    world.catalog.drop_table(other.name)
