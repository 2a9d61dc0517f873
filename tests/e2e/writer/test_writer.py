"""The writer service as processes: killed at every step, frozen, doubled, stopped; each row is there once."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
import urllib.request
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.format.jobs.presence import Liveness, Service, ServiceState
from lakelog.sdk.tables.table import Table
from tests.e2e.writer.world import World, Writer
from tests.support.forked import run_forked
from tests.support.repository import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

SOON = ("--lease-seconds", "3")
"""Whoever follows one that was killed waits so long, and not half a minute."""

DEAD_LETTERS = "bad_records: dead-letter\ndead_letters: ./dead\n"


def replay(table: Table) -> tuple[dict[int, str], int]:
    """The rows as the changelog of the producer `lookup` leaves them, by key, and how many came in."""
    known: dict[int, str] = {}
    inputs = 0
    for row in table.changes().to_arrow().to_pylist():
        if row["_row_kind"].startswith("-"):
            assert known.pop(row["id"]) == row["name"]
        else:
            inputs += 1
            assert row["id"] not in known
            known[row["id"]] = row["name"]
    return known, inputs


def count_letters(world: World) -> int:
    return sum(len(path.read_text().splitlines()) for path in (world.folder / "dead").glob("*.jsonl"))


@pytest.mark.parametrize("seed", range(4), ids=["planned", "written", "committed", "counted"])
def test_killed_at_every_step(world: World, seed: int) -> None:
    """The batch is planned, its files are written, it is committed, it is counted: each push takes one of the steps.

    Each batch's changelog is there once, whatever was written before it; a row that came twice would be there twice.
    Two starts of Spark each; `test_kafka_source` kills at another step with each push, and takes the changelog from
    the rows as they come. Rows of a table without a key are those of the next test.
    """
    step, snapshots = [("planned", 1), ("written", 1), ("committed", 2), ("counted", 2)][seed]
    table = world.use_table_with_key("lookup")
    world.write_pipeline(DEAD_LETTERS)
    world.add_files(2, bad=1)
    # The same keys once more, in a batch of their own.
    world.next_row = 0
    world.add_files(3, bad=1)
    writer = world.start(*SOON, fault=f"{step}:1")
    assert writer.wait() == -signal.SIGKILL, writer.text()
    assert world.snapshots() == snapshots
    assert len(list((world.folder / "state/spark/offsets").glob("[0-9]*"))) == 2
    assert len(list((world.folder / "state/spark/commits").glob("[0-9]*"))) == 1
    assert world.start().wait() == 0, world.writers[-1].text()
    assert world.has_all_rows_once()
    assert world.snapshots() == 3
    assert count_letters(world) == 5
    report = world.pipeline()
    assert report is not None
    assert (report.state, report.last_batch_id, report.position, report.lag) == ("stopped", 2, "5 of 5 files", 0)
    assert (report.total_rows, report.dead_letter_rows, report.last_error) == (50, 5, "")
    assert ('"already_applied": true' in world.writers[-1].text()) == (step in ("committed", "counted"))
    rows, inputs = replay(table)
    assert inputs == 50
    assert rows == {row["id"]: row["name"] for row in table.scan().to_arrow().to_pylist()}
    abandoned = {Path(path).parent for path in world.orphans()}
    # What the killed one had written belongs to an attempt that is never committed.
    assert len(abandoned) == (1 if step == "written" else 0)


@pytest.mark.parametrize("seed", range(4), ids=["altered", "written", "committed", "counted"])
def test_killed_in_a_batch_that_brings_a_column(world: World, seed: int) -> None:
    """The table gets the column before the batch is read: whatever comes then, it has it once, and each row once."""
    step, snapshots = [("altered", 1), ("written", 1), ("committed", 2), ("counted", 2)][seed]
    world.write_pipeline("schema: {evolution: add-columns}\n")
    world.add_files(2)
    world.add_files(3, price=True)
    writer = world.start(*SOON, fault=f"{step}:1")
    assert writer.wait() == -signal.SIGKILL, writer.text()
    assert (world.snapshots(), world.catalog.table(world.table).info.schema.schema_id) == (snapshots, 1)
    assert world.start().wait() == 0, world.writers[-1].text()
    table = world.catalog.table(world.table)
    assert (table.schema.names, table.info.schema.schema_id) == (["id", "name", "price"], 1)
    rows = table.scan(columns=["id", "price"]).to_arrow().sort_by("id").to_pylist()
    assert rows == [{"id": row, "price": row if row >= 20 else None} for row in range(50)]
    assert world.snapshots() == 3


@pytest.mark.parametrize("seed", range(4))
def test_killed_at_a_random_moment_and_stopped_while_batches_come(world: World, seed: int) -> None:
    """A moment of its own in each run. Its successor is stopped in order, which is no error in the log."""
    drawn = random.randrange(1 << 32)
    dice = random.Random(drawn)
    world.write_pipeline(trigger="{interval: 50 ms}")
    # So many that tasks write them, not the driver program.
    world.add_files(12, rows=3000)
    killed = world.start("--lease-seconds", "1", cores=2)
    # Batches follow each other from the first one on.
    world.until(lambda: world.has_more_snapshots(0))
    time.sleep(dice.random())
    killed.send(signal.SIGKILL)
    killed.wait()
    world.add_files(4, rows=3000)
    writer = world.start(cores=2)
    world.until(lambda: len(world.ids()) >= world.next_row)
    assert world.has_all_rows_once(), f"seed {seed}, drawn {drawn}"
    # More files than are read before the signal, two a batch: another batch is always due.
    begun = world.snapshots()
    world.add_files(400)
    world.until(lambda: world.has_more_snapshots(begun + 2))
    before = writer.text().count("\n")
    writer.send(signal.SIGTERM)
    assert writer.wait() == 0, writer.text()
    assert len(world.ids()) < world.next_row, "the stop came when no batch was due"
    lines = [json.loads(line) for line in writer.text().splitlines()[before:]]
    assert {line["level"] for line in lines} == {"info"}
    assert lines[-1]["event"] == "stopped"
    assert "ERROR" not in writer.text()


def test_a_frozen_instance_is_replaced_and_does_no_harm(world: World) -> None:
    world.write_pipeline(trigger="{interval: 100 ms}")
    world.add_files(2)
    first = world.start("--lease-seconds", "2")
    world.until(lambda: world.ids() == list(range(20)))

    reported = world.start("--lease-seconds", "2", "--no-wait")
    assert reported.wait() == 5
    assert "runs this pipeline now" in reported.text()

    first.send_all(signal.SIGSTOP)
    world.add_files(2)
    second = world.start("--lease-seconds", "2")
    world.until(lambda: world.ids() == list(range(40)))
    world.add_files(2)
    first.send_all(signal.SIGCONT)
    assert first.wait() == 4, first.text()
    world.until(lambda: len(world.ids()) >= world.next_row)
    assert world.has_all_rows_once()
    report = world.pipeline()
    assert report is not None
    assert (report.state, report.holder.split()[-1]) == ("running", str(second.process.pid))

    second.send(signal.SIGTERM)
    assert second.wait() == 0, second.text()
    report = world.pipeline()
    assert report is not None
    assert (report.state, report.holder, report.position) == ("stopped", "", "6 of 6 files")
    assert world.orphans() == []


def test_a_bad_record_and_a_lost_checkpoint_are_exit_codes(world: World) -> None:
    """What they leave, and how a pipeline goes on after them, is for `tests/integration/writer` to show."""
    world.write_pipeline()
    world.add_files(1)
    bad = world.folder / "in" / "000009.csv"
    bad.write_text("id,name\nten,x\n")
    writer = world.start()
    assert writer.wait() == 3
    assert f"File {bad}, line 2: column 'id' has 'ten'" in writer.text()
    assert world.ids() == []
    assert world.orphans() == []

    # A batch that the checkpoint knows nothing of. It is noticed before Spark has started.
    rows = pa.table({"id": [0], "name": ["x"]}, schema=world.catalog.table(world.table).schema)
    world.catalog.table(world.table).append(rows, writer=f"pipeline-{world.name}", identifier=7)
    writer = world.start()
    assert writer.wait() == 6
    assert "Checkpoint and table do not fit" in writer.text()
    assert str(world.folder / "state") in writer.text()
    assert world.ids() == [0]


def find_service(world: World, writer: Writer) -> Service | None:
    return next((service for service in world.catalog.services() if service.pid == writer.process.pid), None)


def test_it_is_listed_while_it_runs_and_the_metastore_may_go_away_for_a_while(world: World) -> None:
    world.write_pipeline(trigger="{interval: 100 ms}")
    world.add_files(2)
    writer = world.start("--lease-seconds", "2", "--metrics-port", "0")
    seen: list[ServiceState] = []

    def runs() -> bool:
        found = find_service(world, writer)
        if found is not None and found.state not in seen:
            seen.append(found.state)
        return ServiceState.RUNNING in seen

    world.until(runs)
    found = find_service(world, writer)
    assert found is not None
    assert (found.kind, found.work, found.liveness) == ("writer", (world.name,), Liveness.PRESENT)
    assert found.metrics.startswith("127.0.0.1:")
    # Spark takes long: before it runs, it is listed as starting.
    assert seen == [ServiceState.STARTING, ServiceState.RUNNING]

    world.until(lambda: world.ids() == list(range(20)))
    world.stack.kill("metastore")
    world.add_files(2)
    time.sleep(5)
    world.stack.restart("metastore")
    world.until(lambda: len(world.ids()) >= world.next_row)
    assert world.has_all_rows_once()
    # A batch is visible a moment before it is counted.
    world.until(lambda: f'lakelog_writer_rows_total{{pipeline="{world.name}"}} 40.0' in _read_metrics(writer.text()))
    assert f'lakelog_writer_lag_files{{pipeline="{world.name}"}} 0.0' in _read_metrics(writer.text())

    def is_heard() -> bool:
        found = find_service(world, writer)
        return found is not None and found.silent_ms < 3000

    # A service whose last report failed sends none at its end: the metastore is away.
    world.until(is_heard)
    writer.send(signal.SIGTERM)
    assert writer.wait() == 0, writer.text()
    assert find_service(world, writer) is None


def test_check_says_what_is_wrong(world: World) -> None:
    def check() -> tuple[int, str]:
        words = ["check", str(world.folder / "pipeline.yaml"), "--target", world.stack.target]
        done = run_forked("writer", words, folder=ROOT, environment=os.environ)
        return done.returncode, done.stdout + done.stderr

    file = world.write_pipeline()
    assert check() == (0, f"{file}: pipeline '{world.name}' fits table {world.table} of {world.stack.target}.\n")
    file.write_text(file.read_text().replace("mode: append", "mode: upsert"))
    code, said = check()
    assert code == 2
    assert "needs a primary key" in said
    file.write_text(file.read_text().replace(world.table, world.table + "x"))
    code, said = check()
    # A table that does not exist yet may be made: an end of its own.
    assert code == 8
    assert world.table in said
    file.write_text("name: [")
    assert check()[0] == 2


def _read_metrics(log: str) -> str:
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    port = next(line["port"] for line in lines if line["event"] == "metrics")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        return str(answer.read().decode())


def test_nothing_of_the_tests_is_in_the_product() -> None:
    assert not [path for path in Path(ROOT / "writer").rglob("*.py") if re.search(r"\bFAULT\b", path.read_text())]
