"""Postgres restored to an earlier point, while files, logs in Kafka, checkpoints and clients are newer.

Everything stops, or goes on for a reason that docs/restore.md gives; the repair mends each table; then all goes on, and
nothing is lost that the restored snapshots hold.
"""

from __future__ import annotations

import datetime as dt
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

import lakelog
from lakelog.errors import Fenced, HistoryDiverged, NotFound
from lakelog.reads.streams.subscription import Subscription
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.testing.history import SeenSnapshot, Write, check_history
from lakelog.testing.log_recording import Recorder
from tests.e2e.database.restore_walk import Page, Pipeline, is_restored, read_values, wait_for
from tests.support.forked_stack import ForkedStack
from tests.support.log.kafka_broker import require_kafka

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.timeout(400),
    pytest.mark.slow,
]

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
LOGGED = {"log.system": "kafka", "log.format": "debezium-json"}
SERVICES = ("metastore", "compactor", "publisher", "reader")


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[ForkedStack]:
    require_kafka()
    with (
        tempfile.TemporaryDirectory(prefix="ll-restore-", ignore_cleanup_errors=True) as folder,
        ForkedStack(Path(folder), services=SERVICES, kafka=True) as running,
    ):
        yield running


def rows(*values: str, first: int = 0) -> pa.Table:
    return pa.table({"k": range(first, first + len(values)), "v": list(values)}, schema=SCHEMA)


def values(table: Table, **scan: str | int) -> list[str]:
    return sorted(table.scan(**scan).to_arrow().column("v").to_pylist())  # type: ignore[arg-type]


def said(done: subprocess.CompletedProcess[str]) -> str:
    return " ".join((done.stdout + done.stderr).split())


def read(stream: Subscription, count: int) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        batch = stream.read(30)
        assert batch is not None, f"only {found} came"
        found += batch.data.column("v").to_pylist()
    return found


def drain(table: Table) -> None:
    metastore = table._context.metastore
    newest = table.snapshots().column("id").to_pylist()[-1]
    wait_for(lambda: metastore.get_publish_state(table.uuid).snapshot_id >= newest, f"{table.name} is not published")


def write_numbered(catalog: Catalog, numbers: range, what: str) -> list[Write]:
    """Commits of one writer to a table without a key and one with a changelog, and what a history has of them."""
    writes = []
    for number in numbers:
        value = f"{what} {number}"
        catalog.table("shop.events").append(rows(value, first=number), writer="w", identifier=number)
        catalog.table("shop.orders").upsert(rows(value, first=number), writer="w", identifier=number)
        writes.append(Write("w", number, dict.fromkeys(("shop.events", "shop.orders"), (value,)), "acknowledged"))
    return writes


def see(table: Table) -> list[SeenSnapshot]:
    changes = table.changes(0, raw=bool(table.primary_key)).to_arrow().to_pylist()
    return [
        SeenSnapshot(table.name, number, tuple(each["v"] for each in changes if each["_snapshot_id"] == number))
        for number in table.snapshots().column("id").to_pylist()
    ]


@pytest.mark.parametrize(
    ("way", "with_pipeline"), [("point in time", False), ("dump", True)], ids=["point in time", "dump"]
)
def test_the_walk(stack: ForkedStack, tmp_path: Path, way: str, with_pipeline: bool) -> None:
    with ExitStack() as closing:
        backups = closing.enter_context(tempfile.TemporaryDirectory(prefix="ll-backup-", ignore_cleanup_errors=True))
        Path(backups).chmod(0o755)
        page = Page(stack, Path(backups))
        if way == "point in time":
            page.run("archive_command")
            stack.restart("postgres")
        before = lakelog.connect(stack.target)
        before.create_database("shop")
        events = before.create_table("shop.events", SCHEMA, options=LOGGED)
        keyed = {"bucket": "1", "changelog-producer": "lookup"}
        orders = before.create_table("shop.orders", SCHEMA, primary_key=["k"], options={**LOGGED, **keyed})
        states = before.create_table("shop.states", SCHEMA, primary_key=["k"], options={"bucket": "1"})
        dropped = before.create_table("shop.dropped", SCHEMA)
        before.create_table("shop.imports", SCHEMA)
        pipeline = Pipeline(stack, tmp_path / "pipeline", "shop.imports")

        # Until the moment to which the database will be restored.
        before.register_writer("w")
        writes = write_numbered(before, range(1, 5), "kept")
        for state in ("a", "b", "c"):
            states.overwrite(rows(state))
        states.tags.create("early", 1)
        dropped.append(rows("dropped"))
        if with_pipeline:
            pipeline.add_file("file 0")
            pipeline.add_file("file 1")
            assert pipeline.run()[0] == 0
        consumer = events.subscribe("from-snapshot", consumer_id="billing", options={"scan.snapshot-id": "1"})
        assert len(read(consumer, 4)) == 4
        by_reader = events.subscribe("latest", reader=stack.reader_target)
        for table in (events, orders):
            drain(table)
        topic = before.metastore.get_log(events.uuid).topic
        recorder = closing.enter_context(Recorder(stack.kafka, topic, tmp_path / "seen.jsonl"))
        with consumer, by_reader:
            if way == "point in time":
                page.run("pg_basebackup")
            else:
                page.run("pg_dump")
            time.sleep(0.1)
            target = str(page.query("SELECT clock_timestamp()::text"))
            time.sleep(0.1)

            # What will be lost.
            write_numbered(before, range(5, 8), "lost")
            late = lakelog.connect(stack.target)
            late.register_writer("late")
            late.table("shop.events").append(rows("lost late"), writer="late", identifier=1)
            assert len(read(consumer, 4)) == len(read(by_reader, 4)) == 4
            for table in (events, orders):
                drain(table)
            states.tags.delete("early")
            states.expire_snapshots(older_than=dt.datetime.now(dt.UTC) + dt.timedelta(days=1), retain_last=1)
            folder = Path(states.location.removeprefix("file://"))
            wait_for(lambda: len(list(folder.rglob("*.parquet"))) == 1, "the compactor has not deleted what expired")
            before.drop_table("shop.dropped")
            before.create_table("shop.late", SCHEMA)
            if with_pipeline:
                pipeline.add_file("file 2")
                pipeline.add_file("file 3")
                assert pipeline.run()[0] == 0
                assert values(before.table("shop.imports")) == ["file 0", "file 1", "file 2", "file 3"]

            # The restore. Only the metastore is stopped.
            if way == "point in time":
                page.archive_all()
            stack.kill("metastore")
            if way == "point in time":
                stack.kill("postgres")
                page.run("recovery.signal", TARGET=target)
                page.give_back()
                stack.restart("postgres")
                wait_for(lambda: is_restored(page.postgres), "the server is still in recovery")
            else:
                page.run("pg_restore")
                page.use_database("restored")
            page.run("metastore migrate", LAKELOG_DATABASE_URL=page.postgres.url().replace("+psycopg", ""))
            stack.restart("metastore")

            # Nothing goes on in silence.
            for stream in (consumer, by_reader):
                with pytest.raises(HistoryDiverged, match=r"restored|lost|knows snapshot"):
                    read(stream, 1)
        after = lakelog.connect(stack.target)
        events, orders, states = (after.table(f"shop.{name}") for name in ("events", "orders", "states"))
        assert values(events) == values(orders) == [f"kept {number}" for number in range(1, 5)]
        assert after.last_identifier("w", "shop.events") == 4
        # A writer that registered before that moment learns what it has lost, one that registered after it is fenced.
        with pytest.raises(HistoryDiverged, match="restored to an earlier state"):
            write_numbered(before, range(8, 9), "with a hole")
        with pytest.raises(Fenced) as fenced:
            late.table("shop.events").append(rows("zombie"), writer="late", identifier=2)
        assert fenced.value.reason == "EPOCH_UNKNOWN"
        late.close()
        with pytest.raises(NotFound):
            after.table("shop.late")
        assert values(after.table("shop.dropped")) == ["dropped"]
        metastore = after.metastore
        for table in (events, orders):
            wait_for(
                lambda uuid=table.uuid: metastore.get_publish_state(uuid).is_ahead,  # type: ignore[misc]
                "the publisher has not noticed that the log is ahead",
            )

        # The check names what is wrong, the repair mends it, and a second check finds nothing.
        log = "Log The log of shop.events is not published"
        expected = {"shop.events": log, "shop.orders": log.replace("events", "orders"), "shop.states": "Missing"}
        for name, words in expected.items():
            found = page.run('table check "$TABLE"\n', may_fail=True, TABLE=name)
            assert (found.returncode, words in said(found)) == (1, True), said(found)
        assert states.check_files().broken_until == 2
        for name in (*expected, "shop.imports", "shop.dropped"):
            repaired = page.run("--repair --yes", may_fail=name == "shop.states", TABLE=name)
            mended = said(repaired)
            if name in ("shop.events", "shop.orders"):
                assert "Log restarted after snapshot 4" in mended
                assert "unknown" in mended, "files of lost commits are named, and stay for a day"
            if name == "shop.states":
                assert (repaired.returncode, states.tags.list().num_rows) == (1, 1), "a repair alone forgets nothing"
                assert "expire snapshots 1 to 2" in mended
                mended = said(page.run("--repair --forget-lost --yes", TABLE=name))
                assert "Snapshots expired 2" in mended
                assert "Tags deleted early" in mended
            assert page.run('table check "$TABLE"\n', TABLE=name).returncode == 0
        assert (values(states), states.tags.list().num_rows) == (["c"], 0)

        # Everything goes on.
        after.register_writer("w")
        assert after.last_identifier("w", "shop.orders") == 4
        writes += write_numbered(after, range(5, 9), "again")
        with events.subscribe(consumer_id="billing") as again:
            # Its position moved when the next batch was requested, so it shows the last kept row again.
            assert read(again, 5) == ["kept 4", *(f"again {number}" for number in range(5, 9))]
        with events.subscribe("from-snapshot", options={"scan.snapshot-id": "1"}, reader=stack.reader_target) as shown:
            assert len(read(shown, 8)) == 8
        if with_pipeline:
            code, log = pipeline.run()
            assert (code, "with --after-restore" in log) == (6, True), log
            code, log = pipeline.run("--after-restore")
            assert (code, "they are taken again" in log) == (0, True), log
            assert values(after.table("shop.imports")) == ["file 0", "file 1", "file 2", "file 3"]
        assert orders.compact(full=True, timeout=60).buckets
        for table in (events, orders):
            drain(table)
            verified = page.run_command("log", "verify", table.name)
            assert verified.returncode == 0, said(verified)

        # Nothing that was kept is lost or doubled, in the tables and for a consumer that knows nothing of lakelog.
        history = [each for table in (events, orders) for each in see(table)]
        assert [str(finding) for finding in check_history(writes, history)] == []
        seen = read_values(recorder.stop())
        kept, lost = [f"kept {n}" for n in range(1, 5)], [*(f"lost {n}" for n in range(5, 8)), "lost late"]
        assert seen == [*kept, *lost, *(f"again {n}" for n in range(5, 9))], "lost rows stay in the topic, once"

        # A day later.
        for table in (events, orders):
            assert table.check_files(repair=True, older_than=dt.timedelta(0)).deleted_files
            assert table.check_files().orphan_files == 0
        assert len(values(events)) == len(values(orders)) == 8
        for catalog in (before, after):
            catalog.close()
