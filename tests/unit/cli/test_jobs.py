"""`lakelog jobs`."""

from __future__ import annotations

import json
from dataclasses import replace

from lakelog.format.job import Job, JobState
from tests.unit.cli.conftest import Lake


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
        assert shown.err == "job 4, air.flights: the store is away\njob 5, air.flights: x.parquet is damaged\n"
    document = json.loads(lake.run("jobs", "-o", "json").out)
    states = ["leased", "abandoned", "due", "resting", "failed", "done"]
    assert [record["state"] for record in document] == states
    assert (document[0]["outcome"], document[0]["reason"], document[4]["holder"]) == ("attached", None, None)
    assert json.loads(lake.run("jobs", "list", "shop.orders", "-o", "json").out) == []


def test_a_job_is_tried_again(lake: Lake) -> None:
    done = lake.run("jobs", "retry", "7")
    assert (done.code, done.out, lake.metastore.retried) == (0, "Job 7 is due now.\n", [7])
    assert lake.run("jobs", "retry", "x").code == 2
