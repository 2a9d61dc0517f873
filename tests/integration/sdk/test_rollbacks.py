"""Rolling back: what reads and streams show afterwards, and what refuses it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument, NotFound
from lakelog.sdk.catalog import Catalog
from tests.support.tables.keyed import emitted, make, replayed, rows, shown

from .shop import make_log, make_orders, names, orders


def test_rows_are_what_they_were(catalog: Catalog) -> None:
    table = make_orders(catalog)
    table.upsert(orders((1, "pen", "1.50"), (2, "cup", None)))
    table.upsert(orders((1, "hat", None), (3, "bag", None)))
    table.overwrite(orders((9, "all else is gone", None)))
    table.tags.create("gone")
    assert table.rollback_to(2).snapshot_id == 4
    assert names(table) == {1: "hat", 2: "cup", 3: "bag"}
    assert table.snapshots().column("kind").to_pylist() == ["APPEND", "APPEND", "OVERWRITE", "OVERWRITE"]
    # What comes next stands above what is back.
    table.upsert(orders((1, "pin", None)))
    table.delete(pa.table({"id": [2]}))
    assert names(table) == {1: "pin", 3: "bag"}
    assert table.rollback_to("gone").snapshot_id == 7
    assert names(table) == {9: "all else is gone"}
    assert table.rollback_to(3).snapshot_id is None
    table.rollback_to(6)
    assert names(table) == {1: "pin", 3: "bag"}
    for snapshot_id, count in enumerate((2, 3, 1, 3, 3, 2, 1, 2), 1):
        assert table.scan(snapshot_id=snapshot_id).count() == count


def test_rows_of_an_append_table_keep_their_order(catalog: Catalog) -> None:
    table = make_log(catalog, bucket="1", **{"bucket-key": "t"})
    for number in range(4):
        table.append(pa.table({"n": [10 * number, 10 * number + 1], "t": ["x", "x"]}))
    table.overwrite(pa.table({"n": [99], "t": ["x"]}))
    table.rollback_to(3)
    table.append(pa.table({"n": [50], "t": ["x"]}))
    assert table.scan().to_arrow().column("n").to_pylist() == [0, 1, 10, 11, 20, 21, 50]


def test_it_is_done_once(catalog: Catalog) -> None:
    table = make_orders(catalog)
    table.upsert(orders((1, "pen", None)))
    table.upsert(orders((1, "cup", None)))
    table.tags.create("x", 1)
    first = table.rollback_to("x", writer="w", identifier=1, properties={"why": "a mistake"})
    assert (first.snapshot_id, first.already_applied) == (3, False)
    assert table.snapshots().to_pylist()[-1]["properties"] == [("why", "a mistake")]
    table.upsert(orders((1, "hat", None)))
    table.tags.delete("x")
    again = table.rollback_to("x", writer="w", identifier=1)
    assert (again.snapshot_id, again.already_applied) == (3, True)
    assert names(table) == {1: "hat"}


def test_several_tables_together(catalog: Catalog) -> None:
    table, log = make_orders(catalog), make_log(catalog)
    table.upsert(orders((1, "pen", None)))
    log.append(pa.table({"n": [1]}), fill_missing=True)
    with catalog.transaction() as tx:
        tx.table("shop.orders").upsert(orders((1, "cup", None)))
        tx.table("shop.log").append(pa.table({"n": [2]}), fill_missing=True)
    with catalog.transaction() as tx:
        tx.table("shop.orders").rollback_to(1)
        tx.table("shop.log").rollback_to(1)
    assert (names(table), log.scan().count()) == ({1: "pen"}, 1)
    with catalog.transaction() as tx:
        part = tx.table("shop.orders")
        part.rollback_to(2)
        with pytest.raises(InvalidArgument, match=r"shop\.orders is rolled back by this transaction\. Write to it in"):
            part.upsert(orders((5, "x", None)))
        with pytest.raises(InvalidArgument, match="was written to before in this transaction"):
            part.overwrite(orders())
        with pytest.raises(InvalidArgument, match="was written to before in this transaction"):
            part.rollback_to(1)
    assert names(table) == {1: "cup"}


def test_streams_show_it_if_they_are_asked(catalog: Catalog) -> None:
    table = make(catalog, "none", streaming_read_overwrite="true")
    table.write(rows("+I 1|1|10", "+I 1|2|20"))
    table.write(rows("+I 1|1|11", "-D 1|2|20", "+I 2|3|30"))
    table.write(rows("+I 1|4|40"))
    table.rollback_to(1)
    table.write(rows("+I 1|2|21"))
    assert emitted(table, 3, 4) == ["-U 1|1|11", "+U 1|1|10", "+I 1|2|20", "-D 1|4|40", "-D 2|3|30"]
    assert emitted(table, 4, 5) == ["-U 1|2|20", "+U 1|2|21"]
    assert replayed(table) == shown(table) == {(1, 1): 10, (1, 2): 21}
    table.alter(unset=["streaming-read-overwrite"])
    scan = table.changes(3, 5)
    assert scan.skipped_snapshots == (4,)
    assert [row["k"] for row in scan.to_arrow().to_pylist()] == [2, 2]


def test_what_commits_know_of_old_rows_holds(catalog: Catalog) -> None:
    """By `lookup` each commit says which rows it supersedes; those of a state that is back are found anew."""
    table = make(catalog, "lookup", streaming_read_overwrite="true")
    table.write(rows("+I 1|1|10", "+I 1|2|20", "+I 2|9|90"))
    table.write(rows("+I 1|1|11"))
    table.write(rows("+I 1|1|12", "-D 1|2|20"))
    table.overwrite(pa.table({"k": [7], "v": [70]}), {"pt": 1})
    table.rollback_to(3)
    assert shown(table) == {(1, 1): 12, (2, 9): 90}
    table.write(rows("+I 1|1|13", "+I 1|2|21"))
    assert emitted(table, 5, 6) == ["-U 1|1|12", "+U 1|1|13", "+I 1|2|21"]
    table.rollback_to(1)
    table.write(rows("+I 1|2|22"))
    assert emitted(table, 7, 8) == ["-U 1|2|20", "+U 1|2|22"]
    assert replayed(table) == shown(table) == {(1, 1): 10, (1, 2): 22, (2, 9): 90}


def test_a_subscriber_goes_on_after_it(catalog: Catalog) -> None:
    table = make(catalog, "lookup")
    table.write(rows("+I 1|1|10"))
    table.write(rows("+I 1|1|11"))
    seen: list[tuple[int, list[int]]] = []
    with table.subscribe(scan_mode="from-snapshot", consumer_id="c", options={"scan.snapshot-id": "1"}) as stream:
        for batch in stream:
            seen.append((batch.snapshot_id, batch.data.column("v").to_pylist()))
            if batch.snapshot_id == 2:
                table.rollback_to(1)
                table.write(rows("+I 1|1|12"))
            if batch.snapshot_id == 4:
                break
    # The one that was rolled back is told as it was; from then on old rows are those of the state that is back.
    assert seen == [(1, [10]), (2, [10, 11]), (4, [10, 12])]
    table.rollback_to(1)
    assert table.consumers.list().column("snapshot_id").to_pylist() == [3]


def test_refusals(catalog: Catalog) -> None:
    table = make_orders(catalog)
    with pytest.raises(NotFound, match=r"shop\.orders has no snapshot 1; it has no snapshot yet"):
        table.rollback_to(1)
    table.upsert(orders((1, "pen", None)))
    with pytest.raises(NotFound, match="has no snapshot 2; it has the snapshots 1 to 1"):
        table.rollback_to(2)
    with pytest.raises(NotFound, match="has no tag 'release'; it has none"):
        table.rollback_to("release")
    for odd, said in (("2", "A number means a snapshot"), (0, "is no snapshot"), (True, "is no snapshot")):
        with pytest.raises(InvalidArgument, match=rf"snapshot_id_or_tag={odd!r} is no .*{said.split('is no ')[-1]}"):
            table.rollback_to(odd)
    with pytest.raises(InvalidArgument, match=r"writer= and identifier=; identifier= is missing"):
        table.rollback_to(1, writer="w")
    assert names(table) == {1: "pen"}
