"""Everyone sees what the own token may: in pages, JSON, CSV, sums, and live streams."""

from __future__ import annotations

import re

import pytest

from lakelog.sdk.catalog import Catalog
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
