"""Pieces of compactions as tasks of Spark: several at once, failing, doubled, lost and stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import structlog
from pyspark import TaskContext
from pyspark.sql import SparkSession

from compactor.compactions import spark_rewriting, tasks
from compactor.compactions.bucket_work import RewriteTask, RewrittenTask
from compactor.compactions.compactions import CompactionJobExecutor
from compactor.compactions.rewriting import LocalRewriter
from compactor.compactions.spark_rewriting import SparkRewriter
from compactor.executor import Control
from compactor.metrics import Metrics
from lakelog.clock import SystemClock
from lakelog.errors import DataCorrupted, Fenced
from lakelog.format.jobs.job import COMPACT, FULL, STRATEGY, Job, to_bucket_scope
from lakelog.format.tables.plan import InRange, PlanRequest
from lakelog.format.tables.table import TableInfo
from lakelog.sdk.tables.table import Table
from lakelog.spark.installation import installation_of
from lakelog.storage.objects.stores import LocationStores
from tests.integration.spark.spark_tables import MakeTable, live_files, stored_files

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
KEYED = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
FILES = 12
Rewrite = Callable[[TableInfo, str, RewriteTask], RewrittenTask]


class Compactor:
    """The duty of compactions in this process, with tasks in the session of the tests."""

    def __init__(self, spark: SparkSession, little_bytes: int = 0) -> None:
        self.metastore = installation_of(spark).metastore
        self.stopping = threading.Event()
        self.control = Control(self.stopping)
        clock, log = SystemClock(), structlog.get_logger()
        self.starts = 0

        def start() -> SparkSession:
            self.starts += 1
            return spark

        rewriter = SparkRewriter(start, clock, log, little_bytes)
        self.executor = CompactionJobExecutor(self.metastore, LocationStores(), clock, Metrics(), log, rewriter)

    def take(self, table: Table) -> Job:
        """Asks for a full compaction of the table's only bucket, and takes the job."""
        self.metastore.request_jobs(table.uuid, COMPACT, [to_bucket_scope(b"", 0)], {STRATEGY: FULL})
        job = self.metastore.lease_job((COMPACT,), [table.uuid], "tests", duration_ms=60_000, wait_ms=0)
        assert job is not None
        return job

    def run(self, table: Table) -> str:
        job = self.take(table)
        outcome = self.executor.do(job, self.control)
        self.metastore.finish_job(job.job_id, job.epoch, outcome, work_left=False)
        return outcome


@pytest.fixture
def log_table(make_table: MakeTable) -> Table:
    """An append table whose compaction has several pieces."""
    table = make_table(SCHEMA, options={"target-file-size": "2 kb", "source.split.open-file-cost": "1 b"})
    for number in range(FILES):
        table.append(pa.table({"k": [number] * 5, "v": [f"{number}.{row}" for row in range(5)]}, schema=SCHEMA))
    return table


def values(table: Table) -> list[str]:
    return sorted(table.scan().to_arrow().column("v").to_pylist())


ALL = sorted(f"{number}.{row}" for number in range(FILES) for row in range(5))


def test_rewrite_tasks_are_spark_tasks(spark: SparkSession, log_table: Table) -> None:
    compactor = Compactor(spark)
    assert compactor.run(log_table).startswith(f"rewrote {FILES} files")
    assert compactor.starts == 1
    assert values(log_table) == ALL
    paths = live_files(log_table)
    assert 1 < len(paths) < FILES // 2
    # compact-NUMBER-TASK_ATTEMPT-FILE-BUCKET
    assert len({path.rsplit("/", 1)[1].split("-")[2] for path in paths}) == len(paths), "each piece was a task"
    assert log_table.snapshots().column("kind").to_pylist()[-1] == "COMPACT"


def test_runs_of_a_bucket(spark: SparkSession, make_table: MakeTable) -> None:
    table = make_table(KEYED, ("k",))
    for turn in range(3):
        table.upsert(pa.table({"k": range(100), "v": [f"{turn}"] * 100}, schema=KEYED))
    table.delete(pa.table({"k": [7]}))
    before = table.scan().to_arrow().sort_by("k")
    assert Compactor(spark).run(table).startswith("rewrote 4 files")
    assert table.files().num_rows == 1
    assert table.scan().to_arrow().sort_by("k") == before


def test_a_full_compaction_emits_what_has_changed(spark: SparkSession, make_table: MakeTable) -> None:
    table = make_table(KEYED, ("k",), options={"changelog-producer": "full-compaction"})
    for turn, wanted in enumerate((["+I"] * 100, ["+U", "-U"])):
        count = 100 if turn == 0 else 1
        table.upsert(pa.table({"k": range(count), "v": [f"{turn}"] * count}, schema=KEYED))
        before = table.snapshots().num_rows
        Compactor(spark).run(table)
        found = table.changes(before).to_arrow()
        assert sorted(found.column("_row_kind").to_pylist()) == wanted
    plan = installation_of(spark).metastore.plan(PlanRequest(table.uuid, InRange(0, 4), changelog=True))
    assert stored_files(table) >= set(plan.files.column("path").to_pylist())


def test_what_is_little_starts_no_spark(spark: SparkSession, log_table: Table) -> None:
    compactor = Compactor(spark, little_bytes=1 << 20)
    compactor.run(log_table)
    assert compactor.starts == 0
    assert values(log_table) == ALL


def disturb(monkeypatch: pytest.MonkeyPatch, make: Callable[[Rewrite], Rewrite]) -> None:
    monkeypatch.setattr(spark_rewriting, "rewrite_in_task", make(tasks.rewrite_in_task))


def find_strays(spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What a compaction leaves of which each task's first attempt ends behind its work."""

    def make(whole: Rewrite) -> Rewrite:
        def rewrite(info: TableInfo, attempt_id: str, rewrite_task: RewriteTask) -> RewrittenTask:
            done = whole(info, attempt_id, rewrite_task)
            context = TaskContext.get()
            assert context is not None
            if context.attemptNumber() == 0:
                raise RuntimeError("a fault of the test")
            return done

        return rewrite

    disturb(monkeypatch, make)
    before = live_files(table)
    Compactor(spark).run(table)
    assert values(table) == ALL
    assert len(live_files(table)) < len(before)
    return stored_files(table) - before - live_files(table)


def test_a_task_that_fails_or_runs_twice_leaves_nothing(
    spark: SparkSession, log_table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_strays(spark, log_table, monkeypatch) == set()


def test_control_without_deleting_orphans_files_are_left(
    spark: SparkSession, log_table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkRewriter, "delete_orphans", LocalRewriter.delete_orphans)
    assert find_strays(spark, log_table, monkeypatch)


def test_a_damaged_file_is_named(spark: SparkSession, log_table: Table) -> None:
    path = sorted(live_files(log_table))[5]
    root = Path(log_table.location.removeprefix("file://"))
    (root / path).write_bytes(b"PAR1" * 10)
    before = stored_files(log_table)
    compactor = Compactor(spark)
    job = compactor.take(log_table)
    with pytest.raises(DataCorrupted, match=path.rsplit("/", 1)[1]):
        compactor.executor.do(job, compactor.control)
    assert stored_files(log_table) == before


@pytest.mark.parametrize("end", ["lost", "stopped"])
def test_a_job_that_is_lost_or_stopped_cancels_its_tasks(
    spark: SparkSession, log_table: Table, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, end: str
) -> None:
    begun = tmp_path / "begun"

    def make(whole: Rewrite) -> Rewrite:
        def rewrite(info: TableInfo, attempt_id: str, rewrite_task: RewriteTask) -> RewrittenTask:
            done = whole(info, attempt_id, rewrite_task)
            begun.touch()
            time.sleep(120)
            return done

        return rewrite

    disturb(monkeypatch, make)
    before = stored_files(log_table)
    compactor = Compactor(spark)
    job = compactor.take(log_table)

    def disturbance() -> None:
        while not begun.exists():
            time.sleep(0.05)
        if end == "lost":
            compactor.control.lose(Fenced("Another does the job."))
        else:
            compactor.stopping.set()

    threading.Thread(target=disturbance, daemon=True).start()
    began_s = time.monotonic()
    if end == "lost":
        with pytest.raises(Fenced, match="Another does the job"):
            compactor.executor.do(job, compactor.control)
    else:
        assert compactor.executor.do(job, compactor.control) == ""
    assert begun.exists()
    assert time.monotonic() - began_s < 90, "nobody waited for the tasks"
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()
    assert stored_files(log_table) == before
    assert log_table.snapshots().column("kind").to_pylist() == ["APPEND"] * FILES


def test_an_engine_that_has_ended_is_done_without(spark: SparkSession, log_table: Table) -> None:
    """The job fails once, as whoever looks at it must know; the next try needs no Spark."""

    class Ended:
        defaultParallelism = 2  # noqa: N815

        @property
        def sparkContext(self) -> Any:  # noqa: N802
            return self

        def __getattr__(self, _: str) -> Any:
            raise ConnectionRefusedError("Java has ended")

    compactor = Compactor(spark)
    starts: list[Any] = []

    def start() -> Any:
        starts.append(Ended())
        return starts[-1]

    executor = CompactionJobExecutor(
        compactor.metastore,
        LocationStores(),
        SystemClock(),
        Metrics(),
        structlog.get_logger(),
        SparkRewriter(start, SystemClock(), structlog.get_logger(), 0),
    )
    job = compactor.take(log_table)
    before = stored_files(log_table)
    with pytest.raises(ConnectionRefusedError):
        executor.do(job, compactor.control)
    assert stored_files(log_table) == before
    assert executor.do(job, compactor.control).startswith(f"rewrote {FILES} files")
    assert len(starts) == 1
    assert values(log_table) == ALL
