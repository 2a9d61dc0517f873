from __future__ import annotations

import contextlib
import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.sdk.catalog import Catalog

from .shop import NUMBERS, make_log, make_orders, names, orders


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


def test_append_to_a_table_with_a_key_is_an_upsert(catalog: Catalog) -> None:
    table = make_orders(catalog)
    table.append(orders((1, "a", None), (2, "b", None)))
    table.append(orders((1, "c", None)))
    assert sorted(table.scan(columns=["id", "name"]).to_arrow().to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "name": "c"},
        {"id": 2, "name": "b"},
    ]


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


def test_one_transaction_adds_and_deletes_where_a_column_is_not_null(catalog: Catalog) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string(), nullable=False)])
    table = catalog.create_table("shop.both", schema, primary_key=["id"])
    table.upsert([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}])
    with catalog.transaction() as transaction:
        joined = transaction.table("shop.both")
        joined.upsert([{"id": 3, "v": "c"}])
        joined.delete([{"id": 1}])
        joined.write([{"id": 2, "v": "d", "_row_kind": "+U"}])
    assert table.scan().to_arrow().sort_by("id").to_pylist() == [{"id": 2, "v": "d"}, {"id": 3, "v": "c"}]


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


def test_a_transaction_with_a_failed_write_is_not_committed(catalog: Catalog) -> None:
    table = make_orders(catalog)
    good = orders((1, "a", None))

    def batches() -> Iterator[pa.RecordBatch]:
        yield from good.to_batches()
        raise ZeroDivisionError

    with pytest.raises(InvalidArgument, match="A write of this transaction failed"), catalog.transaction() as tx:  # noqa: PT012
        with contextlib.suppress(ZeroDivisionError):
            tx.table("shop.orders").upsert(batches())
        tx.table("shop.orders").upsert(good)
    assert table.scan().count() == 0
    assert table.snapshots().num_rows == 0
