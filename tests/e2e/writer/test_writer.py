"""The writer service as processes: killed at every step, frozen, doubled, stopped; each row is there once."""

from __future__ import annotations

import functools
import json
import random
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pyarrow as pa
import pytest

from tests.e2e.writer.world import World
from tests.support.repository import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

SOON = ("--lease-seconds", "3")
"""Whoever follows one that was killed waits so long, and not half a minute."""

DEAD_LETTERS = "bad_records: dead-letter\ndead_letters: ./dead\n"


def count_letters(world: World) -> int:
    return sum(len(path.read_text().splitlines()) for path in (world.folder / "dead").glob("*.jsonl"))


def test_killed_at_every_step(world: World) -> None:
    world.write_pipeline(DEAD_LETTERS)
    world.add_files(9, bad=1)
    # The batch is planned, its files are written, it is committed, it is counted: one step each, in a batch of its own.
    for batch_id, (step, snapshots) in enumerate([("planned", 0), ("written", 1), ("committed", 3), ("counted", 4)]):
        writer = world.start(*SOON, fault=f"{step}:{batch_id}")
        assert writer.wait() == -signal.SIGKILL, writer.text()
        assert world.snapshots() == snapshots
        begun = len(list((world.folder / "state/spark/offsets").glob("[0-9]*")))
        assert begun == batch_id + 1
        assert len(list((world.folder / "state/spark/commits").glob("[0-9]*"))) == batch_id
    assert world.start().wait() == 0, world.writers[-1].text()
    assert world.has_all_rows_once()
    assert world.snapshots() == 5
    assert count_letters(world) == 9
    report = world.pipeline()
    assert report is not None
    assert (report.state, report.last_batch_id, report.position, report.lag) == ("stopped", 4, "9 of 9 files", 0)
    assert (report.total_rows, report.dead_letter_rows, report.last_error) == (90, 9, "")
    assert '"already_applied": true' in world.writers[-1].text()


@pytest.mark.parametrize("producer", ["input", "lookup"])
def test_the_changelog_of_a_pipeline_that_is_killed(world: World, producer: str) -> None:
    """Each batch's changelog is there once, whatever was written before it."""
    world.table, world.mode = f"{world.table}_keyed", "upsert"
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    options = {"bucket": "2", "changelog-producer": producer}
    table = world.catalog.create_table(world.table, schema, primary_key=["id"], options=options)
    world.write_pipeline()
    world.add_files(4)
    # The same keys once more, in a batch of their own.
    world.next_row = 0
    world.add_files(4)
    for batch_id, step in enumerate(["written", "committed"]):
        writer = world.start(*SOON, fault=f"{step}:{batch_id}")
        assert writer.wait() == -signal.SIGKILL, writer.text()
    assert world.start().wait() == 0, world.writers[-1].text()
    known: dict[int, str] = {}
    inputs = 0
    for row in table.changes().to_arrow().to_pylist():
        if row["_row_kind"].startswith("-"):
            assert known.pop(row["id"]) == row["name"]
        else:
            inputs += 1
            assert producer == "input" or row["id"] not in known
            known[row["id"]] = row["name"]
    assert inputs == 80
    assert known == {row["id"]: row["name"] for row in table.scan().to_arrow().to_pylist()}
    assert world.has_all_rows_once()
    abandoned = {Path(path).parent for path in world.orphans()}
    assert len(abandoned) == 1, "what the killed one had written belongs to an attempt that is never committed"


def test_killed_at_random_moments(world: World) -> None:
    seed = random.randrange(1 << 32)
    dice = random.Random(seed)
    world.write_pipeline(trigger="{interval: 50 ms}")
    world.add_files(12, rows=2000)
    for _ in range(3):
        before = world.snapshots()
        writer = world.start("--lease-seconds", "1")
        # Batches follow each other from the first one on.
        world.until(functools.partial(world.has_more_snapshots, before))
        time.sleep(dice.random())
        writer.send(signal.SIGKILL)
        writer.wait()
        world.add_files(4, rows=2000)
    writer = world.start("--lease-seconds", "1")
    world.until(lambda: len(world.ids()) >= world.next_row)
    writer.send(signal.SIGTERM)
    assert writer.wait() == 0, writer.text()
    assert world.has_all_rows_once(), f"seed {seed}"


def test_a_stop_while_batches_come_is_no_error_in_the_log(world: World) -> None:
    world.write_pipeline(trigger="{interval: 50 ms}")
    # More files than are read before the signal, two a batch: another batch is always due.
    world.add_files(400)
    writer = world.start()
    world.until(lambda: world.has_more_snapshots(2))
    before = writer.text().count("\n")
    writer.send(signal.SIGTERM)
    assert writer.wait() == 0, writer.text()
    assert len(world.ids()) < world.next_row, "the stop came when no batch was due"
    behind = writer.text().splitlines()[before:]
    lines = [json.loads(line) for line in behind]
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


def test_a_bad_record_stops_until_it_is_repaired(world: World) -> None:
    world.write_pipeline()
    world.add_files(1)
    bad = world.folder / "in" / "000009.csv"
    bad.write_text("id,name\nten,x\n")
    writer = world.start()
    assert writer.wait() == 3
    assert f"File {bad}, line 2: column 'id' has 'ten'" in writer.text()
    report = world.pipeline()
    assert report is not None
    assert (report.state, report.last_batch_id) == ("failed", None)
    assert "line 2" in report.last_error
    assert world.ids() == []
    assert world.orphans() == []
    bad.write_text("id,name\n10,x\n")
    world.next_row = 11
    assert world.start().wait() == 0, world.writers[-1].text()
    assert world.has_all_rows_once()


def test_a_lost_checkpoint_and_a_lost_table_are_noticed(world: World) -> None:
    world.write_pipeline()
    world.add_files(2)
    assert world.start().wait() == 0, world.writers[-1].text()
    state = world.folder / "state"
    state.rename(world.folder / "elsewhere")
    writer = world.start()
    assert writer.wait() == 6
    assert "Checkpoint and table do not fit" in writer.text()
    assert str(state) in writer.text()
    assert world.has_all_rows_once()


def test_the_metastore_may_go_away_for_a_while(world: World) -> None:
    world.write_pipeline(trigger="{interval: 100 ms}")
    world.add_files(2)
    port = 0
    writer = world.start("--lease-seconds", "2", "--metrics-port", str(port))
    world.until(lambda: world.ids() == list(range(20)))
    world.stack.kill("metastore")
    world.add_files(2)
    time.sleep(5)
    world.stack.restart("metastore")
    world.until(lambda: len(world.ids()) >= world.next_row)
    assert world.has_all_rows_once()
    # A batch is visible a moment before it is counted.
    world.until(lambda: f'lakelog_writer_rows{{pipeline="{world.name}"}} 40.0' in _read_metrics(writer.text()))
    assert f'lakelog_writer_lag_files{{pipeline="{world.name}"}} 0.0' in _read_metrics(writer.text())
    writer.send(signal.SIGTERM)
    assert writer.wait() == 0, writer.text()


def test_check_says_what_is_wrong(world: World) -> None:
    def check() -> tuple[int, str]:
        command = [sys.executable, "-m", "writer", "check", str(world.folder / "pipeline.yaml")]
        done = subprocess.run(
            [*command, "--target", world.stack.target], cwd=ROOT, capture_output=True, text=True, check=False
        )
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
