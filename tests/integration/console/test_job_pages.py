"""The pages of jobs: those that need somebody first, in pages, with what became of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import pyarrow as pa
import pytest

from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from tests.support.running_console import RunningConsole

JOBS = 250


@pytest.fixture(scope="module")
def table(catalog: Catalog) -> Iterator[Table]:
    """A table with many jobs that are due, one that failed and one that is done."""
    table = catalog.create_table("shop.many_jobs", pa.schema([("id", pa.int64())]))
    metastore = catalog.metastore
    metastore.request_jobs(table.uuid, "compact", [f"/{n}" for n in range(JOBS)], {"strategy": "full"})
    for number in range(2):
        job = metastore.lease_job(["compact"], [table.uuid], "a <b>compactor</b>", duration_ms=60_000)
        assert job is not None
        if number:
            metastore.finish_job(job.job_id, job.epoch, "rewrote 3 files (1 MiB) into 1 (1 MiB)")
        else:
            metastore.fail_job(job.job_id, job.epoch, "<script>alert(1)</script> is full", final=True)
    yield table
    catalog.drop_table("shop.many_jobs")


@pytest.mark.parametrize("path", ["/jobs?table=shop.many_jobs", "/tables/shop/many_jobs/jobs?"])
def test_pages_lead_through_all_jobs(acting: RunningConsole, table: Table, path: str) -> None:
    states: list[str] = []
    ids: list[int] = []
    following: str | None = path
    pages = 0
    while following:
        text = acting.get(following).text
        rows = acting.get(f"{following}&as=json&part=jobs").json
        states += [each["state"] for each in rows]
        ids += [each.get("job_id", each.get("id")) for each in rows]
        found = re.search(r'rel="next" href="\?([^"#]*)#jobs"', text)
        following = f"{path.partition('?')[0]}?{unescape(found.group(1))}" if found else None
        pages += 1
    assert (pages, len(ids), len(set(ids))) == (3, JOBS, JOBS)
    assert states == ["failed"] + ["due"] * (JOBS - 2) + ["done"]


def test_the_history_says_what_became_of_them(acting: RunningConsole, table: Table) -> None:
    for path in ("/jobs?table=shop.many_jobs", "/tables/shop/many_jobs/jobs?"):
        done, failed = acting.get(f"{path}&as=json&part=history").json
        assert (done["result"], done["message"]) == ("done", "rewrote 3 files (1 MiB) into 1 (1 MiB)")
        assert (failed["result"], failed["holder"]) == ("failed", "a <b>compactor</b>")
        assert failed["duration_ms"] >= 0
        text = acting.get(path).text
        assert "&lt;script&gt;alert(1)&lt;/script&gt; is full" in text
        assert "<script>alert" not in text
        assert acting.get(f"{path}&kind=expire&as=json&part=history").json == []
        older = acting.get(f"{path}&runs_before={done['run_id']}&as=json&part=history").json
        assert [each["run_id"] for each in older] == [failed["run_id"]]


@pytest.mark.parametrize(
    "query",
    ["after=5", "after=data/1", "after=due:5", "after=gone:", "state=nonsense", "kind=<b>", "runs_before=x",
     "runs_before=" + "9" * 30, "state=done&after=due:1/compact/", "after=due:1/compact/%00"],
)  # fmt: skip
def test_what_is_no_place_in_a_list_is_said(acting: RunningConsole, table: Table, query: str) -> None:
    for path in ("/jobs?", "/tables/shop/many_jobs/jobs?"):
        answer = acting.get(path + query.replace("<", "%3C").replace(">", "%3E"))
        assert answer.status == 400, path
        assert "<b>" not in answer.text


def test_counts_are_of_all_and_not_of_the_page(acting: RunningConsole, table: Table) -> None:
    facts = acting.get("/tables/shop/many_jobs/jobs?as=json&part=facts").json
    assert {name: count for name, count in facts.items() if count} == {"failed": 1, "due": JOBS - 2, "done": 1}


def test_runs_of_others_are_not_shown(acting: RunningConsole, catalog: Catalog, table: Table) -> None:
    uuid = catalog.table("other.secret").uuid
    metastore = catalog.metastore
    metastore.request_jobs(uuid, "compact", ["/0"], {"strategy": "full"})
    job = metastore.lease_job(["compact"], [uuid], "c", duration_ms=60_000)
    assert job is not None
    metastore.finish_job(job.job_id, job.epoch, "did something secret")
    assert "secret" in acting.get("/jobs").text
    for name in ("ann", "stranger"):
        assert "something secret" not in acting.get("/jobs", name).text
    tables = {each["table"] for each in acting.get("/jobs?as=json&part=history", "ann").json}
    assert tables == {"shop.many_jobs"}
