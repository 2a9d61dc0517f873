"""Everyone sees what the own token may: in pages, JSON, CSV, sums, and live streams."""

from __future__ import annotations

import re

import pytest

from lakelog.sdk.catalog import Catalog
from metastore.server import audit
from tests.support.running_console import RunningConsole

PAGES = ("/", "/streams", "/pipelines", "/jobs", "/grants", "/settings")


def find(names: list[str], text: str) -> list[str]:
    """The names in a text; the forms' examples are not meant."""
    without_examples = text.replace('placeholder="shop.orders"', "")
    return [each for each in names if each in without_examples]


@pytest.mark.parametrize("page", PAGES)
def test_names_of_others_are_nowhere(console: RunningConsole, page: str) -> None:
    for name, hidden in (("ann", ["secret"]), ("stranger", ["secret", "orders"])):
        for form in ("", "?as=json"):
            answer = console.get(page + form, name)
            assert answer.status == 200
            assert not find(hidden, answer.text)
        with console.stream(page, name) as stream:
            text = stream.wait_for("page")
            assert not find(hidden, text)


def test_callers_with_the_same_page_open_get_each_their_own(console: RunningConsole) -> None:
    with console.stream("/tables", "root") as everything, console.stream("/tables", "stranger") as nothing:
        assert "other" in everything.wait_for("page"), "the control"
        assert not find(["/tables/other", "/tables/shop"], nothing.wait_for("page"))


def test_an_admin_does_see_them(console: RunningConsole) -> None:
    """The control."""
    assert "secret" in console.get("/grants?scope=other.secret").text
    assert "orders" in console.get("/query?sql=SHOW+TABLES+IN+shop&as=json").text


def test_sums_are_of_what_the_caller_may_see(console: RunningConsole) -> None:
    tables = {
        name: console.get("/?as=json&part=facts", name).json["tables"] for name in ("root", "viewer", "ann", "stranger")
    }
    assert tables == {"root": 2, "viewer": 2, "ann": 1, "stranger": 0}
    snapshots = {name: console.get("/?as=json&part=facts", name).json["snapshots"] for name in ("ann", "stranger")}
    assert snapshots["stranger"] == 0 < snapshots["ann"] < console.get("/?as=json&part=facts").json["snapshots"]


def test_unknown_and_forbidden_look_alike(console: RunningConsole) -> None:
    for path in ("/jobs?table={}", "/query?sql=DESCRIBE+{}", "/grants?scope={}"):
        found = [console.get(path.format(name), "stranger") for name in ("other.secret", "other.nothere")]
        assert found[0].status == found[1].status
        texts = [re.sub("[0-9a-f]{32}", "ID", each.text).replace("secret", "nothere") for each in found]
        assert texts[0] == texts[1], "but for the id of the request"


def test_jobs_of_a_table_that_may_not_be_seen(console: RunningConsole) -> None:
    assert console.get("/jobs?table=other.secret", "ann").status == 403
    assert console.get("/jobs?table=shop.orders", "ann").status == 200


def test_the_page_of_grants_says_what_the_caller_may(console: RunningConsole) -> None:
    assert "you are an admin" in console.get("/grants").text
    assert "A role lets you read everything" in console.get("/grants", "viewer").text
    text = console.get("/grants", "ann").text
    assert "You have no role" in text
    assert "The metastore knows you as <strong>ann</strong>" in text
    assert console.get("/grants?as=json&part=own", "ann").json[0]["level"] == "owner"
    assert console.get("/grants?scope=shop&as=json&part=found", "ann").json[0]["principal"] == "ann"
    assert "problem" in console.get("/grants?to=root", "ann").text


def test_each_page_says_who_the_caller_is(console: RunningConsole) -> None:
    for name, shown in (("root", "root (admin)"), ("viewer", "viewer (reader)"), ("stranger", "stranger (user)")):
        for page in ("/", "/jobs", "/grants"):
            head = console.get(page, name).text.partition("<main")[0]
            assert f">{shown}</a>" in head
    assert console.get("/settings?as=json&part=you", "stranger").json["names"] == ["stranger"]
    assert console.get("/settings?as=json&part=you", "viewer").json["role"] == "reader"


def test_looking_is_no_mutation(acting: RunningConsole, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that offer actions ask what the caller may do; they try nothing."""
    lines: list[str] = []
    monkeypatch.setattr(audit.log, "info", lambda event, **fields: lines.append(fields["method"]))
    for name in ("root", "viewer", "ann"):
        for page in ("/tables/shop/orders", "/tables/shop/orders/jobs", "/jobs", "/grants", "/settings"):
            assert acting.get(page, name).status == 200
    assert lines == []
    catalog.create_database("shop", if_not_exists=True)
    assert lines == ["CreateDatabase"], "the control"


def test_only_those_that_may_are_offered_a_retry(acting: RunningConsole, catalog: Catalog) -> None:
    metastore = catalog.metastore
    table = catalog.table("shop.orders")
    metastore.request_jobs(table.uuid, "compact", ["/0"], {"strategy": "full"})
    job = metastore.lease_job(["compact"], [table.uuid], "a compactor", duration_ms=60_000)
    assert job is not None
    metastore.fail_job(job.job_id, job.epoch, "broken", final=True)
    link = f'href="/jobs/{job.job_id}/act/retry"'
    for page in ("/jobs?state=failed", "/tables/shop/orders/jobs"):
        assert link in acting.get(page, "root").text
        assert link in acting.get(page, "ann").text
        assert link not in acting.get(page, "viewer").text
    assert acting.get(f"/jobs/{job.job_id}/act/retry", "viewer").status == 403
    metastore.retry_job(job.job_id)


def test_grants_on_a_table_come_with_those_on_its_database(console: RunningConsole, catalog: Catalog) -> None:
    address = "/grants?scope=shop.orders"
    assert [each["principal"] for each in console.get(f"{address}&as=json&part=database").json] == ["ann"]
    catalog.grants.grant("owner", "shop.orders", "stranger")
    try:
        shown = console.get(address, "stranger")
        assert shown.status == 200
        assert "Owners of the database and admins see them." in shown.text
        assert console.get(f"{address}&as=json&part=database", "stranger").json == []
        assert [each["principal"] for each in console.get(f"{address}&as=json&part=found", "stranger").json] == [
            "stranger"
        ]
    finally:
        catalog.grants.revoke("shop.orders", "stranger")
