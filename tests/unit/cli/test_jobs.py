"""`lakelog jobs`."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa

from lakelog.format.jobs.job import Job, JobState, to_bucket_scope
from lakelog.format.keys.encoding import encode_partition
from lakelog.format.tables.table import TableName
from tests.unit.cli.fakes import Lake


def test_jobs_show_who_does_them_and_why_they_failed(lake: Lake) -> None:
    assert "There are no jobs" in lake.run("jobs").out
    leased = Job(
        1, "b" * 32, "air.flights", "changelog", "", JobState.LEASED, 0, {}, 1, "", "attached", 3, "me", 5, 0, 0
    )
    lake.metastore.jobs = [
        leased,
        replace(leased, job_id=2, remaining_ms=0),
        replace(leased, job_id=3, state=JobState.DUE, remaining_ms=0, holder=""),
        replace(leased, job_id=4, state=JobState.DUE, holder="", attempts=2, reason="the store is away"),
        replace(leased, job_id=5, state=JobState.FAILED, holder="", reason="x.parquet is damaged"),
        replace(leased, job_id=6, state=JobState.DONE, holder="", remaining_ms=0),
    ]
    for arguments in (("jobs",), ("jobs", "list")):
        shown = lake.run(*arguments, width=200)
        assert shown.code == 0
        assert "air.flights" in shown.out
        assert shown.err == "job 5, air.flights: x.parquet is damaged\njob 4, air.flights: the store is away\n"
    document = json.loads(lake.run("jobs", "-o", "json").out)
    # Those that need somebody first.
    states = ["failed", "abandoned", "leased", "due", "resting", "done"]
    assert [record["state"] for record in document] == states
    assert (document[2]["outcome"], document[2]["reason"], document[0]["holder"]) == ("attached", None, None)
    assert json.loads(lake.run("jobs", "list", "shop.orders", "-o", "json").out) == []


def test_jobs_are_chosen_and_more_are_announced(lake: Lake) -> None:
    job = Job(1, "b" * 32, "air.flights", "compact", "", JobState.DUE, 0, {}, 0, "", "", 0, "", 0, 0, 0)
    failed = replace(job, job_id=9, kind="expire", state=JobState.FAILED)
    lake.metastore.jobs = [*(replace(job, job_id=number) for number in range(1, 6)), failed]

    def list_ids(*arguments: str) -> list[int]:
        return [each["job_id"] for each in json.loads(lake.run("jobs", "list", *arguments, "-o", "json").out)]

    assert list_ids() == [9, 1, 2, 3, 4, 5]
    assert list_ids("--state", "failed") == [9]
    assert list_ids("--kind", "compact", "--kind", "clean") == [1, 2, 3, 4, 5]
    assert list_ids("--state", "done") == []
    some = lake.run("jobs", "list", "--limit", "2", "-o", "json")
    assert [each["job_id"] for each in json.loads(some.out)] == [9, 1]
    assert "There are more than these 2" in some.err
    assert "more than" not in lake.run("jobs", "list", "--limit", "6").err
    for wrong in (("--state", "none"), ("--kind", "<script>"), ("--limit", "0"), ("--limit", str(10**9))):
        assert lake.run("jobs", "list", *wrong).code == 2


def test_a_job_names_its_bucket_as_people_do(lake: Lake) -> None:
    days = pa.schema([("day", pa.date32()), ("ok", pa.bool_()), ("n", pa.int64())])
    info, _ = lake.metastore.create_table(TableName("air", "visits"), days, partition_by=["day", "ok"])
    info = lake.metastore.tables["air.visits"] = replace(info, table_uuid="c" * 32)
    first, second = (
        encode_partition([pa.scalar(day, pa.date32()), pa.scalar(is_ok)])
        for day, is_ok in ((19844, True), (None, False))
    )
    job = Job(
        1, info.table_uuid, "air.visits", "compact", to_bucket_scope(first, 3), JobState.FAILED, 0, {}, 1,
        "x.parquet is damaged", "", 3, "", 0, 0, 0,
    )  # fmt: skip
    lake.metastore.jobs = [
        job,
        replace(job, job_id=2, scope=to_bucket_scope(second, 0)),
        replace(job, job_id=3, scope="/7", table="air.flights"),
        replace(job, job_id=4, scope="", kind="expire", reason=""),
        # Of a table that is dropped while the list is made.
        replace(job, job_id=5, table_uuid="f" * 32, reason=""),
    ]
    shown = lake.run("jobs", width=200)
    assert "day=2024-05-01,ok=true bucket 3" in shown.out
    assert "day=NULL,ok=false bucket 0" in shown.out
    assert "job 1, air.visits, day=2024-05-01,ok=true bucket 3: x.parquet is damaged\n" in shown.err
    assert "job 3, air.flights, bucket 7: x.parquet is damaged\n" in shown.err
    document = json.loads(lake.run("jobs", "-o", "json").out)
    assert [record["place"] for record in document[2:]] == ["bucket 7", None, job.scope]
    assert [record["scope"] for record in document[2:]] == ["/7", None, job.scope]


def test_a_job_is_tried_again(lake: Lake) -> None:
    done = lake.run("jobs", "retry", "7")
    assert (done.code, done.out, lake.metastore.retried) == (0, "Job 7 is due now.\n", [7])
    assert lake.run("jobs", "retry", "x").code == 2
