from __future__ import annotations

import datetime as dt
import math
import pickle
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lakelog.catalog import Catalog
from lakelog.errors import AlreadyExists, InvalidArgument, NotFound
from lakelog.table import Table

from .conftest import data_files

ORDERS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("price", pa.decimal128(9, 2)),
    ]
)
NUMBERS = pa.schema([pa.field("n", pa.int64()), pa.field("t", pa.string())])


def make_orders(catalog: Catalog, **options: str) -> Table:
    return catalog.create_table("shop.orders", ORDERS, primary_key=["id"], options=options)


def make_log(catalog: Catalog, **options: str) -> Table:
    return catalog.create_table("shop.log", NUMBERS, options=options)


def orders(*rows: tuple[int, str | None, str | None]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([row[0] for row in rows], pa.int64()),
            "name": pa.array([row[1] for row in rows], pa.string()),
            "price": pa.array([None if row[2] is None else Decimal(row[2]) for row in rows], pa.decimal128(9, 2)),
        }
    )


def names(table: Table, **scan: object) -> dict[int, str | None]:
    rows = table.scan(**scan).to_arrow().to_pylist()  # type: ignore[arg-type]
    found = {row["id"]: row["name"] for row in rows}
    assert len(found) == len(rows), "a key appears twice"
    return found


# Catalog


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


def test_a_table_tells_what_it_is(catalog: Catalog) -> None:
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


# Writing: SEMANTICS 1.x, 2.1


def test_upsert_replaces_delete_removes(catalog: Catalog) -> None:
    table = make_orders(catalog, bucket="3")
    assert table.upsert(orders((1, "a", "1.00"), (2, "b", None), (3, None, "3.00"))).snapshot_id == 1
    assert table.upsert(orders((2, "B", None), (4, "d", "4.00"))).snapshot_id == 2
    assert table.delete(pa.table({"id": [1, 99]})).snapshot_id == 3
    assert names(table) == {2: "B", 3: None, 4: "d"}
    assert table.upsert(orders((1, "again", None))).snapshot_id == 4
    assert names(table)[1] == "again"
    assert table.scan().count() == 4


def test_the_last_row_of_a_key_in_one_write_wins(catalog: Catalog) -> None:
    table = make_orders(catalog)
    table.upsert(orders((1, "first", None), (2, "x", None), (1, "last", None)))
    assert names(table) == {1: "last", 2: "x"}


def test_kinds_from_a_column(catalog: Catalog) -> None:
    table = make_orders(catalog)
    data = orders((1, "a", None), (2, "b", None), (1, "a", None), (1, "A", None), (2, None, None), (3, "c", None))
    kinds = pa.array(["+I", "+I", "-U", "+U", "-D", "-U"])
    table.write(data.append_column("_row_kind", kinds))
    assert names(table) == {1: "A"}
    with pytest.raises(InvalidArgument, match="have no column '_row_kind'"):
        table.write(data)
    with pytest.raises(InvalidArgument, match=r"'\+X' in row 0"):
        table.write(orders((1, "a", None)).append_column("_row_kind", pa.array(["+X"])))


def test_append_tables_take_inserts_only_and_keep_everything(catalog: Catalog) -> None:
    table = make_log(catalog)
    table.append(pa.table({"n": [1, 1], "t": ["a", "a"]}))
    table.append(pa.table({"n": [1], "t": ["a"]}))
    assert table.scan().count() == 3
    rows = pa.table({"n": [1, 2], "t": ["a", "b"], "_row_kind": ["+I", "-D"]})
    with pytest.raises(InvalidArgument, match=r"kind -D cannot be written to shop\.log"):
        table.write(rows)
    table.write(rows.slice(0, 1))
    assert table.scan().count() == 4
    for verb in (table.upsert, table.delete):
        with pytest.raises(InvalidArgument, match="has no primary key"):
            verb(rows)
    with pytest.raises(InvalidArgument, match=r"Use upsert\(\)"):
        make_orders(catalog).append(orders((1, "a", None)))


def test_a_bucket_of_an_append_table_is_read_in_the_order_it_was_written(catalog: Catalog) -> None:
    table = make_log(catalog, bucket="2", **{"bucket-key": "t"})
    expected = []
    for start in range(0, 5000, 1000):
        numbers = list(range(start, start + 1000))
        expected += numbers
        table.append(pa.table({"n": numbers, "t": [f"key {number % 7}" for number in numbers]}))
    rows = table.scan().to_arrow().to_pylist()
    for key in range(7):
        assert [r["n"] for r in rows if r["t"] == f"key {key}"] == [n for n in expected if n % 7 == key]


def test_sequence_field_beats_arrival(catalog: Catalog) -> None:
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("at", pa.int32())])
    table = catalog.create_table("shop.s", schema, primary_key=["id"], options={"sequence.field": "at"})
    table.upsert(pa.table({"id": [1, 2, 3], "name": ["new", "b", "c"], "at": [9, 1, None]}, schema=schema))
    table.upsert(pa.table({"id": [1, 2, 3], "name": ["late", "tie", "C"], "at": [5, 1, None]}, schema=schema))
    assert names(table) == {1: "new", 2: "tie", 3: "C"}
    table.delete(pa.table({"id": [1, 2], "at": pa.array([8, 2], pa.int32())}))
    assert names(table) == {1: "new", 3: "C"}
    table.upsert(pa.table({"id": [2], "name": ["too late"], "at": pa.array([1], pa.int32())}))
    assert names(table) == {1: "new", 3: "C"}


def test_rowkind_field_and_ignored_kinds(catalog: Catalog) -> None:
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("op", pa.string())])
    table = catalog.create_table("shop.k", schema, primary_key=["id"], options={"rowkind.field": "op"})
    table.upsert(pa.table({"id": [1, 2, 1], "name": ["a", "b", None], "op": ["+I", "+I", "-D"]}))
    assert names(table) == {2: "b"}
    with pytest.raises(InvalidArgument, match=r"'op' \(rowkind.field\) has None in row 0"):
        table.upsert(pa.table({"id": [1], "name": ["a"], "op": pa.array([None], pa.string())}))
    with pytest.raises(InvalidArgument, match="would contradict it"):
        table.write(pa.table({"id": [1], "name": ["a"], "op": ["+I"], "_row_kind": ["+I"]}))
    table.alter(set={"ignore-delete": True})
    table.upsert(pa.table({"id": [2], "name": [None], "op": ["-D"]}, schema=schema))
    assert names(table) == {2: "b"}
    table.alter(set={"ignore-update-before": "true"}, unset=["ignore-delete"])
    table.upsert(pa.table({"id": [2, 3], "name": ["x", "y"], "op": ["-U", "+U"]}))
    assert names(table) == {2: "b", 3: "y"}
    assert table.options == {"rowkind.field": "op", "ignore-update-before": "true"}


def test_keys_to_delete_need_no_other_column_whatever_its_nullability(catalog: Catalog) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string(), nullable=False)])
    table = catalog.create_table("shop.n", schema, primary_key=["id"])
    table.upsert(pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]}))
    table.delete(pa.table({"id": [1]}))
    table.write(pa.table({"id": [2, 4], "v": [None, "d"], "_row_kind": ["-D", "+I"]}))
    assert table.scan().to_arrow().schema == schema
    assert sorted(table.scan().to_arrow().to_pylist(), key=str) == [{"id": 3, "v": "c"}, {"id": 4, "v": "d"}]
    with pytest.raises(InvalidArgument, match=r"'v' of shop\.n is NOT NULL, but row 1"):
        table.write(pa.table({"id": [2, 5], "v": pa.array([None, None], pa.string()), "_row_kind": ["-D", "+I"]}))
    with pytest.raises(InvalidArgument, match="NOT NULL"):
        table.upsert(pa.table({"id": [7]}))
    with pytest.raises(InvalidArgument, match="NOT NULL"):
        table.delete(pa.table({"id": pa.array([None], pa.int64())}))


def test_values_keep_their_identity(catalog: Catalog) -> None:
    schema = pa.schema(
        [
            ("k", pa.string()),
            ("f", pa.float64()),
            ("s", pa.string()),
            ("b", pa.binary()),
            ("d", pa.decimal128(38, 10)),
            ("l", pa.list_(pa.struct([("x", pa.float32())]))),
        ]
    )
    rows = [
        {"k": "", "f": math.nan, "s": "", "b": b"", "d": Decimal("9" * 28 + "." + "9" * 10), "l": []},
        {"k": "\x00", "f": -0.0, "s": None, "b": None, "d": Decimal("-0.0000000001"), "l": None},
        {"k": "żółć 🙂", "f": math.inf, "s": "\x00\n'\"", "b": b"\x00\xff", "d": None, "l": [{"x": None}, None]},
        {"k": "x" * 10_000, "f": None, "s": "y" * 1_000_000, "b": bytes(256), "d": Decimal(0), "l": [{"x": -0.0}]},
    ]
    data = pa.Table.from_pylist(rows, schema=schema)
    keyed = catalog.create_table("shop.keyed", schema, primary_key=["k"])
    plain = catalog.create_table("shop.plain", schema)
    keyed.upsert(data)
    keyed.upsert(data.slice(1, 2))
    plain.append(data)
    expected = [repr(row) for row in sorted(data.to_pylist(), key=lambda row: str(row["k"]))]
    for table in (keyed, plain):
        found = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: str(row["k"]))
        assert [repr(row) for row in found] == expected


def test_every_key_type_finds_its_row_again(catalog: Catalog) -> None:
    values = {
        "tiny": pa.array([-128, 0, 127], pa.int8()),
        "big": pa.array([-(2**63), 0, 2**63 - 1], pa.int64()),
        "text": pa.array(["", "a\x00b", "żó"]),
        "bytes": pa.array([b"", b"\x00", b"\xff"], pa.binary()),
        "day": pa.array([dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),
        "instant": pa.array([-(10**15), 0, 10**15], pa.timestamp("us", "UTC")),
        "money": pa.array([Decimal("-9.9"), Decimal("0.0"), Decimal("9.9")], pa.decimal128(38, 1)),
        "flag": pa.array([True, False, True]).slice(0, 2),
    }
    for name, keys in values.items():
        schema = pa.schema([("k", keys.type), ("v", pa.int32())])
        table = catalog.create_table(f"shop.by_{name}", schema, primary_key=["k"], options={"bucket": "2"})
        for version in (1, 2):
            table.upsert(pa.table({"k": keys, "v": pa.repeat(pa.scalar(version, pa.int32()), len(keys))}))
        table.delete(pa.table({"k": keys.slice(0, 1)}))
        found = table.scan().to_arrow()
        assert sorted(map(str, found.column("k").to_pylist())) == sorted(map(str, keys.slice(1).to_pylist())), name
        assert set(found.column("v").to_pylist()) == {2}


# Input


def test_whatever_speaks_arrow_may_be_written(catalog: Catalog) -> None:
    table = make_log(catalog)
    arrow = pa.table({"n": [1], "t": ["a"]})
    sources = [
        arrow,
        arrow.to_batches()[0],
        pa.RecordBatchReader.from_batches(arrow.schema, iter(arrow.to_batches())),
        pl.DataFrame({"n": [1], "t": ["a"]}),
        pd.DataFrame({"n": [1], "t": ["a"]}),
        arrow.to_batches(),
        (batch for batch in [arrow, pl.DataFrame({"t": ["a"], "n": [1]})]),
    ]
    for source in sources:
        table.append(source)
    table.append(table.scan(limit=1))
    assert table.scan().to_arrow().group_by(["n", "t"]).aggregate([([], "count_all")]).to_pylist() == [
        {"n": 1, "t": "a", "count_all": 9}
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"n": [1]}, r"pyarrow\.table\(data\)"),
        ([{"n": 1}], "from_pylist"),
        ("rows", "Rows cannot be taken from a str"),
        (5, "Rows cannot be taken from a int"),
        (pa.array([1]), "holds no rows with named columns"),
        (pa.chunked_array([[1]]), "no stream of rows"),
    ],
)
def test_other_input_is_refused_with_the_remedy(catalog: Catalog, data: object, message: str) -> None:
    table = make_log(catalog)
    with pytest.raises(InvalidArgument, match=message):
        table.append(data)
    assert table.snapshots().num_rows == 0


def test_a_mismatch_shows_every_column(catalog: Catalog) -> None:
    table = make_orders(catalog)
    with pytest.raises(InvalidArgument) as caught:
        table.upsert(pa.table({"name": [1], "price": ["x"], "colour": ["red"]}))
    for column in ("id", "name", "price", "colour"):
        assert f"  {column}: expected" in str(caught.value)
    assert caught.value.reason == "SCHEMA_MISMATCH"


# Overwrite: SEMANTICS 7.2


@pytest.fixture
def parts(catalog: Catalog) -> Table:
    schema = pa.schema([("dt", pa.string()), ("hour", pa.int32()), ("n", pa.int64())])
    table = catalog.create_table("shop.parts", schema, partition_by=["dt", "hour"])
    rows = {"dt": ["a", "a", "b", None], "hour": [1, 2, 1, 1], "n": [1, 2, 3, 4]}
    table.append(pa.table(rows, schema=schema))
    return table


def numbers(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow().column("n").to_pylist())


def part_rows(*rows: tuple[str | None, int, int]) -> pa.Table:
    dts, hours, ns = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {"dt": pa.array(dts, pa.string()), "hour": pa.array(hours, pa.int32()), "n": pa.array(ns, pa.int64())}
    )


def test_overwrite_of_the_whole_table(parts: Table) -> None:
    parts.overwrite(part_rows(("z", 1, 9)))
    assert numbers(parts) == [9]
    parts.overwrite(part_rows())
    assert numbers(parts) == []
    assert parts.snapshots().column("kind").to_pylist() == ["APPEND", "OVERWRITE", "OVERWRITE"]
    assert parts.scan(snapshot_id=1).count() == 4


def test_static_overwrite(parts: Table) -> None:
    parts.overwrite(part_rows(("a", 7, 9)), {"dt": "a"})
    assert numbers(parts) == [3, 4, 9]
    parts.overwrite(pa.table({"n": [5]}), {"dt": "b", "hour": 1})
    assert numbers(parts) == [4, 5, 9]
    parts.overwrite(part_rows(), {"dt": None})
    assert numbers(parts) == [5, 9]
    with pytest.raises(InvalidArgument, match="Row 1 has dt='b', but only the partition dt='a'"):
        parts.overwrite(part_rows(("a", 1, 1), ("b", 1, 1)), {"dt": "a"})
    assert numbers(parts) == [5, 9]


def test_dynamic_overwrite(parts: Table) -> None:
    parts.overwrite(part_rows(("a", 1, 10), ("c", 1, 11)), "dynamic")
    assert numbers(parts) == [2, 3, 4, 10, 11]
    assert parts.overwrite(part_rows(), "dynamic").snapshot_id is None
    assert numbers(parts) == [2, 3, 4, 10, 11]


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        ("dinamic", "give a dict"),
        ({}, "names no partition"),
        ({"n": 1}, "'n' is no partition column"),
        ({"hour": "one"}, "hour"),
        ({"hour": object()}, "hour"),
        (["a"], "give a dict"),
    ],
)
def test_wrong_partitions_are_refused(parts: Table, partition: object, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        parts.overwrite(part_rows(), partition)  # type: ignore[arg-type]
    assert numbers(parts) == [1, 2, 3, 4]


def test_overwrite_of_tables_without_partitions(catalog: Catalog) -> None:
    table = make_orders(catalog)
    table.upsert(orders((1, "a", None), (2, "b", None)))
    table.overwrite(orders((3, "c", None), (3, "C", None)))
    assert names(table) == {3: "C"}
    for partition in ("dynamic", {"id": 1}):
        with pytest.raises(InvalidArgument, match="has no partitions"):
            table.overwrite(orders(), partition)  # type: ignore[arg-type]


# Reading


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
    assert table.scan().snapshot_id is None
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
    with pytest.raises(InvalidArgument, match="raw=True"):
        table.changes(0)
    between = table.scan(options={"incremental-between": "1,4"})
    assert between.to_arrow().to_pylist() == [{"id": 2, "name": "b", "price": None}]


def test_changes_of_an_append_table(catalog: Catalog) -> None:
    table = make_log(catalog)
    table.append(pa.table({"n": [1], "t": ["a"]}))
    table.append(pa.table({"n": [2], "t": ["b"]}))
    assert table.changes(1).to_arrow().to_pylist() == [{"n": 2, "t": "b", "_row_kind": "+I", "_snapshot_id": 2}]


# Snapshots, files, handles


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


def test_a_handle_of_a_dropped_table_says_so(catalog: Catalog) -> None:
    table = make_orders(catalog)
    catalog.drop_table("shop.orders")
    make_orders(catalog)
    uses = [
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


def test_large_files_roll_and_small_buffers_make_runs(catalog: Catalog, warehouse: Path) -> None:
    rows = 50_000
    random = np.random.default_rng(3)
    data = pa.table({"n": random.integers(0, 2**60, rows), "t": [f"text {n}" for n in range(rows)]})
    log = make_log(catalog, **{"target-file-size": "64 kb"})
    log.append(data)
    sizes = log.files().column("bytes").to_pylist()
    assert len(sizes) > 5
    assert max(sizes) < 200_000
    assert sorted(log.scan().to_arrow().column("n").to_pylist()) == sorted(data.column("n").to_pylist())
    keyed = catalog.create_table(
        "shop.runs", NUMBERS, primary_key=["n"], options={"write-buffer-size": "256 kb", "bucket": "2"}
    )
    twice = pa.concat_tables([data, data.set_column(1, "t", pa.array(["again"] * rows))])
    keyed.upsert(twice)
    assert keyed.files().num_rows > 4
    assert keyed.scan().count() == len(set(data.column("n").to_pylist()))
    assert keyed.scan(["t"]).to_arrow().column("t").unique().to_pylist() == ["again"]


def test_catalog_and_table_say_what_they_are_and_a_stores_settings_pickle(catalog: Catalog) -> None:
    assert "lakelog catalog of" in repr(catalog)
    assert "inside a transaction" in repr(catalog.transaction().write_to(make_orders(catalog)._info))
    copied = pickle.loads(pickle.dumps(catalog._stores))
    assert copied.open("file:///tmp/x/").location == "file:///tmp/x/"
