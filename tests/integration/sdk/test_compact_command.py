"""`lakelog table compact`, over a metastore in this process and a worker that takes jobs as a compactor does."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pytest

from lakelog.cli.app import run
from lakelog.cli.invocation import Invocation
from lakelog.cli.output.printer import Printer
from lakelog.format.jobs.job import FULL, STRATEGY, Job
from lakelog.sdk.catalog import Catalog
from tests.support.tables.compacting import working


@pytest.fixture(autouse=True)
def tables(catalog: Catalog) -> None:
    schema = pa.schema([("day", pa.date32()), ("n", pa.int64())])
    visits = catalog.create_table("shop.visits", schema=schema, partition_by=["day"])
    for _ in range(2):
        for days in ([0, 1, None], [1]):
            visits.append(pa.table({"day": pa.array(days, pa.date32()), "n": [7] * len(days)}))
    orders = catalog.create_table("shop.orders", schema=pa.schema([("id", pa.int64())]), primary_key=["id"])
    orders.upsert(pa.table({"id": [1]}))


def call(catalog: Catalog, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    invocation = Invocation(
        open_catalog=lambda _: catalog, make_printer=lambda output: Printer(output, out, err, width=160)
    )
    # The metastore is the fixture's to close.
    invocation.close = lambda: None  # type: ignore[method-assign]
    code = run(["table", "compact", *arguments], invocation)
    captured = capsys.readouterr()
    return code, captured.out + out.getvalue(), captured.err + err.getvalue()


def test_a_table_is_compacted_and_its_buckets_are_shown(catalog: Catalog, capsys: pytest.CaptureFixture[str]) -> None:
    with working(catalog.metastore, lambda job: "rewrote it") as taken:
        code, out, err = call(catalog, capsys, "shop.visits", "--full")
    assert code == 0
    assert len(taken) == 3
    assert {job.payload[STRATEGY] for job in taken} == {FULL}
    lines = out.splitlines()
    assert lines[0].split() == ["PARTITION", "BUCKET", "FILES", "SIZE", "STATE", "JOB", "OUTCOME"]
    assert [line.split()[0] for line in lines[1:]] == ["day=NULL", "day=1970-01-01", "day=1970-01-02"]
    assert all("done" in line and "rewrote it" in line for line in lines[1:])
    assert "Waiting for 3 buckets to be compacted" in err


def test_programs_get_all_of_it(catalog: Catalog, capsys: pytest.CaptureFixture[str]) -> None:
    with working(catalog.metastore, lambda job: "rewrote it"):
        code, out, err = call(catalog, capsys, "shop", "-o", "json")
    assert (code, err) == (0, "")
    found: list[dict[str, Any]] = json.loads(out)
    assert [(each["table"], each["partition"], each["state"]) for each in found] == [
        ("shop.orders", {}, "done"),
        ("shop.visits", {"day": None}, "done"),
        ("shop.visits", {"day": "1970-01-01"}, "done"),
        ("shop.visits", {"day": "1970-01-02"}, "done"),
    ]
    assert set(found[0]) == {"table", "partition", "bucket", "files", "bytes", "state", "job_id", "outcome"}


def test_what_was_done_is_shown_also_where_some_have_failed(
    catalog: Catalog, capsys: pytest.CaptureFixture[str]
) -> None:
    def do(job: Job) -> str:
        if job.table == "shop.orders":
            raise ValueError("data/x.parquet is damaged")
        return "rewrote it"

    with working(catalog.metastore, do):
        code, out, err = call(catalog, capsys, "shop", "--full")
    # Not the code for what cannot be reached: to wait and to ask again does not help.
    assert code == 1
    assert [line.split()[0] for line in out.splitlines() if " done " in line] == ["shop.visits"] * 3
    (failed,) = [line for line in out.splitlines() if " failed " in line]
    assert "shop.orders" in failed
    assert "data/x.parquet is damaged" in failed
    assert "The compaction of 1 bucket has failed (3 of 4 jobs are done)" in err
    with working(catalog.metastore, do):
        code, out, err = call(catalog, capsys, "shop", "--full", "-o", "json")
    assert code == 1
    assert sorted(each["state"] for each in json.loads(out)) == ["done", "done", "done", "failed"]
    assert json.loads(err)["kind"] == "JobFailed"


def test_partitions_are_chosen(catalog: Catalog, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, days in (
        (["--partition", "day=1970-01-02"], ["1970-01-02"]),
        (["--partition", "day=1970-01-02", "--partition", "day=1970-01-01"], ["1970-01-01", "1970-01-02"]),
        (["--where", "day IS NULL"], [None]),
    ):
        code, out, _ = call(catalog, capsys, "shop.visits", "--dry-run", "-o", "json", *arguments)
        assert code == 0
        assert [each["partition"]["day"] for each in json.loads(out)] == days


def test_a_dry_run_reports_what_would_be_done_and_why(catalog: Catalog, capsys: pytest.CaptureFixture[str]) -> None:
    catalog.table("shop.visits").overwrite(pa.table({"day": pa.array([3], pa.date32()), "n": [1]}))
    code, out, err = call(catalog, capsys, "shop", "--dry-run")
    assert (code, err) == (0, "")
    assert "planned" in out
    assert "1 files of level 0 are compacted, as was asked for." in out
    assert "nothing" in out
    assert "Fewer than two small files" in out
    assert catalog.metastore.list_jobs() == []
    assert call(catalog, capsys, "shop.visits") == (0, "There is nothing to compact.\n", "")


def test_a_call_without_waiting_returns_the_jobs(catalog: Catalog, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(catalog, capsys, "shop.visits", "--no-wait", "-o", "json")
    assert code == 0
    assert {each["job_id"] for each in json.loads(out)} == {job.job_id for job in catalog.metastore.list_jobs()}
    assert {each["state"] for each in json.loads(out)} == {"requested"}


def test_what_goes_wrong_is_one_line_with_an_exit_code(catalog: Catalog, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(catalog, capsys, "shop.visits", "--timeout", "0")
    assert code == 5
    assert "start one by `lakelog compactor run`" in err

    def fail(job: Job) -> str:
        raise ValueError("x.parquet is damaged")

    with working(catalog.metastore, fail):
        code, _, err = call(catalog, capsys, "shop.orders")
    assert code == 1
    assert "x.parquet is damaged" in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("shop", "--where", "day IS NULL"), 2, "'shop' is a database. Name the table: shop.TABLE."),
        (("shop", "--partition", "day=1"), 2, "is a database"),
        (("shop.visits", "--partition", "day"), 2, "not of the form COLUMN=VALUE"),
        (("shop.visits", "--partition", "day=1,day=2"), 2, "each once"),
        (("shop.visits", "--partition", "day=1999-01-01"), 3, "has no partition day=1999-01-01"),
        (("shop.visits", "--where", "n > 3"), 2, "uses 'n', which is no partition column"),
        (("shop.nothing",), 3, "'shop.nothing' does not exist"),
        (("nowhere",), 3, "nowhere"),
        (("shop.visits", "--timeout", "-1"), 2, "whole number"),
    ],
)
def test_wrong_arguments_are_reported(
    catalog: Catalog, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, message: str
) -> None:
    found = call(catalog, capsys, *arguments)
    assert found[0] == code
    assert message in found[2]
