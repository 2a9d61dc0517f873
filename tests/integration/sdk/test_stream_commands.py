"""`lakelog changes` and `lakelog consumers` over a real catalog."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pytest

from lakelog.sdk.catalog import Catalog
from tests.support.command import Command

from .shop import make_orders, orders


@pytest.fixture
def command(catalog: Catalog, capsys: pytest.CaptureFixture[str]) -> Command:
    table = make_orders(catalog)
    table.upsert(orders((1, "a", None), (2, "b", None)))
    table.upsert(orders((2, "B", None)))
    table.overwrite(orders((2, "B", None)))
    table.delete(pa.table({"id": [2]}))
    return Command(catalog, capsys)


def test_changes_come_with_their_old_rows(command: Command) -> None:
    code, out, err = command("changes", "shop.orders", "--after", "1", "--until", "2")
    assert (code, err) == (0, "")
    assert [line.split()[:4] for line in out.splitlines()] == [
        ["_snapshot_id", "_row_kind", "id", "name"],
        ["2", "-U", "2", "b"],
        ["2", "+U", "2", "B"],
    ]
    code, out, err = command("changes", "shop.orders", "-o", "json", "-c", "id,_row_kind", "--filter", "id = 2")
    assert [json.loads(line) for line in out.splitlines()] == [
        {"_row_kind": "+I", "id": 2},
        {"_row_kind": "-D", "id": 2},
    ]
    assert "Snapshot 3 overwrote rows" in command("changes", "shop.orders")[2]
    code, out, _ = command("changes", "shop.orders", "--after", "3", "--raw", "-o", "json")
    assert json.loads(out)["name"] is None
    assert "has no changes in this range" in command("changes", "shop.orders", "--after", "4")[1]


@pytest.mark.parametrize(
    "arguments",
    [
        ("changes", "shop.orders"),
        ("tail", "shop.orders", "--after", "0"),
        ("tail", "shop.orders", "--mode", "from-snapshot", "-O", "scan.snapshot-id=1"),
    ],
    ids=["changes", "tail", "tail as a subscription"],
)
def test_programs_receive_overwrites_beside_the_rows(command: Command, arguments: Sequence[str]) -> None:
    code, out, err = command(*arguments, "-o", "json")
    assert code == 0
    assert [json.loads(line)["_snapshot_id"] for line in out.splitlines()] == [1, 1, 2, 2, 4]
    # Where a test before has set up the logs of services, these have a line of it, too.
    (warning,) = (each for each in map(json.loads, err.splitlines()) if each.get("kind") == "Warning")
    assert "napshot 3 overwrote rows; what was replaced, and by what, is not shown." in warning["message"]


def test_changes_that_cannot_be(command: Command) -> None:
    code, _, err = command("changes", "shop.orders", "--after", "9")
    assert (code, "newest snapshot is 4. Give that or an older one" in err) == (3, True)
    code, _, err = command("changes", "shop.orders", "--after", "3", "--until", "2")
    assert (code, "Swap them" in err) == (2, True)
    assert command("changes", "shop.order")[0] == 3


def test_consumers_are_listed_reset_and_deleted(command: Command) -> None:
    assert "shop.orders has no consumers." in command("consumers", "list", "shop.orders")[1]
    code, _, err = command("consumers", "reset", "shop.orders", "etl", "--to", "1")
    assert (code, "has no consumer 'etl'" in err) == (3, True)
    command.catalog.table("shop.orders").subscribe(consumer_id="etl").close()
    code, out, _ = command("consumers", "reset", "shop.orders", "etl", "--to", "1")
    assert (code, "goes on after snapshot 1" in out) == (0, True)
    code, out, _ = command("consumers", "list", "shop.orders")
    assert out.splitlines()[1].split()[:3] == ["etl", "1", "3"]
    (listed,) = json.loads(command("consumers", "list", "shop.orders", "-o", "json")[1])
    assert (listed["consumer"], listed["snapshot_id"], listed["behind"], listed["holder"]) == ("etl", 1, 3, None)
    code, _, err = command("consumers", "reset", "shop.orders", "etl", "--to", "5")
    assert (code, "the newest of table shop.orders is 4" in err) == (2, True)
    code, _, err = command("consumers", "delete", "shop.orders", "etl")
    assert (code, "--yes" in err) == (2, True)
    assert command("consumers", "delete", "shop.orders", "etl", "--yes")[0] == 0
    code, _, err = command("consumers", "delete", "shop.orders", "etl", "--yes")
    assert (code, "has no consumer 'etl'; it has none" in err) == (3, True)


def test_a_reset_needs_a_place(command: Command) -> None:
    assert command("consumers", "reset", "shop.orders", "etl")[0] == 2
    assert command("consumers", "shop.orders")[0] == 2


def test_tail_begins_where_a_mode_says_and_goes_on_as_a_consumer(command: Command) -> None:
    def rows(*arguments: str) -> list[tuple[int, str, int]]:
        code, out, err = command("tail", "shop.orders", "-o", "json", *arguments)
        assert code == 0, err
        found = [json.loads(line) for line in out.splitlines()]
        return [(row["_snapshot_id"], row["_row_kind"], row["id"]) for row in found]

    first = [(1, "+I", 1), (1, "+I", 2), (2, "-U", 2), (2, "+U", 2), (4, "-D", 2)]
    assert rows("--mode", "from-snapshot", "-O", "scan.snapshot-id=1") == first
    assert rows("-O", "scan.snapshot-id=1", "--consumer", "etl") == first
    assert rows("--consumer", "etl") == []
    for nothing in (
        ("--consumer", "etl"),
        ("--mode", "from-snapshot", "-O", "scan.snapshot-id=99"),
        ("-O", f"scan.timestamp-millis={2**45}"),
    ):
        assert command("tail", "shop.orders", *nothing)[:2] == (0, "shop.orders has no changes in this range.\n")
    assert rows("--mode", "from-snapshot", "-O", "scan.snapshot-id=4", "--raw") == [(4, "-D", 2)]
    command.catalog.table("shop.orders").upsert(orders((7, "x", None)))
    assert rows("--consumer", "etl") == [(5, "+I", 7)]
    assert rows("--mode", "latest-full", "--limit", "1") == [(5, "+I", 7)]


def test_tail_of_several_tables_names_the_table_of_each_row(command: Command) -> None:
    catalog = command.catalog
    catalog.create_table("shop.items", pa.schema([("n", pa.int64())]))
    with catalog.transaction() as tx:
        tx.table("shop.items").append(pa.table({"n": [70]}))
        tx.table("shop.orders").upsert(orders((7, "x", None)))
    arguments = ["--mode", "from-timestamp", "-O", "scan.timestamp-millis=0"]
    code, out, err = command("tail", "shop.orders", "shop.items", *arguments, "-o", "json")
    assert code == 0, err
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["_table"], row["_snapshot_id"]) for row in rows[-2:]] == [("shop.orders", 5), ("shop.items", 1)]
    assert rows[-1] == {"_table": "shop.items", "_snapshot_id": 1, "n": 70}
    code, out, err = command("tail", "shop.orders", "shop.items", *arguments, "--consumer", "etl")
    assert code == 0
    assert "shop.orders: snapshot 3 overwrote rows" in err
    assert "not shown" not in out
    *_, order, blank, head, item = out.splitlines()
    assert order.split()[:5] == ["shop.orders", "5", "+I", "7", "x"]
    assert (blank, head.split(), item.split()) == ("", ["_table", "_snapshot_id", "n"], ["shop.items", "1", "70"])
    nothing = "shop.orders has no changes in this range.\nshop.items has no changes in this range.\n"
    assert command("tail", "shop.orders", "shop.items", "--consumer", "etl")[1] == nothing
    for wrong, message in (
        (["--after", "1", "--until", "2"], "--after and --until cannot be given for several tables. Leave out"),
        (["-c", "id"], "--columns and --filter are of one table"),
    ):
        code, _, err = command("tail", "shop.orders", "shop.items", *wrong)
        assert (code, message in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mode", "oldest"], "scan.mode"),
        (["--mode", "latest", "--after", "1"], "--after cannot be given with --mode. Leave out --after, or --mode."),
        (["--mode", "from-snapshot"], "needs the option 'scan.snapshot-id'"),
        (["-O", "scan.snapshot-id"], "not of the form KEY=VALUE"),
    ],
)
def test_tails_that_cannot_be(command: Command, arguments: list[str], message: str) -> None:
    code, _, err = command("tail", "shop.orders", *arguments)
    assert code == 2
    assert message in err


def test_a_tail_up_to_a_snapshot_that_is_not_there(command: Command) -> None:
    code, out, err = command("tail", "shop.orders", "--after", "1", "--until", "99")
    assert (code, out) == (3, "")
    assert "shop.orders has no snapshot 99; it has the snapshots 1 to" in err
