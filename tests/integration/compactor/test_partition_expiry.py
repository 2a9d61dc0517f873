"""Partitions that are old enough go by one overwrite; others, and earlier snapshots, stay what they were."""

from __future__ import annotations

import datetime as dt
import io
import json
import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from lakelog.cli.app import run
from lakelog.cli.invocation import Invocation
from lakelog.cli.output.printer import Printer
from lakelog.errors import CommitConflict, InvalidArgument, NotFound
from lakelog.format.jobs.job import EXPIRE_PARTITIONS, JobState
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from metastore.jobs.due_work import WorkPlanner
from metastore.jobs.partition_expiry import plan_partition_expiry
from metastore.testing import InProcessMetastore
from tests.support.tables.attaching import attach_all

SCHEMA = pa.schema([("day", pa.string()), ("n", pa.int64())])
TODAY = dt.datetime.now(dt.UTC).date()
OLD, OLDER = ((TODAY - dt.timedelta(days=days)).isoformat() for days in (40, 50))


@pytest.fixture
def planners() -> Sequence[WorkPlanner]:
    return (plan_partition_expiry,)


def make_visits(catalog: Catalog, **options: str) -> Table:
    given = {"partition.expiration-time": "30 d", **options}
    visits = catalog.create_table("shop.visits", SCHEMA, partition_by=["day"], options=given)
    for day in (OLD, TODAY.isoformat(), OLDER, "unknown", None):
        visits.append(rows(day))
    visits.append(rows(OLD))
    return visits


def rows(day: str | None) -> pa.Table:
    return pa.table([[day, day], [1, 2]], schema=SCHEMA)


def days(table: Table, **scan: Any) -> list[str | None]:
    return sorted({row["day"] for row in table.scan(**scan).to_arrow().to_pylist()}, key=str)


def test_old_partitions_are_removed_by_one_overwrite(catalog: Catalog) -> None:
    visits = make_visits(catalog)
    with visits.subscribe("latest") as stream:
        reported = visits.expire_partitions(dry_run=True)
        assert (reported.snapshot_id, reported.dry_run, reported.unknown_count) == (None, True, 2)
        assert [each.partition for each in reported.expired] == [{"day": OLDER}, {"day": OLD}]
        assert [(each.files, each.rows) for each in reported.expired] == [(1, 2), (2, 4)]
        assert {each["day"] for each in reported.unknown} == {"unknown", None}
        assert days(visits) == [*sorted([OLDER, OLD, TODAY.isoformat()]), None, "unknown"]
        done = visits.expire_partitions()
        assert (done.snapshot_id, done.expired) == (7, reported.expired)
        assert done.to_arrow().column("rows").to_pylist() == [2, 4]
        assert days(visits) == [TODAY.isoformat(), None, "unknown"]
        assert days(visits, snapshot_id=6) == [*sorted([OLDER, OLD, TODAY.isoformat()]), None, "unknown"]
        assert visits.snapshots().column("kind").to_pylist()[-1] == "OVERWRITE"
        # As of any overwrite, streams show nothing of it by themselves.
        visits.append(rows("2999-01-01"))
        assert {row["day"] for row in next(iter(stream)).data.to_pylist()} == {"2999-01-01"}
    again = visits.expire_partitions()
    assert (again.snapshot_id, again.expired) == (None, ())
    assert visits.snapshots().num_rows == 8


def test_a_result_has_the_same_columns_whatever_has_expired(catalog: Catalog) -> None:
    visits = make_visits(catalog, **{"partition.expiration-strategy": "update-time"})
    nothing = visits.expire_partitions(dry_run=True).to_arrow()
    visits.alter(set={"partition.expiration-time": "1 ms"})
    time.sleep(0.01)
    all_of_them = visits.expire_partitions(dry_run=True).to_arrow()
    assert nothing.num_rows == 0
    assert nothing.schema == all_of_them.schema
    # A partition of NULL is not one of the text 'None'.
    assert {row["day"] for row in all_of_them.column("partition").to_pylist()} == {
        OLD, TODAY.isoformat(), OLDER, "unknown", None,
    }  # fmt: skip


def test_a_partition_that_is_written_to_is_young(
    catalog: Catalog, metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    visits = make_visits(catalog, **{"partition.expiration-strategy": "update-time"})
    assert visits.expire_partitions().expired == ()
    visits.alter(set={"partition.expiration-time": "1 ms"})
    time.sleep(0.01)
    listed = metastore.list_partition_files
    late = [rows(OLD)]

    def write_after(*arguments: Any) -> Any:
        page = listed(*arguments)
        if late:
            visits.append(late.pop())
        return page

    monkeypatch.setattr(metastore, "list_partition_files", write_after)
    visits.alter(set={"partition.expiration-time": "1 s"})
    time.sleep(1.1)
    done = visits.expire_partitions()
    assert len(done.expired) == 4, "all but the one that was written to a moment ago"
    assert days(visits) == [OLD]
    assert visits.scan().count() == 6

    def write_always(*arguments: Any) -> Any:
        page = listed(*arguments)
        visits.append(rows(OLD))
        time.sleep(0.005)
        return page

    time.sleep(1.1)
    monkeypatch.setattr(metastore, "list_partition_files", write_always)
    with pytest.raises(CommitConflict):
        visits.alter(set={"partition.expiration-time": "0 ms"}).expire_partitions()


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_control_without_the_assumption_what_was_just_written_goes(
    catalog: Catalog, metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    visits = make_visits(catalog, **{"partition.expiration-strategy": "update-time"})
    listed = metastore.list_partition_files

    def write_after(*arguments: Any) -> Any:
        page = listed(*arguments)
        visits.append(rows(OLD))
        return page

    monkeypatch.setattr(metastore, "list_partition_files", write_after)
    monkeypatch.setattr("lakelog.sdk.maintenance.partition_expiry._goes_by_updates", lambda *_: False)
    visits.alter(set={"partition.expiration-time": "1 s"})
    time.sleep(1.1)
    visits.expire_partitions()
    assert visits.scan().count() == 0, "rows of a moment ago are gone"


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_keyed_tables_lose_whole_partitions(catalog: Catalog) -> None:
    schema = pa.schema([("day", pa.date32()), ("id", pa.int64()), ("v", pa.int64())])
    options = {"bucket": "2", "changelog-producer": "lookup", "partition.expiration-time": "30 d"}
    orders = catalog.create_table(
        "shop.orders", schema, primary_key=["day", "id"], partition_by=["day"], options=options
    )
    old = TODAY - dt.timedelta(days=31)
    for number in range(2):
        orders.upsert(pa.table([[old, old, TODAY], [1, 2, 1], [number] * 3], schema=schema))
    assert [each.partition for each in orders.expire_partitions().expired] == [{"day": old}]
    assert orders.scan().to_arrow().to_pylist() == [{"day": TODAY, "id": 1, "v": 1}]
    # A key of such a partition is new when it comes again.
    orders.upsert(pa.table([[old], [1], [9]], schema=schema))
    assert [row["_row_kind"] for row in orders.changes(after=3).to_arrow().to_pylist()] == ["+I"]


def test_compactors_do_it_again_and_again(catalog: Catalog, metastore: InProcessMetastore) -> None:
    visits = make_visits(catalog, **{"partition.expiration-check-interval": "1 s"})
    _wait(lambda: _jobs(metastore, visits))
    (job,) = _jobs(metastore, visits)
    assert job.state is JobState.DUE
    time.sleep(1.1)
    attach_all(metastore)
    (job,) = _jobs(metastore, visits)
    assert job.outcome.startswith(f"removed 2 expired partitions, the oldest day={OLDER}, left 2 whose time cannot")
    assert days(visits) == [TODAY.isoformat(), None, "unknown"]
    visits.append(rows(OLD))
    _wait(lambda: _jobs(metastore, visits)[0].state is JobState.DUE)
    time.sleep(1.1)
    attach_all(metastore)
    assert days(visits) == [TODAY.isoformat(), None, "unknown"]
    visits.alter(unset=["partition.expiration-time", "partition.expiration-check-interval"])
    visits.append(rows(OLD))
    metastore_job = _jobs(metastore, visits)[0]
    if metastore_job.state is JobState.DUE:
        metastore.retry_job(metastore_job.job_id)
        attach_all(metastore)
    assert OLD in days(visits)


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_what_cannot_be_is_refused(catalog: Catalog) -> None:
    plain = catalog.create_table("shop.plain", SCHEMA)
    with pytest.raises(InvalidArgument, match=r"Table shop\.plain has no partitions that could expire"):
        plain.expire_partitions()
    with pytest.raises(InvalidArgument, match="The table has no partitions"):
        plain.alter(set={"partition.expiration-time": "1 d"})
    visits = catalog.create_table("shop.visits", SCHEMA, partition_by=["day"])
    with pytest.raises(InvalidArgument, match=r"does not say when its partitions expire\. Set 'partition.expiration"):
        visits.expire_partitions()
    with pytest.raises(InvalidArgument, match="dry_run"):
        visits.expire_partitions("yes")  # type: ignore[arg-type]
    catalog.drop_table("shop.visits")
    with pytest.raises(NotFound, match=r"restore_table\('shop\.visits'"):
        visits.expire_partitions()


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_the_command(catalog: Catalog, capsys: pytest.CaptureFixture[str]) -> None:
    make_visits(catalog)

    def call(*arguments: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        invocation = Invocation(
            open_catalog=lambda _: catalog, make_printer=lambda output: Printer(output, out, err, width=160)
        )
        # The metastore is the fixture's to close.
        invocation.close = lambda: None  # type: ignore[method-assign]
        code = run(["table", "expire-partitions", "shop.visits", *arguments], invocation)
        captured = capsys.readouterr()
        return code, captured.out + out.getvalue(), captured.err + err.getvalue()

    code, out, err = call("--dry-run")
    assert (code, f"day={OLDER}" in out, f"day={OLD}" in out) == (0, True, True)
    assert "2 partitions without a time that can be read" in err
    assert "Nothing was changed" in err
    code, out, _ = call("-o", "json")
    found = json.loads(out)
    assert (code, found["snapshot_id"], found["unknown_count"]) == (0, 7, 2)
    assert [each["partition"] for each in found["expired"]] == [{"day": OLDER}, {"day": OLD}]
    assert "No partition of shop.visits has expired." in call()[1]


def _jobs(metastore: InProcessMetastore, table: Table) -> list[Any]:
    return [each for each in metastore.list_jobs([table.uuid]) if each.kind == EXPIRE_PARTITIONS]


def _wait(is_so: Any) -> None:
    give_up = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < give_up
        time.sleep(0.02)
