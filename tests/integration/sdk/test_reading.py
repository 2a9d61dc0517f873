from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument, NotFound
from lakelog.sdk.catalog import Catalog
from tests.support.tables.data_files import data_files

from .shop import make_log, make_orders, names, orders


def test_time_travel_by_id_and_time(catalog: Catalog) -> None:
    table = make_orders(catalog)
    for version in ("one", "two", "three"):
        table.upsert(orders((1, version, None)))
    times = [value.as_py() for value in table.snapshots().column("committed_at")]
    assert [names(table, snapshot_id=n)[1] for n in (1, 2, 3)] == ["one", "two", "three"]
    assert names(table, timestamp=times[2]) == {1: "three"}
    assert names(table, timestamp=int(times[2].timestamp() * 1000) + 10**6) == {1: "three"}
    assert names(table, options={"scan.snapshot-id": 1}) == {1: "one"}
    with pytest.raises(NotFound, match="4"):
        table.scan(snapshot_id=4)
    with pytest.raises(InvalidArgument, match="numbered from 1"):
        table.scan(snapshot_id=0)
    with pytest.raises(InvalidArgument, match="has no time zone"):
        table.scan(timestamp=times[0].replace(tzinfo=None))
    with pytest.raises(InvalidArgument, match="both say which state"):
        table.scan(snapshot_id=1, timestamp=5)
    with pytest.raises(NotFound):
        table.scan(timestamp=times[0] - dt.timedelta(days=1))


def test_filters_columns_and_limits(catalog: Catalog) -> None:
    table = make_orders(catalog, bucket="2")
    ids = list(range(1000))
    prices = pa.array([Decimal(n) / 100 for n in ids], pa.decimal128(9, 2))
    for _ in range(2):
        table.upsert(pa.table({"id": ids, "name": [f"n{n % 10}" for n in ids], "price": prices}))
    scan = table.scan(["name"], "id >= 990 AND name <> 'n5'")
    assert scan.schema.names == ["name"]
    assert sorted(scan.to_arrow().column("name").to_pylist()) == [f"n{n}" for n in range(10) if n != 5]
    assert scan.count() == 9
    assert table.scan(filter="price < 0.05").count() == 5
    assert table.scan(limit=7).to_arrow().num_rows == 7
    assert table.scan(limit=0).to_arrow().num_rows == 0
    assert table.scan(limit=7, filter="id < 3").count() == 3
    assert table.scan([]).to_arrow().num_rows == 1000
    assert table.scan(["price", "id"]).to_arrow().schema.names == ["price", "id"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": ["nmae"]}, "near it are name"),
        ({"columns": "name"}, r"here perhaps \['name'\]"),
        ({"columns": ["name", "name"]}, "asked for twice"),
        ({"filter": "nmae = 1"}, "nmae"),
        ({"filter": "id ="}, "ends too early"),
        ({"filter": 5}, "given as text"),
        ({"limit": -1}, "limit=-1"),
        ({"limit": True}, "limit=True"),
        ({"options": {"scan.snapshot": "1"}}, "scan.snapshot-id"),
        ({"timestamp": "yesterday"}, "no point in time"),
    ],
)
def test_arguments_of_a_scan_are_checked_when_it_is_made(
    catalog: Catalog, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        make_orders(catalog).scan(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "condition", ["id BETWEEN 3 AND 1", "id > 2 AND id < 2", "id = 1 AND id = 2", "id IN (1) AND id > 5"]
)
def test_conditions_on_the_key_that_contradict_each_other_find_nothing(catalog: Catalog, condition: str) -> None:
    table = make_orders(catalog)
    table.upsert(orders((1, "a", None), (2, "b", None), (3, "c", None)))
    assert table.scan(filter=condition).to_arrow().num_rows == 0
    assert table.scan(filter=f"({condition}) OR id = 3").count() == 1
    assert table.changes(filter=condition, raw=True).count() == 0


@pytest.mark.parametrize("snapshot_id", [0, -1, "1", 1.0, True])
def test_what_is_no_snapshot_is_refused(catalog: Catalog, snapshot_id: Any) -> None:
    table = make_orders(catalog)
    table.upsert(orders((1, "a", None)))
    for read in (table.files, lambda each: table.scan(snapshot_id=each)):
        with pytest.raises(InvalidArgument, match="is no snapshot: these are numbered from 1"):
            read(snapshot_id)


def test_a_filter_on_other_columns_never_brings_an_older_row_back(catalog: Catalog) -> None:
    table = make_orders(catalog)
    table.upsert(orders((1, "old", "1.00"), (2, "old", "1.00")))
    table.upsert(orders((1, "new", "9.00")))
    table.delete(pa.table({"id": [2]}))
    assert names(table, filter="name = 'old'") == {}
    assert names(table, filter="price < 5") == {}
    assert names(table, filter="id = 1") == {1: "new"}
    assert table.scan(filter="name = 'old'").count() == 0


def test_a_scan_stays_at_its_snapshot_and_pickles(catalog: Catalog) -> None:
    table = make_orders(catalog)
    table.upsert(orders((1, "a", None)))
    scan = table.scan(filter="id < 10")
    table.upsert(orders((1, "b", None)))
    assert scan.snapshot_id == 1
    assert scan.to_arrow().column("name").to_pylist() == ["a"]
    assert scan.to_arrow().column("name").to_pylist() == ["a"]
    assert "shop.orders at snapshot 1: 1 files" in repr(scan)


def test_an_empty_table_has_its_columns(catalog: Catalog) -> None:
    table = make_orders(catalog)
    assert table.scan().to_arrow().schema == table.schema
    assert table.scan().to_pandas().columns.tolist() == ["id", "name", "price"]
    assert table.scan().to_polars().shape == (0, 3)
    assert table.scan().count() == 0
    assert table.scan().snapshot_id == 0
    assert table.changes(raw=True).count() == 0


def test_count_opens_no_file_where_nothing_is_merged(catalog: Catalog, warehouse: Path) -> None:
    table = make_orders(catalog)
    table.upsert(orders(*[(n, "x", None) for n in range(100)]))
    for file in data_files(warehouse):
        (warehouse / file).unlink()
    assert table.scan().count() == 100
    assert table.scan(limit=30).count() == 30


def test_changes_as_they_were_written(catalog: Catalog) -> None:
    table = make_orders(catalog)
    table.upsert(orders((1, "a", None), (1, "A", None)))
    table.write(orders((1, "x", None), (2, "b", None)).append_column("_row_kind", pa.array(["-D", "+U"])))
    table.overwrite(orders((5, "e", None)))
    table.delete(pa.table({"id": [5]}))
    changes = table.changes(raw=True).to_arrow()
    assert changes.select(["id", "name", "_row_kind", "_snapshot_id"]).to_pylist() == [
        {"id": 1, "name": "A", "_row_kind": "+I", "_snapshot_id": 1},
        {"id": 1, "name": "x", "_row_kind": "-D", "_snapshot_id": 2},
        {"id": 2, "name": "b", "_row_kind": "+U", "_snapshot_id": 2},
        {"id": 5, "name": None, "_row_kind": "-D", "_snapshot_id": 4},
    ]
    assert table.changes(1, 2, columns=["_row_kind", "id"], filter="id > 1", raw=True).to_arrow().to_pylist() == [
        {"_row_kind": "+U", "id": 2}
    ]
    assert table.changes(4, raw=True).count() == 0
    assert table.changes(4, raw=True).schema == changes.schema
    with pytest.raises(NotFound, match="newest snapshot is 4"):
        table.changes(5, raw=True)
    between = table.scan(options={"incremental-between": "1,4"})
    assert between.to_arrow().to_pylist() == [{"id": 2, "name": "b", "price": None}]


def test_changes_come_with_their_old_rows(catalog: Catalog) -> None:
    table = make_orders(catalog)
    table.upsert(orders((1, "a", None), (1, "A", None), (3, "c", "1")))
    table.write(
        orders((1, "x", None), (2, "b", None), (9, "n", None)).append_column("_row_kind", pa.array(["-D", "+U", "-D"]))
    )
    table.upsert(orders((3, "c", "2"), (2, "b", None)))
    table.overwrite(orders((5, "e", None)))
    table.delete(pa.table({"id": [5]}))
    scan = table.changes()
    assert scan.skipped_snapshots == (4,)
    assert [tuple(row.values()) for row in scan.to_arrow().to_pylist()] == [
        (1, "A", None, "+I", 1),
        (3, "c", Decimal(1), "+I", 1),
        (1, "A", None, "-D", 2),
        (2, "b", None, "+I", 2),
        (3, "c", Decimal(1), "-U", 3),
        (3, "c", Decimal(2), "+U", 3),
        (5, "e", None, "-D", 5),
    ]
    # On these columns nothing changed.
    assert table.changes(2, 3, columns=["id", "name", "_row_kind"]).count() == 0
    # A filter tests each row of a change alone, and its column counts.
    assert table.changes(2, 3, columns=["_row_kind", "id"], filter="price > 1").to_arrow().to_pylist() == [
        {"_row_kind": "+U", "id": 3}
    ]
    assert table.changes(0, 5, limit=3).count() == 3


def test_changes_show_the_last_row_of_a_key_also_of_a_commit_larger_than_the_buffer(catalog: Catalog) -> None:
    table = make_orders(catalog, **{"write-buffer-size": "1 kb"})
    rows = orders(*[(n % 100, f"n{n}", None) for n in range(1000)])
    kinds = pa.array(["-D" if n % 100 == 7 else "+I" for n in range(1000)])
    table.write(rows.append_column("_row_kind", kinds))
    table.upsert(orders((1, "later", None)))
    assert table.files().num_rows > 2
    changes = table.changes(0, 1, raw=True).to_arrow().sort_by("id").to_pylist()
    assert [(row["id"], row["name"]) for row in changes] == [(n, f"n{900 + n}") for n in range(100)]
    assert [row["id"] for row in changes if row["_row_kind"] == "-D"] == [7]
    assert table.changes(raw=True).count() == 101
    # A filter sees the last rows only: the file of the last one must not be left out for it.
    assert table.changes(0, 1, filter="name = 'n5'", raw=True).count() == 0
    assert table.scan(options={"incremental-between": "0,1"}).count() == 99


def test_changes_of_an_append_table(catalog: Catalog) -> None:
    table = make_log(catalog)
    table.append(pa.table({"n": [1], "t": ["a"]}))
    table.append(pa.table({"n": [2], "t": ["b"]}))
    assert table.changes(1).to_arrow().to_pylist() == [{"n": 2, "t": "b", "_row_kind": "+I", "_snapshot_id": 2}]


@pytest.mark.parametrize("condition", ["id > 5 AND id < 3", "id = 5 AND id = 3", "id > 2 AND id < 2"])
def test_a_filter_that_nothing_can_fulfil_reads_nothing(catalog: Catalog, condition: str) -> None:
    table = make_orders(catalog, bucket="2")
    table.upsert(orders((1, "a", None), (5, "b", None)))
    scan = table.scan(filter=condition)
    assert (scan.count(), scan.to_arrow().num_rows) == (0, 0)


def test_a_limit_may_be_any_number(catalog: Catalog) -> None:
    table = make_orders(catalog)
    table.upsert(orders((1, "a", None), (5, "b", None)))
    assert table.scan(limit=10**30).to_arrow().num_rows == 2
