"""Tags as users of the SDK hold them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.errors import AlreadyExists, InvalidArgument, NotFound, SnapshotExpired
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from tests.support.tables.keyed import make, rows

from .shop import make_log, make_orders, names, orders


@pytest.fixture
def table(catalog: Catalog) -> Table:
    table = make_orders(catalog)
    for number, name in enumerate(("pen", "cup", "hat"), 1):
        table.upsert(orders((1, name, None), (10 + number, "x", None)))
    table.tags.create("second", 2)
    return table


def test_a_state_by_its_tag(table: Table) -> None:
    assert names(table, tag="second") == {1: "cup", 11: "x", 12: "x"}
    assert names(table, options={"scan.tag-name": "second"}) == names(table, snapshot_id=2)
    assert table.scan(tag="second", filter="id > 10").count() == 2
    assert table.tags.create("now") == 3
    table.delete(pa.table({"id": [1]}))
    assert 1 not in names(table)
    assert names(table, tag="now")[1] == "hat"


def test_the_list_of_tags(table: Table) -> None:
    table.tags.create("a", 1)
    listed = table.tags.list()
    assert listed.select(["name", "snapshot_id", "rows"]).to_pylist() == [
        {"name": "a", "snapshot_id": 1, "rows": 2},
        {"name": "second", "snapshot_id": 2, "rows": 4},
    ]
    committed = table.snapshots().column("committed_at").to_pylist()
    assert listed.column("committed_at").to_pylist() == committed[:2]
    table.tags.delete("a")
    assert table.tags.list().column("name").to_pylist() == ["second"]


def test_between_two_tags(catalog: Catalog) -> None:
    table = make(catalog, "lookup")
    table.write(rows("+I 1|1|10", "+I 1|2|20", "+I 1|3|30"))
    table.tags.create("before")
    table.write(rows("+I 1|1|11", "-D 1|2|20"))
    table.write(rows("+I 1|1|12", "+I 1|4|40"))
    table.tags.create("after")

    def reported(**options: str) -> list[str]:
        options = {key.replace("_", "-"): value for key, value in options.items()}
        return sorted(
            f"{row.get('_row_kind', '')} {row['k']}|{row['v']}"
            for row in table.scan(options=options).to_arrow().to_pylist()
        )

    difference = ["+I 4|40", "+U 1|12", "-D 2|20", "-U 1|10"]
    assert reported(incremental_between="before,after") == difference
    assert reported(incremental_between="before,3") == difference
    assert reported(incremental_between="1,after", incremental_between_scan_mode="auto") == difference
    assert len(reported(incremental_between="before,after", incremental_between_scan_mode="changelog")) == 6
    assert reported(incremental_between="before,after", incremental_between_scan_mode="delta") == [
        " 1|11",
        " 1|12",
        " 4|40",
    ]
    assert reported(incremental_between="before,before") == []
    with pytest.raises(InvalidArgument, match=r"names snapshot 3 of shop\.t and then 1.*first: 'before,after'"):
        reported(incremental_between="after,before")
    with pytest.raises(NotFound, match=r"shop\.t has no tag 'befor'; it has 'before' and 1 more"):
        reported(incremental_between="befor,after")


def test_what_append_tables_have_between_two_tags(catalog: Catalog) -> None:
    table = make_log(catalog)
    for number in range(3):
        table.append(pa.table({"n": [number]}), fill_missing=True)
        table.tags.create(f"t{number}")
    for mode in ({}, {"incremental-between-scan-mode": "auto"}):
        found = table.scan(options={"incremental-between": "t0,t2", **mode}).to_arrow()
        assert sorted(found.column("n").to_pylist()) == [1, 2]


def test_refusals(table: Table) -> None:
    with pytest.raises(NotFound, match=r"shop\.orders has no tag 'secnd'; it has 'second'"):
        table.scan(tag="secnd")
    with pytest.raises(InvalidArgument, match=r"snapshot_id= and tag= both say which state"):
        table.scan(tag="second", snapshot_id=2)
    with pytest.raises(InvalidArgument, match=r"tag= and option 'scan\.tag-name' both say"):
        table.scan(tag="second", options={"scan.tag-name": "second"})
    with pytest.raises(InvalidArgument, match=r"'scan\.snapshot-id' and 'scan\.tag-name' both say"):
        table.scan(options={"scan.tag-name": "second", "scan.snapshot-id": "2"})
    with pytest.raises(InvalidArgument, match=r"no snapshot, time or tag may be given with it"):
        table.scan(tag="second", options={"incremental-between": "1,2"})
    with pytest.raises(InvalidArgument, match=r"tag='7' is no name of a tag\. A number means a snapshot"):
        table.scan(tag="7")
    with pytest.raises(InvalidArgument, match=r"'scan\.tag-name'.*'7'.*A number means a snapshot"):
        table.scan(options={"scan.tag-name": "7"})
    with pytest.raises(InvalidArgument, match=r"tag=2 is no text"):
        table.scan(tag=2)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"name='a b' is no name of a tag\. Use letters"):
        table.tags.create("a b")
    with pytest.raises(InvalidArgument, match=r"snapshot_id=0 is no snapshot"):
        table.tags.create("zero", 0)
    with pytest.raises(AlreadyExists, match="has a tag 'second' already, of snapshot 2"):
        table.tags.create("second")
    with pytest.raises(NotFound, match="has no snapshot 9; it has the snapshots 1 to 3"):
        table.tags.create("late", 9)


def test_what_expired_is_reported_with_what_tags_still_keep(table: Table) -> None:
    table.expire_snapshots(older_than=1 << 52, retain_last=1)
    for refused in (lambda: table.scan(snapshot_id=1), lambda: table.rollback_to(1), lambda: table.tags.create("x", 1)):
        with pytest.raises(SnapshotExpired, match=r"the snapshots 3 to 3 can still be read, of earlier .* a tag: 2\."):
            refused()
    with pytest.raises(InvalidArgument, match=r"A number means a snapshot: give 2 without quotes"):
        table.rollback_to("2")
    table.tags.delete("second")
    with pytest.raises(SnapshotExpired, match=r"the snapshots 3 to 3 can still be read\."):
        table.scan(snapshot_id=1)


def test_a_dropped_table_has_none(catalog: Catalog, table: Table) -> None:
    catalog.drop_table("shop.orders")
    with pytest.raises(NotFound, match=r"Table shop\.orders was dropped since this handle was made"):
        table.tags.list()
    assert make_orders(catalog).tags.list().num_rows == 0
