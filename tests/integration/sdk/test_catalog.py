from __future__ import annotations

import pickle
from collections.abc import Callable

import pyarrow as pa
import pytest

from lakelog.errors import AlreadyExists, InvalidArgument, NotFound
from lakelog.sdk.catalog import Catalog

from .shop import NUMBERS, ORDERS, make_log, make_orders, orders


def test_databases_and_tables_come_and_go(catalog: Catalog) -> None:
    assert catalog.create_database("shop", if_not_exists=True) is False
    with pytest.raises(AlreadyExists):
        catalog.create_database("shop")
    table = make_orders(catalog)
    make_log(catalog)
    assert catalog.tables("shop") == ["log", "orders"]
    assert catalog.databases() == ["shop"]
    same = catalog.create_table("shop.orders", NUMBERS, if_not_exists=True)
    assert (same.uuid, same.primary_key) == (table.uuid, ("id",))
    assert catalog.drop_table("shop.log") is True
    assert catalog.drop_table("shop.log", if_exists=True) is False
    assert catalog.drop_database("shop", cascade=True) is True
    assert catalog.databases() == []


def test_unknown_tables_name_the_nearest(catalog: Catalog) -> None:
    make_orders(catalog)
    with pytest.raises(NotFound, match=r"orders"):
        catalog.table("shop.order")
    with pytest.raises(InvalidArgument, match=r"write database\.table"):
        catalog.table("orders")


def test_a_table_shows_what_it_is(catalog: Catalog) -> None:
    table = catalog.create_table(
        "shop.t",
        pa.schema([("id", pa.int32()), ("dt", pa.large_string())]),
        primary_key=["id", "dt"],
        partition_by=["dt"],
        options={"bucket": 2},
        comment="for tests",
    )
    assert table.name == "shop.t"
    assert table.schema == pa.schema(
        [pa.field("id", pa.int32(), nullable=False), pa.field("dt", pa.string(), nullable=False)]
    )
    assert table.schema.field("id").metadata is None
    assert (table.primary_key, table.partition_by) == (("id", "dt"), ("dt",))
    assert table.options == {"bucket": "2"}
    assert table.comment == "for tests"
    assert table.location.startswith("file:///")
    assert repr(table) == "<table shop.t (id: int32, dt: string), primary key id, dt, partitioned by dt>"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"primary_key": "id"}, r"here perhaps \['id'\]"),
        ({"options": {"bucket": [1]}}, "give its value as text"),
        ({"options": {"bukcet": "1"}}, "bucket"),
    ],
)
def test_wrong_arguments_of_create_table_are_named(
    catalog: Catalog, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        catalog.create_table("shop.t", ORDERS, **arguments)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="is no schema"):
        catalog.create_table("shop.t", "id bigint")


def test_snapshots_and_files_are_listed(catalog: Catalog) -> None:
    table = make_orders(catalog)
    table.upsert(orders((1, "a", None), (2, "b", None)), writer="w", identifier=7, properties={"k": "v"}, watermark=5)
    table.upsert(orders((2, "B", None)))
    listed = table.snapshots().to_pylist()
    assert [row["id"] for row in listed] == [1, 2]
    assert (listed[0]["writer"], listed[0]["identifier"], listed[0]["properties"]) == ("w", 7, [("k", "v")])
    assert (listed[1]["rows"], listed[1]["added_rows"], listed[1]["watermark"]) == (3, 1, 5)
    assert table.snapshots(limit=1).column("id").to_pylist() == [2]
    assert table.snapshots(limit=0).num_rows == 0
    files = table.files().to_pylist()
    assert [(f["rows"], f["min_key"], f["max_key"], f["added_snapshot"]) for f in files] == [
        (2, "1", "2", 1),
        (1, "2", "2", 2),
    ]
    assert table.files(snapshot_id=1).num_rows == 1


@pytest.mark.parametrize(
    ("data_type", "number", "shown"),
    [
        (pa.date32(), 2**31 - 1, "2147483647 days since 1970-01-01"),
        (pa.date32(), -(2**31), "-2147483648 days since 1970-01-01"),
        (pa.timestamp("us", "UTC"), 2**63 - 1, "9223372036854775807 µs since 1970-01-01"),
        (pa.timestamp("us"), -(2**63), "-9223372036854775808 µs since 1970-01-01"),
    ],
)
def test_times_beyond_the_years_of_python(catalog: Catalog, data_type: pa.DataType, number: int, shown: str) -> None:
    width = pa.int32() if pa.types.is_date(data_type) else pa.int64()
    schema = pa.schema([pa.field("p", data_type, nullable=False), pa.field("k", data_type, nullable=False)])
    table = catalog.create_table("shop.far", schema, primary_key=["p", "k"], partition_by=["p"])
    values = pa.array([number, 0], width).view(data_type)
    for _ in range(2):
        table.upsert(pa.table({"p": values, "k": values}))
    assert set(table.scan().to_arrow().column("k").combine_chunks().view(width).to_pylist()) == {number, 0}
    files = table.files()
    assert shown in files.column("min_key").to_pylist()
    partitions = files.column("partition").combine_chunks().field("p").view(width)
    assert sorted(partitions.to_pylist()) == sorted([number, number, 0, 0])
    rows = catalog.sql("SELECT files, buckets FROM shop.far$partitions").rows
    assert rows is not None
    assert rows.to_pylist() == [{"files": 2, "buckets": 1}] * 2
    with pytest.raises(InvalidArgument, match=f"has p={shown}"):
        table.overwrite(pa.table({"p": values, "k": values}), {"p": values[1]})


def test_a_handle_of_a_dropped_table_says_so(catalog: Catalog) -> None:
    table = make_orders(catalog)
    catalog.drop_table("shop.orders")
    make_orders(catalog)
    uses: list[Callable[[], object]] = [
        lambda: table.scan(),
        lambda: table.upsert(orders((1, "a", None))),
        lambda: table.snapshots(),
        lambda: table.files(),
        lambda: table.alter(set={"ignore-delete": "true"}),
    ]
    for use in uses:
        with pytest.raises(NotFound, match=r"was dropped since this handle was made.*catalog\.table\('shop\.orders'\)"):
            use()


def test_options_altered_elsewhere_hold_for_the_next_write(catalog: Catalog) -> None:
    table = make_orders(catalog)
    table.upsert(orders((1, "a", None)))
    catalog.table("shop.orders").alter(set={"ignore-delete": "true"})
    assert table.delete(pa.table({"id": [1]})).snapshot_id is None
    assert table.options == {"ignore-delete": "true"}
    with pytest.raises(InvalidArgument, match="bucket"):
        table.alter(set={"bucket": "9"})


def test_catalog_and_table_say_what_they_are_and_a_stores_settings_pickle(catalog: Catalog) -> None:
    assert "lakelog catalog of" in repr(catalog)
    assert "inside a transaction" in repr(catalog.transaction().write_to(make_orders(catalog).uuid))
    copied = pickle.loads(pickle.dumps(catalog.stores))
    assert copied.open("file:///tmp/x/").location == "file:///tmp/x/"
