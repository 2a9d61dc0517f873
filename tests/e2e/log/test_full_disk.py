"""A broker whose disk is full: commits go on, the publisher says so, and then everything is in the topic once."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from bench.faults.lab import FaultLab
from bench.faults.tables import DATABASE, SCHEMA, VALUE, WHOLE_ROWS
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.testing.log_recording import check_recording
from tests.support.command import Command
from tests.support.forked_stack import ForkedStack
from tests.support.log.kafka_broker import require_kafka
from tests.support.small_disk import small_disk

pytestmark = pytest.mark.e2e

ROOM = "300m"
WAIT_S = 60.0


@pytest.fixture
def folder() -> Iterator[Path]:
    require_kafka()
    with tempfile.TemporaryDirectory(prefix="ll-full-log-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.mark.parametrize("seed", range(4))
def test_a_full_disk_stops_publishing_and_nothing_else(
    folder: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    dice = Random(seed)
    broker = folder / "stack" / "kafka"
    with (
        small_disk([broker], ROOM) as disk,
        FaultLab(folder, ForkedStack).running(["publisher"]) as lab,
        lab.connect() as catalog,
    ):
        table, eventual = lab.make_table(catalog, keyed=seed % 2 == 0), make_eventual(lab, catalog)
        with lab.record(table) as recorder:
            write(table, 1, 6, dice)
            lab.drain(table)
            disk.resize(f"{shutil.disk_usage(broker).used // 1024 + dice.randrange(64)}k")
            number = fill(lab, table, dice)
            # The table's own commits need no broker.
            write(table, number + 1, 6, dice)
            assert table.snapshots().num_rows == number + 1
            # A writer that sends its rows early cannot, commits all the same, and leaves them to the publisher.
            write(eventual, 1, 6, dice)
            assert eventual.scan().count() == 6
            if seed == 0:
                # A publisher inside a transaction waits a minute for the broker; one that begins reports it soon.
                lab.stack.kill("publisher")
                lab.stack.restart("publisher")
                problem = wait_for_problem(table)
                assert "Look whether they run" in problem
            code, out, err = Command(catalog, capsys)("log", "status", table.name)
            assert code == 0
            assert table.name in out
            assert seed or problem[:40] in " ".join((out + err).split())
            disk.resize(ROOM)
            lab.stack.restart("kafka")
            for each in (table, eventual):
                assert lab.drain(each).problem == ""
            assert not check_recording(recorder.stop(), table, row=VALUE, whole_rows=WHOLE_ROWS)
        code, out, err = Command(catalog, capsys)("log", "verify", eventual.name)
        assert code == 0, (out, err)


def fill(lab: FaultLab, table: Table, dice: Random) -> int:
    """Writes until the broker has ended because its disk is full; how many snapshots there are then."""
    number, give_up_s = 1, time.monotonic() + WAIT_S
    while lab.stack._part("kafka").is_running:
        assert time.monotonic() < give_up_s, "the broker goes on"
        number += 1
        write(table, number, 100, dice)
    said = lab.stack.logs["kafka"].read_text()
    assert "No space left on device" in said
    return number


def make_eventual(lab: FaultLab, catalog: Catalog) -> Table:
    options = {
        "bucket": "2",
        "bucket-key": "k",
        "log.system": "kafka",
        "log.consistency": "eventual",
        "kafka.bootstrap.servers": lab.proxy.target,
    }
    return catalog.create_table(f"{DATABASE}.eventual", SCHEMA, options=options)


def write(table: Table, number: int, rows: int, dice: Random) -> None:
    """A snapshot of rows that no other one has, and that do not shrink."""
    values = [f"{number}.{row}.{dice.randbytes(400).hex() if rows > 6 else ''}" for row in range(rows)]
    table.append(pa.table({"k": list(range(rows)), "v": values}, schema=SCHEMA))


def wait_for_problem(table: Table) -> str:
    give_up_s = time.monotonic() + 2 * WAIT_S
    while not (problem := table._context.metastore.get_publish_state(table.uuid).problem):
        assert time.monotonic() < give_up_s, "the publisher has not noticed"
        time.sleep(0.05)
    return problem
