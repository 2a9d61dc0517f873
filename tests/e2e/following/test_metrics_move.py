"""Every metric that dashboards and alerts name moves while a real stack works, or it says here why not."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from dev.dashboard_panels import OPERATORS, TABLES
from lakelog.errors import LakelogError
from lakelog.format.commit.request import Change, CommitRequest
from lakelog.format.tables.snapshot import SnapshotKind
from tests.e2e.following.observed import Observed
from tests.e2e.following.scraping import list_moved
from tests.support.forked import ForkedProcess
from tests.support.promql import Parser
from tests.support.spark.python_path import PYTHON_PATH
from tests.unit.k8s.manifests import build
from tests.unit.k8s.rules import expressions

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WITHIN_S = 60.0

STAYS = {
    "lakelog_compactor_deleted_files_total": "files are deleted an hour after they expire; tests/integration/compactor",
    "lakelog_compactor_expired_snapshots_total": "snapshots live for an hour at least",
    "lakelog_compactor_left_files_total": "no store refuses to delete here",
    "lakelog_compactor_takeovers_total": "no compactor dies here",
    "lakelog_metastore_database_lost_connections_total": "Postgres ends no connection here",
    "lakelog_metastore_database_waiting_transactions": "there are more connections than transactions",
    "lakelog_metastore_group_failures_total": "no transaction of commits fails here",
    "lakelog_metastore_log_problems": "no log has a problem here",
    "lakelog_metastore_oldest_due_seconds": "the compactor takes jobs at once; tests/contract/metastore",
    "lakelog_metastore_overdue_snapshots": "no snapshot is old enough to expire here",
    "lakelog_metastore_waiting_commits": "no commit waits at the moment in which one looks",
    "lakelog_metastore_waiting_work_age_seconds": "the only metastore counts by itself, so its figures are new",
    "lakelog_publisher_failures_total": "no step of a publisher fails here",
    "lakelog_publisher_hanging_calls": "brokers answer here",
    "lakelog_reader_lag_snapshots": "the subscription is as fast as the writer",
    "lakelog_reader_stream_failures_total": "no batch of a stream fails here",
    "lakelog_reader_subscriptions_refused_total": "there is room for one subscription",
    "lakelog_reader_untaken_bytes": "the client takes each message at once",
    "lakelog_server_certificate_remaining_seconds": "services of tests have no certificate",
    "lakelog_server_rotation_empty": "services of tests have no files that change",
    "lakelog_server_rotation_refused": "services of tests have no files that change",
    "lakelog_writer_dead_letters_total": "no record is refused here",
    "lakelog_writer_failures_total": "no batch of a pipeline fails here",
    "lakelog_writer_lag_records": "the pipeline reads files",
    "lakelog_reader_stream_lag_snapshots": "the stream ends with the newest snapshot",
    "lakelog_writer_lag_files": "one batch takes all files",
}
"""Named metrics that need not move here, and why."""

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])


def list_named() -> set[str]:
    """The metrics of lakelog that dashboards and alerts name."""
    texts = [text for _, text in expressions(build("production+monitoring"))]
    names = {selector.name for text in texts for selector in Parser(text).parse()}
    return {name for name in names if name.startswith("lakelog_")}


def test_the_dashboards_are_those_that_are_installed() -> None:
    panels = [panel for each in (OPERATORS, TABLES) for section in each.sections for panel in section.panels]
    installed = {where for where, _ in expressions(build("production+monitoring"))}
    assert {f"panel {panel.title}" for panel in panels} <= installed
    assert len({panel.title for panel in panels}) == len(panels)


def test_what_stays_is_named_by_a_dashboard_or_an_alert() -> None:
    assert STAYS.keys() - list_named() == set()


@pytest.fixture
def pipeline(observed: Observed, tmp_path: Path) -> Iterator[ForkedProcess]:
    """A pipeline from a file into a table."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.csv").write_text("k,v\n1,1\n2,2\n")
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        "name: moving\ntable: moving.landed\nmode: append\nsource: {type: files, path: ./in, format: csv}\n"
        "trigger: {interval: 200 ms}\ncheckpoint: ./state\n"
    )
    with running_spark(observed, tmp_path, "writer", ["run", str(file), "--target", observed.stack.target]) as process:
        yield process


@pytest.fixture
def stream(observed: Observed, tmp_path: Path) -> Iterator[ForkedProcess]:
    """A stream from that table into files."""
    file = tmp_path / "stream.yaml"
    file.write_text(
        "name: copy\nsource: {table: moving.landed}\nsink: {type: parquet, path: ./out}\ncheckpoint: ./copied\n"
    )
    with running_spark(observed, tmp_path, "reader", ["run", str(file)]) as process:
        yield process


@contextlib.contextmanager
def running_spark(observed: Observed, folder: Path, service: str, words: list[str]) -> Iterator[ForkedProcess]:
    """A service with a session of Spark of its own."""
    environment = {**os.environ, "LAKELOG_TARGET": observed.stack.target, "PYTHONPATH": PYTHON_PATH}
    arguments = [*words, "--spark-master", "local[1]", "--metrics-port", "0"]
    log = folder / f"{service}.log"
    process = ForkedProcess(service, arguments, folder=folder, environment=environment, output=log, leads=True)
    try:
        yield process
    finally:
        process.signal_session(9)
        process.wait(30)


def look(observed: Observed, moved: set[str]) -> None:
    """Adds the names of metrics of all processes that have moved."""
    for service in observed.catalog.services():
        if service.metrics:
            moved |= list_moved(service.metrics)


def work(observed: Observed, moved: set[str]) -> None:
    """Commits of all kinds to tables with a log, a changelog, a consumer and compactions."""
    catalog = observed.catalog
    kafka = {"log.system": "kafka", "kafka.bootstrap.servers": observed.stack.kafka}
    keyed = catalog.create_table(
        "moving.keyed",
        SCHEMA,
        primary_key=["k"],
        options={
            "bucket": "1",
            "changelog-producer": "lookup",
            "lookup-wait": "false",
            "num-sorted-run.compaction-trigger": "2",
            "kafka.topic": f"moving-{uuid.uuid4().hex[:8]}",
            **kafka,
        },
    )
    metastore = catalog.metastore
    with keyed.subscribe(consumer_id="slow", reader=observed.stack.reader_target) as subscription:
        for number in range(6):
            keyed.upsert(pa.table({"k": list(range(100)), "v": [number] * 100}, SCHEMA))
        next(iter(subscription))
        look(observed, moved)
    keyed.compact()
    wrong = Change(keyed.uuid, SnapshotKind.APPEND, keyed.info.schema.schema_id, 1, allow_empty=True)
    with contextlib.suppress(LakelogError):
        metastore.commit(CommitRequest("mover", 5, (wrong,), previous_identifier=3))
    keyed.scan().to_arrow()


def test_every_named_metric_moves(observed: Observed, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    observed.catalog.create_database("moving", if_not_exists=True)
    observed.catalog.create_table("moving.landed", SCHEMA)
    moved: set[str] = set()
    for name in ("pipeline", "stream"):
        request.getfixturevalue(name)
    work(observed, moved)
    wanted = list_named() - STAYS.keys()
    give_up_s = time.monotonic() + WITHIN_S
    while (left := wanted - moved) and time.monotonic() < give_up_s:
        observed.catalog.table("moving.keyed").upsert([{"k": 1, "v": 1}])
        time.sleep(0.5)
        look(observed, moved)
    logs = "\n".join(path.read_text()[-3000:] for path in tmp_path.glob("*.log"))
    assert not left, f"{sorted(left)}\n{logs}"
