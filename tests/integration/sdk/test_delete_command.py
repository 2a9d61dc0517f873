"""`lakelog delete` over a real catalog: it counts, asks, and deletes."""

from __future__ import annotations

import json

import pytest

from lakelog.sdk.catalog import Catalog
from tests.support.command import Command

from .shop import make_orders, orders


@pytest.fixture
def commands(catalog: Catalog, capsys: pytest.CaptureFixture[str]) -> Command:
    make_orders(catalog).upsert(orders((1, "pen", None), (2, "cup", None), (3, "hat", None)))
    return Command(catalog, capsys)


def test_delete(commands: Command) -> None:
    where = ("--where", "id >= 2")
    assert commands("delete", "shop.orders", *where, "--dry-run") == (
        0,
        "2 rows of shop.orders would be deleted.\n",
        "",
    )
    code, _, err = commands("delete", "shop.orders", *where)
    assert (code, "Delete 2 rows of shop.orders? There is no terminal to ask on" in err) == (2, True)
    assert commands("delete", "shop.orders", "--where", "nothing = 1", "-y")[0] == 2
    assert commands("delete", "shop.orders", "-y")[0] == 2
    table = commands.catalog.table("shop.orders")
    assert table.count() == 3
    assert commands("delete", "shop.orders", *where, "-y") == (
        0,
        "Deleted 2 rows of shop.orders with snapshot 2.\n",
        "",
    )
    assert table.count() == 1
    # Where no row is, there is nothing to ask.
    code, out, _ = commands("delete", "shop.orders", *where, "-o", "json")
    assert (code, json.loads(out)) == (0, {"table": "shop.orders", "deleted_rows": 0, "snapshot_id": None})
