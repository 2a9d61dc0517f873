"""`lakelog tags`, `lakelog scan --tag` and `lakelog table rollback` over a real catalog."""

from __future__ import annotations

import json

import pytest

from lakelog.sdk.catalog import Catalog
from tests.support.command import Command

from .shop import make_orders, names, orders


@pytest.fixture
def commands(catalog: Catalog, capsys: pytest.CaptureFixture[str]) -> Command:
    table = make_orders(catalog)
    table.upsert(orders((1, "pen", None)))
    table.upsert(orders((1, "cup", None), (2, "hat", None)))
    return Command(catalog, capsys)


def test_tags(commands: Command) -> None:
    assert "has no tags. Make one: lakelog tags create shop.orders" in commands("tags", "list", "shop.orders")[1]
    assert commands("tags", "create", "shop.orders", "first", "--snapshot", "1") == (
        0,
        "Snapshot 1 of shop.orders has the tag first.\n",
        "",
    )
    code, out, _ = commands("tags", "create", "shop.orders", "now", "-o", "json")
    assert (code, json.loads(out)) == (0, {"tag": "now", "snapshot_id": 2})
    lines = commands("tags", "list", "shop.orders")[1].splitlines()
    assert lines[0].split() == ["TAG", "SNAPSHOT", "COMMITTED", "AT", "STORED", "ROWS", "TAGGED", "AT"]
    assert [line.split()[:2] for line in lines[1:]] == [["first", "1"], ["now", "2"]]
    records = json.loads(commands("tags", "list", "shop.orders", "-o", "json")[1])
    assert [(each["tag"], each["snapshot_id"], each["rows"]) for each in records] == [("first", 1, 1), ("now", 2, 3)]
    code, out, _ = commands("scan", "shop.orders", "--tag", "first", "-o", "json")
    assert (code, json.loads(out)["name"]) == (0, "pen")
    assert commands("tags", "delete", "shop.orders", "first", "-y") == (0, "Deleted tag first of shop.orders.\n", "")

    assert commands("tags", "create", "shop.orders", "now")[0] == 4
    assert commands("tags", "delete", "shop.orders", "first")[0] == 3
    assert commands("tags", "create", "shop.orders", "7")[0] == 2
    assert "--snapshot and --tag both say" in commands("scan", "shop.orders", "--snapshot", "1", "--tag", "now")[2]
    code, _, err = commands("tags", "delete", "shop.orders", "now")
    assert (code, "Delete tag now of shop.orders? There is no terminal to ask on" in err) == (2, True)


def test_rollback(commands: Command) -> None:
    table = commands.catalog.table("shop.orders")
    table.tags.create("both", 2)
    code, out, _ = commands("table", "rollback", "shop.orders", "--to", "1", "--dry-run")
    assert (code, out) == (
        0,
        "shop.orders would have the rows of snapshot 1 again: 1 later snapshot would be undone, 1 instead of 3 stored "
        "rows would be live.\n",
    )
    assert table.info.latest_snapshot_id == 2
    assert commands("table", "rollback", "shop.orders", "--to", "9", "--dry-run")[0] == 3
    code, out, _ = commands("table", "rollback", "shop.orders", "--to", "1")
    assert (code, out) == (0, "shop.orders has the rows of 1 again, with snapshot 3.\n")
    assert names(table) == {1: "pen"}
    code, out, _ = commands("table", "rollback", "shop.orders", "--to", "both", "-o", "json")
    assert json.loads(out) == {"table": "shop.orders", "to": "both", "snapshot_id": 4}
    assert names(table) == {1: "cup", 2: "hat"}
    assert "has the state of both already" in commands("table", "rollback", "shop.orders", "--to", "both")[1]
    assert commands("table", "rollback", "shop.orders", "--to", "9")[0] == 3
    assert commands("table", "rollback", "shop.orders", "--to", "bth")[0] == 3
    assert commands("table", "rollback", "shop.orders")[0] == 2
