"""Changelogs of commits that come from Spark, when others commit meanwhile, tasks fail and batches come again."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from pyspark.sql import SparkSession

import lakelog.spark
from lakelog.errors import CommitConflict, DataCorrupted, OutcomeUnknown
from lakelog.format.commit.request import CommitRequest, CommitResult
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.spark.batch import lookup, table_write
from lakelog.spark.installation import Installation, installation_of
from tests.integration.spark.checkpointed_stream import SCHEMA, Stream
from tests.integration.spark.disturbed_writer import disturbed_writer
from tests.integration.spark.spark_changelogs import (
    by_format,
    by_function,
    changelog_files,
    check_files,
    frame_of,
    make,
    states,
)
from tests.integration.spark.spark_tables import MakeTable, live_files
from tests.support.tables.faulty import FaultyMetastore
from tests.support.tables.keyed import emitted, replayed, rows, shown
from tests.support.tables.racing import first_let

pytestmark = pytest.mark.usefixtures("by_tasks")


@pytest.fixture
def faulty(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> FaultyMetastore:
    """The metastore as writes of this process see it, which a test may interrupt."""
    inner: Any = installation_of(spark).metastore
    passing = FaultyMetastore(inner)
    monkeypatch.setattr(Installation, "metastore", property(lambda _: passing))
    return passing


@pytest.fixture(params=["tasks", "afterwards", "job"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where old rows are looked up: by the tasks that write, in the driver program afterwards, or by a job."""
    if request.param != "tasks":
        monkeypatch.setattr(lookup, "MAX_PLANNED_FILES", -1)
    if request.param == "job":
        monkeypatch.setattr(lookup, "MAX_DRIVER_ROWS", 0)
    return str(request.param)


def test_who_lost_the_race_looks_up_again_what_has_changed(
    spark: SparkSession, make_table: MakeTable, faulty: FaultyMetastore, place: str
) -> None:
    table = make(make_table, "lookup")
    table.write(rows("+I 1|1|1", "+I 2|1|1"))
    first_let(faulty, lambda: table.write(rows("+U 1|1|2")))
    by_function(frame_of(spark, ("+U 1|1|3", "+U 2|1|3")), table)
    assert sorted(emitted(table, 2)) == ["+U 1|1|3", "+U 2|1|3", "-U 1|1|2", "-U 2|1|1"]
    assert replayed(table) == shown(table)
    tries = [request.changes[0] for request in faulty.commits]
    assert [each.base_snapshot_id for each in tries] == [1, 2]
    before, after = ({file.path for file in each.changelog_files} for each in tries)
    assert (len(before), len(after), len(before & after)) == (2, 2, 1), "the other bucket's changes are as they were"
    check_files(table, spark)


def test_without_the_check_the_changelog_is_wrong(
    spark: SparkSession, make_table: MakeTable, faulty: FaultyMetastore
) -> None:
    """The control of the test before."""
    table = make(make_table, "lookup")
    table.write(rows("+I 1|1|1"))

    def unchecked(request: CommitRequest) -> CommitRequest:
        # As if it had looked at what came meanwhile.
        changes = tuple(
            dataclasses.replace(each, base_snapshot_id=2, base_snapshot_uuid="") for each in request.changes
        )
        return dataclasses.replace(request, changes=changes)

    first_let(faulty, lambda: table.write(rows("+U 1|1|2")), change=unchecked)
    by_function(frame_of(spark, ("+U 1|1|3",)), table)
    assert len(faulty.commits) == 1
    with pytest.raises(AssertionError, match="takes away what was not there"):
        replayed(table)


def test_the_table_is_changed_while_the_tasks_run(
    spark: SparkSession, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(make_table, "lookup")
    table.write(rows("+I 1|1|1", "+I 1|2|1"))
    run = table_write.write_rows

    def slow(*arguments: Any) -> Any:
        written = run(*arguments)
        table.write(rows("-D 1|1|0", "+I 1|3|1"))
        return written

    monkeypatch.setattr(table_write, "write_rows", slow)
    by_function(frame_of(spark, ("+U 1|1|3", "+U 1|2|3")), table)
    assert sorted(emitted(table, 2)) == ["+I 1|1|3", "+U 1|2|3", "-U 1|2|1"]
    assert replayed(table) == shown(table)
    check_files(table, spark)


def test_a_race_that_never_ends_is_given_up(
    spark: SparkSession, make_table: MakeTable, faulty: FaultyMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(make_table, "lookup")
    first_let(faulty, lambda: table.write(rows("+U 1|1|2")), times=1000)
    monkeypatch.setattr("lakelog.spark.batch.commit.random.random", lambda: 0.0)
    with pytest.raises(CommitConflict, match="was tried 20 times"):
        by_function(frame_of(spark, ("+U 1|1|3",)), table)
    assert replayed(table) == shown(table) == {(1, 1): 2}
    check_files(table, spark)


def test_nothing_is_deleted_where_the_outcome_is_unknown(
    spark: SparkSession, make_table: MakeTable, faulty: FaultyMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(make_table, "lookup")

    def lose(request: CommitRequest) -> CommitResult:
        faulty.inner.commit(request)
        raise OutcomeUnknown("lost")

    faulty.on_commit = lose
    monkeypatch.setattr("lakelog.writes.attempt._COMMIT_TOTAL_S", 0.0)
    with pytest.raises(OutcomeUnknown):
        by_function(frame_of(spark, ("+I 1|1|3",)), table)
    assert emitted(table, 0) == ["+I 1|1|3"]
    check_files(table, spark)


def test_writers_of_the_sdk_and_of_spark_at_once(spark: SparkSession, make_table: MakeTable, catalog: Catalog) -> None:
    table = make(make_table, "lookup")
    failures: list[BaseException] = []
    stopped = threading.Event()

    def write(seed: int) -> None:
        own = catalog.table(table.name)
        number = 0
        try:
            while not stopped.wait(0.05):
                number += 1
                own.write(rows(f"+I 1|{number % 5}|{seed + number}", f"-D 1|{(number + 2) % 5}|0"))
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=write, args=(1000,))
    thread.start()
    try:
        for number in range(4):
            ways = (by_function, by_format)
            ways[number % 2](frame_of(spark, (f"+I 1|{number}|{number}",), ("-D 1|4|0", f"+I 2|{number}|1")), table)
    finally:
        stopped.set()
        thread.join()
    assert not failures
    assert replayed(table) == shown(table)
    check_files(table, spark)


@pytest.mark.parametrize("fault", ["raise", "kill"])
@pytest.mark.parametrize("producer", ["input", "lookup"])
def test_a_task_that_fails_at_first_leaves_no_changelog(
    spark: SparkSession,
    make_table: MakeTable,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    producer: str,
    fault: str,
) -> None:
    table = make(make_table, producer)
    table.write(rows("+I 1|1|1"))
    marker = tmp_path / "failed"
    monkeypatch.setattr(table_write, "row_writer", disturbed_writer(fault, marker))
    frame = frame_of(spark, *(tuple(f"+I 1|{k}|2" for k in range(start, start + 10)) for start in (0, 10)))
    by_function(frame, table)
    assert marker.read_text() == "1", "the fault must have happened after the files were written"
    assert len(emitted(table, 1)) == (20 if producer == "input" else 21)
    assert len(changelog_files(table, spark)) == 3
    check_files(table, spark)


@pytest.mark.parametrize("producer", ["input", "lookup"])
@pytest.mark.parametrize("form", ["write_stream", "format"])
def test_a_replayed_batch_brings_one_changelog(
    spark: SparkSession, make_table: MakeTable, tmp_path: Path, form: str, producer: str
) -> None:
    table = make_table(SCHEMA, ("k",), options={"bucket": "2", "changelog-producer": producer})
    stream = Stream(spark, table, tmp_path, form)
    stream.put("a", [1, 2], 0)
    stream.put("b", [2, 3], 1)
    stream.run()
    stream.forget_last_batch()
    stream.run()
    stream.put("c", [3], 2)
    stream.run()
    found = [
        (row["_snapshot_id"], row["_row_kind"], row["k"], row["v"]) for row in table.changes().to_arrow().to_pylist()
    ]
    wanted = [(1, "+I", 1, 0), (1, "+I", 2, 0), (2, "+I", 2, 1), (2, "+I", 3, 1), (3, "+I", 3, 2)]
    if producer == "lookup":
        wanted[2:3] = [(2, "-U", 2, 0), (2, "+U", 2, 1)]
        wanted[5:] = [(3, "-U", 3, 1), (3, "+U", 3, 2)]
    assert sorted(found) == sorted(wanted)
    check_files(table, spark)


def test_a_damaged_base_fails_the_write_and_leaves_nothing(
    spark: SparkSession, make_table: MakeTable, place: str
) -> None:
    table = make(make_table, "lookup")
    table.write(rows("+I 1|1|1"))
    damaged = damage(table)
    with pytest.raises(DataCorrupted, match=damaged):
        by_function(frame_of(spark, ("+I 1|1|2", "+I 5|1|2", "+I 6|1|2")), table)
    assert states(table) == ["APPEND"]
    check_files(table, spark)


def damage(table: Table) -> str:
    """Cuts the newest data file short; its name."""
    (path,) = live_files(table)
    whole = Path(unquote(table.location.removeprefix("file://"))) / path
    whole.write_bytes(whole.read_bytes()[:-20])
    return whole.name


def test_a_repeated_write_deletes_its_changelog(spark: SparkSession, make_table: MakeTable) -> None:
    for producer in ("input", "lookup"):
        table = make(make_table, producer)
        for number in (7, 8):
            lakelog.spark.write(frame_of(spark, (f"+I 1|1|{number}",)), table.name, writer="w", identifier=number)
        again = lakelog.spark.write(frame_of(spark, ("+I 1|1|0",)), table.name, writer="w", identifier=7)
        assert (again.snapshot_id, again.already_applied) == (1, True)
        assert shown(table) == {(1, 1): 8}
        check_files(table, spark)
