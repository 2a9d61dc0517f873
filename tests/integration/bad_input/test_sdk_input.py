"""What the SDK says to names, schemas, rows, filters and handles that cannot be: field, value and remedy."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import lakelog
from lakelog.client.connection.retry import Deadlines, RetryPolicy
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.embedded.ports import free_port
from lakelog.errors import (
    AlreadyExists,
    CommitConflict,
    InvalidArgument,
    LakelogError,
    NotFound,
    ResourceExhausted,
    Unavailable,
)
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.objects.stores import LocationStores
from lakelog.testing import EmbeddedStack
from lakelog.testing.proxy import TcpProxy

from .refusing import KEYED, refused

PARTED = pa.schema([("id", pa.int64()), ("dt", pa.string()), ("v", pa.string())])
MEGABYTES_10 = 10 << 20


@pytest.fixture
def log(catalog: Catalog) -> Table:
    return catalog.create_table("shop.log", pa.schema([("v", pa.string())]))


BAD_NAMES = ["", "a b", "a-b", "1a", "a" * 129, "ż", "a/b", "../x", "a\x00", "a'b", "a\n", "a" * 10_000]


@pytest.mark.parametrize("name", BAD_NAMES, ids=range(len(BAD_NAMES)))
def test_names_that_cannot_be_name_the_rule(catalog: Catalog, name: str) -> None:
    refused(lambda: catalog.create_database(name), "letter")
    refused(lambda: catalog.create_table(f"shop.{name}", KEYED))


def test_a_name_that_is_larger_than_any_request_says_the_limit(catalog: Catalog) -> None:
    refused(lambda: catalog.create_database("a" * 100_000), "CreateDatabase", "65536", kind=ResourceExhausted)


def test_a_name_without_a_database_says_how_to_write_it(catalog: Catalog) -> None:
    refused(lambda: catalog.table("orders"), "orders", "database.table")
    refused(lambda: catalog.table("a.b.c"), "a.b.c", "database.table")


def test_unknown_tables_and_databases_name_the_nearest(catalog: Catalog, orders: Table) -> None:
    refused(lambda: catalog.table("shop.order"), "shop.order", "orders", kind=NotFound)
    refused(lambda: catalog.table("shpo.orders"), "shpo", "shop", kind=NotFound)
    refused(lambda: catalog.tables("shpo"), "shpo", kind=NotFound)
    refused(lambda: catalog.drop_table("shop.order"), "order", kind=NotFound)
    refused(lambda: catalog.create_database("shop"), "shop", kind=AlreadyExists)
    refused(lambda: catalog.create_table("shop.orders", KEYED), "orders", kind=AlreadyExists)
    refused(lambda: catalog.drop_database("shop"), "shop", "cascade")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bukcet": "1"}, ["bukcet", "bucket"]),
        ({"bucket": "many"}, ["bucket", "many"]),
        ({"bucket": "0"}, ["bucket", "0"]),
        ({"bucket": "-7"}, ["bucket", "-7"]),
        ({"bucket": "99999999999999999999"}, ["bucket"]),
        ({"merge-engine": "magic"}, ["merge-engine", "magic", "deduplicate"]),
        ({"sequence.field": "nothing"}, ["sequence.field", "nothing"]),
        ({"rowkind.field": "n"}, ["rowkind.field"]),
        ({"target-file-size": "big"}, ["target-file-size", "big"]),
        ({"": "1"}, []),
        ({"x" * 5000: "1"}, []),
        ({"bucket": "4" * 1_000_000}, ["bucket"]),
        ({"bucket\x00": "1"}, []),
    ],
    ids=range(13),
)
def test_options_that_cannot_be_are_named_with_what_is_possible(
    catalog: Catalog, options: dict[str, str], words: list[str]
) -> None:
    refused(lambda: catalog.create_table("shop.t", KEYED, primary_key=["id"], options=options), *words)


def test_alter_names_what_may_not_change(orders: Table) -> None:
    refused(lambda: orders.alter(set={"bucket": "9"}), "bucket")
    refused(lambda: orders.alter(set={"merge-engine": "first-row"}), "merge-engine")
    refused(lambda: orders.alter(set={"tarket-file-size": "1 mb"}), "target-file-size")


@pytest.mark.parametrize(
    ("schema", "key", "parts", "words"),
    [
        (pa.schema([]), [], [], []),
        (pa.schema([("a", pa.int32()), ("a", pa.int32())]), [], [], ["a"]),
        (pa.schema([("a", pa.int32()), ("A", pa.int32())]), [], [], ["a"]),
        (pa.schema([("", pa.int32())]), [], [], []),
        (pa.schema([("_row_kind", pa.string())]), [], [], ["_row_kind"]),
        (pa.schema([("_snapshot_id", pa.int64())]), [], [], ["_snapshot_id"]),
        (pa.schema([("id", pa.int64())]), ["nothing"], [], ["nothing"]),
        (pa.schema([("id", pa.int64())]), ["id", "id"], [], ["id"]),
        (pa.schema([("id", pa.float64())]), ["id"], [], ["id", "double"]),
        (pa.schema([("id", pa.list_(pa.int64()))]), ["id"], [], ["id", "list"]),
        (PARTED, ["id"], ["dt"], ["dt"]),
        (PARTED, [], ["nothing"], ["nothing"]),
        (pa.schema([("id", pa.int64()), ("x", pa.month_day_nano_interval())]), [], [], ["x"]),
        (pa.schema([("x", pa.dense_union([pa.field("a", pa.int32())]))]), [], [], ["x"]),
        (pa.schema([("x", pa.null())]), [], [], ["x"]),
        (pa.schema([("x", pa.decimal256(70, 2))]), [], [], ["x", "38"]),
        (pa.schema([("a\x00b", pa.int32())]), [], [], []),
    ],
    ids=range(17),
)
def test_schemas_that_cannot_be_name_the_column(
    catalog: Catalog, schema: pa.Schema, key: list[str], parts: list[str], words: list[str]
) -> None:
    refused(lambda: catalog.create_table("shop.t", schema, primary_key=key, partition_by=parts), *words)


def table_of(**columns: Any) -> pa.Table:
    return pa.table(columns)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (table_of(id=[1, None], name=["a", "b"], n=[1, 2]), ["id", "NULL"]),
        (table_of(id=["x"], name=["a"], n=[1]), ["id", "x"]),
        (table_of(id=[1], name=["a"], n=[2**31]), ["n", str(2**31)]),
        (table_of(id=[1], name=["a"], n=[1.5]), ["n", "1.5"]),
        (table_of(id=[1], nam=["a"], n=[1]), ["nam", "add it to the table"]),
        (table_of(id=[Decimal("1.5")], name=["a"], n=[1]), ["id", "1.5"]),
        (table_of(name=["a"]), ["id"]),
        (pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"]), ["id"]),
        (table_of(id=[1], name=["a"], n=[1], _snapshot_id=[1]), ["_snapshot_id"]),
        (table_of(id=pa.array([1]), name=pa.array([b"\xff\xfe"]), n=pa.array([1])), ["name"]),
        ([1, 2, 3], []),
        ("rows", []),
        (None, []),
        ({"id": [1]}, []),
    ],
    ids=range(14),
)
def test_rows_that_do_not_fit_name_column_and_value(orders: Table, data: Any, words: list[str]) -> None:
    refused(lambda: orders.upsert(data), *words)
    assert orders.snapshots().num_rows == 0


def test_row_kinds_where_they_cannot_be(orders: Table, log: Table) -> None:
    refused(lambda: log.write(table_of(v=["a"], _row_kind=["-D"])), "-D", "shop.log")
    refused(lambda: log.delete(table_of(v=["a"])), "shop.log", "primary key")
    refused(lambda: log.upsert(table_of(v=["a"])), "shop.log", "append()")
    refused(lambda: orders.write(table_of(id=[1], name=["a"], n=[1], _row_kind=["+X"])), "+X", "+I")
    refused(lambda: orders.write(table_of(id=[1], name=["a"], n=[1], _row_kind=[None])), "_row_kind")
    refused(lambda: orders.write(table_of(id=[1], name=["a"], n=[1])), "_row_kind")


@pytest.mark.parametrize(
    ("filter_", "words"),
    [
        ("nothing = 1", ["nothing"]),
        ("nam = 'a'", ["nam", "name"]),
        ("id = ", []),
        ("id = 'x", []),
        ("id + name = 1", ["name"]),
        ("id; DROP TABLE x", []),
        ("", []),
        ("(" * 5000 + "id = 1" + ")" * 5000, []),
        ("id = 1 OR " * 100_000 + "id = 1", []),
        ("id IN (SELECT 1)", []),
        ("name = '\x00'" + "x" * 10, []),
    ],
    ids=range(11),
)
def test_filters_that_cannot_be_say_where(orders: Table, filter_: str, words: list[str]) -> None:
    refused(lambda: orders.scan(filter=filter_).to_arrow(), *words)


def test_scans_that_cannot_be(orders: Table) -> None:
    refused(lambda: orders.scan(columns=["nam"]), "nam", "name")
    refused(lambda: orders.scan(columns=["id", "id"]), "id")
    refused(lambda: orders.scan(columns="id"), "id")
    refused(lambda: orders.scan(limit=-1), "limit", "-1")
    refused(lambda: orders.scan(snapshot_id=7), "7", kind=NotFound)
    refused(lambda: orders.scan(snapshot_id=-7), "-7")
    refused(lambda: orders.scan(options={"scan.snapshot-di": "1"}), "scan.snapshot-id")
    refused(lambda: orders.scan(snapshot_id=1, timestamp=1), "snapshot", "timestamp")
    refused(lambda: orders.changes(after=-1, raw=True), "after", "-1")
    refused(lambda: orders.changes(after="1"), "after", "'1'")  # type: ignore[arg-type]
    refused(lambda: orders.changes(until="3"), "until", "'3'")  # type: ignore[arg-type]
    refused(lambda: orders.consumers.reset("etl", "1"), "snapshot_id", "'1'", "0 or more")  # type: ignore[arg-type]


def test_values_of_10_mb_are_rows_like_any_other(orders: Table) -> None:
    big = "x" * MEGABYTES_10
    orders.upsert(table_of(id=[1, 2], name=[big, "small"], n=[1, 2]))
    found = orders.scan(filter="id = 1").to_arrow()
    assert found.column("name").to_pylist() == [big]
    refused(lambda: orders.scan(filter=f"name = '{big}'"), "100000")


def test_keys_and_partitions_of_10_mb_are_fine_or_refused_by_name(catalog: Catalog) -> None:
    big = "k" * MEGABYTES_10
    schema = pa.schema([("k", pa.string()), ("v", pa.int32())])
    by_key = catalog.create_table("shop.by_key", schema, primary_key=["k"])
    try:
        by_key.upsert(table_of(k=[big, "a"], v=pa.array([1, 2], pa.int32())))
    except LakelogError as error:
        assert isinstance(error, (InvalidArgument, ResourceExhausted)), error  # noqa: PT017
        assert "k" in str(error)  # noqa: PT017
    else:
        assert by_key.scan().count() == 2
    parted = catalog.create_table("shop.parted", schema, partition_by=["k"])
    refused(lambda: parted.append(table_of(k=[big], v=pa.array([1], pa.int32()))), "partition")
    assert parted.snapshots().num_rows == 0


def test_5000_columns_work_in_sane_time(catalog: Catalog) -> None:
    began_s = time.monotonic()
    names = [f"column_{n}" for n in range(4999)]
    schema = pa.schema([pa.field("id", pa.int64()), *(pa.field(name, pa.int32()) for name in names)])
    wide = catalog.create_table("shop.wide", schema, primary_key=["id"], options={"bucket": "2"})
    rows = pa.table(
        {"id": list(range(20)), **{name: pa.array([n] * 20, pa.int32()) for n, name in enumerate(names)}}, schema=schema
    )
    wide.upsert(rows)
    wide.upsert(rows.slice(0, 5))
    found = wide.scan().to_arrow()
    assert found.sort_by("id").equals(rows.cast(found.schema))
    assert wide.scan(columns=["column_4998"], filter="column_7 = 7").count() == 20
    assert time.monotonic() - began_s < 60


def test_handles_of_dropped_tables_say_so_and_never_reach_the_new_one(catalog: Catalog, orders: Table) -> None:
    catalog.drop_table("shop.orders")
    rows = table_of(id=[1], name=["a"], n=pa.array([1], pa.int32()))
    refused(lambda: orders.scan(), "shop.orders", kind=NotFound)
    refused(lambda: orders.upsert(rows), "shop.orders", kind=NotFound)
    again = catalog.create_table("shop.orders", KEYED, primary_key=["id"])
    refused(lambda: orders.upsert(rows), "shop.orders", kind=NotFound)
    refused(lambda: orders.scan(), "shop.orders", kind=NotFound)
    refused(lambda: orders.alter(set={"target-file-size": "1 mb"}), "shop.orders", kind=NotFound)
    assert again.snapshots().num_rows == 0


def test_a_table_dropped_during_a_transaction_ends_it_without_orphans(catalog: Catalog, orders: Table) -> None:
    rows = table_of(id=[1], name=["a"], n=pa.array([1], pa.int32()))

    def write() -> None:
        with catalog.transaction() as tx:
            tx.table("shop.orders").upsert(rows)
            catalog.drop_table("shop.orders")

    with pytest.raises((NotFound, CommitConflict)) as caught:
        write()
    assert "dropped" in str(caught.value) or "no longer" in str(caught.value) or "shop.orders" in str(caught.value)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("http://localhost:7450", ["http://localhost:7450", "host:port"]),
        ("localhost", ["localhost", "host:port"]),
        ("localhost:port", ["localhost:port"]),
        ("localhost:0", ["0"]),
        ("localhost:99999", ["99999"]),
        (":7450", [":7450"]),
        ("a b:7450", ["a b"]),
        ("localhost:7450/path", ["localhost:7450/path"]),
    ],
)
def test_targets_that_cannot_be(target: str, words: list[str]) -> None:
    refused(lambda: lakelog.connect(target), *words)


@pytest.fixture
def mute_port() -> Iterator[int]:
    """Somebody who takes connections and talks HTTP of another age."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            client.close()

    threading.Thread(target=answer, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def connect_quickly(target: str) -> Catalog:
    metastore = GrpcMetastore(target, deadlines=Deadlines(connect_s=1.0, call_s=1.0), retries=RetryPolicy(total_s=2.0))
    return Catalog(metastore, LocationStores())


def test_no_one_there_and_somebody_else_there_are_named(mute_port: int) -> None:
    no_one = f"127.0.0.1:{free_port()}"
    with connect_quickly(no_one) as catalog:
        refused(catalog.databases, no_one, kind=Unavailable)
    with connect_quickly(f"127.0.0.1:{mute_port}") as catalog:
        refused(catalog.databases, str(mute_port), kind=Unavailable)


def test_a_deadline_that_passes_is_named(bad_input_stack: EmbeddedStack) -> None:
    once = RetryPolicy(first_backoff_s=1e9, max_backoff_s=1e9)
    with TcpProxy(bad_input_stack.port) as proxy:
        metastore = GrpcMetastore(proxy.target, deadlines=Deadlines(call_s=0.5), retries=once)
        catalog = Catalog(metastore, LocationStores())
        catalog.databases()
        proxy.lose_answers()
        refused(catalog.databases, "deadline of", "Nothing was changed", kind=Unavailable)
        catalog.close()
