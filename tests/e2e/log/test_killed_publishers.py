"""Publishers that die or freeze at a point of a transaction, a metastore that is set back, and rounds of random faults.

All over a real broker and a real Postgres; a plain consumer judges. Controls leave one protection out.
"""

from __future__ import annotations

import itertools
import os
import signal
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from bench.faults.lab import LEASE_S, ROUND_S, FaultLab, FaultReport
from bench.faults.schedule import plan_round
from bench.faults.tables import SCHEMA, VALUE, WHOLE_ROWS
from lakelog.clock import SystemClock
from lakelog.errors import HistoryDiverged
from lakelog.log.kafka import open_kafka_log
from lakelog.log.records import TopicSpec
from lakelog.log.secrets import Secrets
from lakelog.log.tally import LogFindings
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.maintenance.log_verification import verify_log
from lakelog.sdk.tables.table import Table
from lakelog.testing.log_history import LogViolation, check_log
from lakelog.testing.log_recording import Recorder, check_recording, load_table_side, read_recording
from tests.support.command import Command
from tests.support.forked import ForkedProcess, preload
from tests.support.forked_stack import ForkedStack
from tests.support.log.kafka_broker import require_kafka
from tests.support.log.logging_tables import read_all
from tests.support.repository import ROOT

pytestmark = pytest.mark.e2e

WAIT_S = 60.0
TABLES = 4


@pytest.fixture(scope="module")
def lab() -> Iterator[FaultLab]:
    require_kafka()
    with (
        tempfile.TemporaryDirectory(prefix="ll-log-", ignore_cleanup_errors=True) as folder,
        FaultLab(Path(folder), ForkedStack).running(publishers=()) as lab,
    ):
        yield lab


_numbers = itertools.count(1)
preload(
    "bench.faults.writers",
    "lakelog.log.kafka.sending.producer",
    "writer.config",
    "writer.publishing.recovery",
    "writer.publishing.wiring",
)


@pytest.fixture
def catalog(lab: FaultLab) -> Iterator[Catalog]:
    with lab.connect() as catalog:
        yield catalog


@pytest.fixture
def table(lab: FaultLab, catalog: Catalog) -> Table:
    return lab.make_table(catalog, keyed=False)


@pytest.fixture
def recorder(lab: FaultLab, table: Table) -> Iterator[Recorder]:
    with lab.record(table) as recorder:
        yield recorder


@contextmanager
def publisher(lab: FaultLab, table: Table, **settings: str) -> Iterator[ForkedProcess]:
    """A publisher of one table that is told where to die or to freeze, and what to leave out."""
    reported_all = {f"LAB_{name.upper()}": value for name, value in settings.items()}
    words = ["publish", "--tables", table.name, "--target", lab.stack.target, "--lease-seconds", f"{LEASE_S:g}"]
    log = lab.stack.folder / "logs" / f"lab-publisher-{next(_numbers)}.log"
    environment = {**os.environ, **reported_all}
    process = ForkedProcess("tests.e2e.log.publisher_process", words, folder=ROOT, environment=environment, output=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def write(table: Table, number: int) -> None:
    """A snapshot with a row in each of a few places."""
    rows = {"k": list(range(6)), "v": [f"{number}.{row}" for row in range(6)]}
    table.append(pa.table(rows, schema=SCHEMA))


def find_violations(recorder: Recorder, table: Table) -> set[LogViolation]:
    findings = check_recording(recorder.stop(), table, row=VALUE, whole_rows=WHOLE_ROWS)
    return {finding.violation for finding in findings}


def wait_until_frozen(process: ForkedProcess) -> None:
    give_up_s = time.monotonic() + WAIT_S
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert process.poll() is None, "it ended instead of freezing"
        assert time.monotonic() < give_up_s, "it did not freeze in time"
        time.sleep(0.02)


@pytest.mark.parametrize("off", ["", "position_of_the_log"])
def test_a_crash_before_the_report_has_published(lab: FaultLab, table: Table, recorder: Recorder, off: str) -> None:
    with publisher(lab, table, kill_at="committed 2") as first:
        write(table, 1)
        lab.drain(table)
        write(table, 2)
        assert first.wait(WAIT_S) == -signal.SIGKILL
    with publisher(lab, table, off=off):
        write(table, 3)
        lab.drain(table)
    found = find_violations(recorder, table)
    assert found >= {LogViolation.DUPLICATE} if off else not found


@pytest.mark.parametrize("off", ["", "one_id"])
def test_who_was_frozen_in_a_transaction_cannot_end_it(
    lab: FaultLab, table: Table, recorder: Recorder, off: str
) -> None:
    with publisher(lab, table, freeze_at="commit 2", off=off) as zombie:
        write(table, 1)
        lab.drain(table)
        write(table, 2)
        wait_until_frozen(zombie)
        with publisher(lab, table, off=off):
            lab.drain(table)
            zombie.send_signal(signal.SIGCONT)
            write(table, 3)
            lab.drain(table)
            time.sleep(LEASE_S)
    found = find_violations(recorder, table)
    assert found >= {LogViolation.DUPLICATE} if off else not found


def test_a_broker_that_is_killed_within_a_transaction_shows_each_row_once(
    lab: FaultLab, table: Table, recorder: Recorder
) -> None:
    with publisher(lab, table, freeze_at="commit 2") as process:
        write(table, 1)
        lab.drain(table)
        write(table, 2)
        wait_until_frozen(process)
        lab.stack.kill("kafka")
        lab.stack.restart("kafka")
        process.send_signal(signal.SIGCONT)
        write(table, 3)
        lab.drain(table)
    assert not find_violations(recorder, table)


def test_a_metastore_that_is_set_back_is_noticed(
    lab: FaultLab, catalog: Catalog, table: Table, recorder: Recorder
) -> None:
    options = {"scan.snapshot-id": "1"}
    with publisher(lab, table), table.subscribe("from-snapshot", options=options) as stream:
        write(table, 1)
        lab.drain(table)
        with metastore_is_down(lab) as connection:
            connection.execute("CREATE DATABASE backup TEMPLATE postgres")
        write(table, 2)
        lab.drain(table)
        assert [batch.snapshot_id for batch in read_all(stream, 2, WAIT_S)][-1] == 2
        before = load_table_side(table, row=VALUE, whole_rows=WHOLE_ROWS)
        with metastore_is_down(lab) as connection:
            connection.execute("DROP DATABASE postgres WITH (FORCE)")
            connection.execute("ALTER DATABASE backup RENAME TO postgres")
        again = catalog.table(table.name)
        assert again.snapshots().num_rows == 1, "nothing was set back"
        write(again, 3)
        problem = wait_for_problem(again)
        assert "set back" in problem
        assert f"lakelog log restart {table.name}" in problem
        with pytest.raises(HistoryDiverged):
            stream.read(WAIT_S)
        catalog.metastore.restart_log(again.uuid)
        write(again, 4)
        lab.drain(again)
        assert verify(lab, again).is_fine
    seen = read_recording(recorder.stop(), SCHEMA, (), row=VALUE)
    old = pc.is_in(seen["uuid"], value_set=before.snapshots["uuid"].combine_chunks())
    assert check_log(seen.filter(old), before.snapshots, before.rows) == []
    new = sorted(seen.filter(pc.invert(old))["row"].to_pylist())
    assert new == sorted(f"4.{row}" for row in range(6)), "what came before the log was begun anew is in it"


@pytest.mark.parametrize("what", ["deleted", "made anew"])
def test_a_topic_that_changes_under_its_publisher_is_reported(
    lab: FaultLab, catalog: Catalog, table: Table, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    info = catalog.metastore.get_log(table.uuid)
    admin = open_kafka_log({"kafka.bootstrap.servers": lab.stack.kafka}, Secrets({})).open_admin()
    with publisher(lab, table):
        for number in (1, 2):
            write(table, number)
        lab.drain(table)
        admin.delete_topic(info.topic)
        if what == "made anew":
            admin.create_topic(TopicSpec(info.topic, 2))
            # It goes on without a fresh start, and brokers take what it sends.
            write(table, 3)
            wait_for_problem(table)
    with publisher(lab, table):
        problem = wait_for_problem(table)
        assert ("does not exist any more" if what == "deleted" else "made anew") in problem
        assert f"lakelog log restart {table.name}" in problem
        code, out, err = Command(catalog, capsys)("log", "status", table.name)
        assert code == 0
        assert problem.split(": ")[0] in " ".join((out + err).split())
        if what == "deleted":
            wait_for_metric(lab, f'lakelog_metastore_log_problems{{table="{table.name}"}} 1.0')
        catalog.metastore.restart_log(table.uuid)
        write(table, 4)
        lab.drain(table)
        assert verify(lab, table).is_fine
    admin.close()


def test_a_metastore_that_is_frozen_for_longer_than_a_lease_changes_nothing(
    lab: FaultLab, table: Table, recorder: Recorder
) -> None:
    with publisher(lab, table), publisher(lab, table):
        write(table, 1)
        lab.drain(table)
        lab.stack.pause("metastore")
        time.sleep(2.5 * LEASE_S)
        lab.stack.resume("metastore")
        for number in (2, 3):
            write(table, number)
        lab.drain(table)
    assert not find_violations(recorder, table)


def verify(lab: FaultLab, table: Table) -> LogFindings:
    """What `lakelog log verify` finds."""
    metastore = table._context.metastore
    log = open_kafka_log({"kafka.bootstrap.servers": lab.stack.kafka}, Secrets({}))
    store = table._context.open_store(table.info)
    return verify_log(metastore, metastore.get_log(table.uuid), log, store, SystemClock())


def wait_for_metric(lab: FaultLab, line: str) -> None:
    """Until the metastore measures it, which it does now and then."""
    give_up_s = time.monotonic() + WAIT_S
    while True:
        with urllib.request.urlopen(f"http://127.0.0.1:{lab.stack.metrics_port}/metrics", timeout=10) as page:
            lines = page.read().decode().splitlines()
        if line in lines:
            return
        assert time.monotonic() < give_up_s, [each for each in lines if line.partition("{")[0] in each]
        time.sleep(0.2)


@contextmanager
def metastore_is_down(lab: FaultLab) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """Meanwhile its database can be copied and exchanged."""
    lab.stack.kill("metastore")
    assert lab.stack.postgres is not None
    url = lab.stack.postgres.url("template1").replace("+psycopg", "")
    with psycopg.connect(url, autocommit=True) as connection:
        ends = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = 'postgres'"
        connection.execute(ends)
        yield connection
    lab.stack.restart("metastore")


def wait_for_problem(table: Table) -> str:
    give_up_s = time.monotonic() + WAIT_S
    while not (problem := table._context.metastore.get_publish_state(table.uuid).problem):
        assert time.monotonic() < give_up_s, "nobody noticed"
        time.sleep(0.1)
    return problem


@pytest.mark.timeout(280)
@pytest.mark.parametrize("seed", range(1, 9))
def test_no_fault_is_seen_by_a_consumer(lab: FaultLab, seed: int) -> None:
    """Four histories of tables at once; `./run bench FAULTS` runs two hundred."""
    report = FaultReport()
    with lab.publishing():
        lab.run_round(seed, TABLES, report)
    assert report.runs == TABLES
    assert report.snapshots >= 2 * report.runs
    assert set(report.faults) == {order.fault for order in plan_round(seed, ROUND_S, LEASE_S)}
