"""Subscriptions to several tables: transactions whole, one position, one beginning for all."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import Fenced, InvalidArgument, NotFound, SnapshotExpired
from lakelog.reads.streams.feeds import ThreadFeed
from lakelog.reads.streams.subscription import Subscription
from lakelog.sdk.catalog import Catalog
from metastore.testing import InProcessMetastore

from .shop import NUMBERS, make_orders, orders

WAIT_S = 20.0
NAMES = ["shop.orders", "shop.items"]


def items(*numbers: int) -> pa.Table:
    return pa.table({"n": numbers, "t": [f"t{n}" for n in numbers]}, NUMBERS)


def make_shop(catalog: Catalog) -> None:
    make_orders(catalog)
    catalog.create_table("shop.items", NUMBERS)


def commit_both(catalog: Catalog, number: int) -> None:
    with catalog.transaction() as tx:
        tx.table("shop.items").append(items(number, number + 1))
        tx.table("shop.orders").upsert(orders((number, f"o{number}", None)))


def read(stream: Subscription, count: int) -> list[tuple[str, int, int]]:
    """The next batches: table, snapshot, rows."""
    found: list[tuple[str, int, int]] = []
    for _ in range(count):
        batch = stream.read(WAIT_S)
        assert batch is not None, f"only {found} came"
        found.append((batch.table, batch.snapshot_id, batch.data.num_rows))
    return found


def count_rows(stream: Subscription, count: int) -> Counter[tuple[str, int]]:
    """How many of the next rows are of which table and snapshot."""
    found: Counter[tuple[str, int]] = Counter()
    while found.total() < count:
        ((table, snapshot_id, rows),) = read(stream, 1)
        found[table, snapshot_id] += rows
    return found


def is_silent(stream: Subscription) -> bool:
    return stream.read(0.3) is None and not stream.ended


def test_a_transaction_comes_in_one_piece(catalog: Catalog) -> None:
    make_shop(catalog)
    catalog.table("shop.items").append(items(100))
    with catalog.subscribe(NAMES) as stream:
        assert read(stream, 1) == [("shop.items", 1, 1)]
        assert is_silent(stream)
        assert stream.positions == {"shop.orders": 0, "shop.items": 1}
        commit_both(catalog, 1)
        catalog.table("shop.items").append(items(5))
        commit_both(catalog, 2)
        assert read(stream, 2) == [("shop.orders", 1, 1), ("shop.items", 2, 2)]
        assert stream.positions == {"shop.orders": 0, "shop.items": 1}, "it moves when all of it is done"
        assert stream.is_whole
        assert read(stream, 1) == [("shop.items", 3, 1)]
        assert stream.positions == {"shop.orders": 1, "shop.items": 2}
        assert read(stream, 2) == [("shop.orders", 2, 1), ("shop.items", 4, 2)]
        assert is_silent(stream)
        assert stream.positions == {"shop.orders": 2, "shop.items": 4}
        assert repr(stream) == "<subscription to shop.orders, shop.items: snapshots 2, 4 done>"
        with pytest.raises(InvalidArgument, match="has no single position; `positions` tells of each"):
            _ = stream.position


def test_one_table_of_many_is_as_by_itself(catalog: Catalog) -> None:
    make_shop(catalog)
    commit_both(catalog, 1)
    with catalog.subscribe(["shop.orders"], "latest") as stream:
        commit_both(catalog, 2)
        assert read(stream, 1) == [("shop.orders", 2, 1)]
        assert is_silent(stream)
        assert stream.position == 2


def test_columns_and_filters_are_given_by_table(catalog: Catalog) -> None:
    make_shop(catalog)
    commit_both(catalog, 1)
    with catalog.subscribe(NAMES, columns={"shop.items": ["t"]}, filter={"shop.items": "n > 1"}) as stream:
        first, second = stream.read(WAIT_S), stream.read(WAIT_S)
        assert first is not None
        assert first.data.schema.names == ["id", "name", "price", "_row_kind"]
        assert second is not None
        assert second.data.to_pylist() == [{"t": "t2"}]


def test_a_consumer_goes_on_after_whole_commits(catalog: Catalog) -> None:
    make_shop(catalog)
    for number in range(4):
        commit_both(catalog, number)
    with catalog.subscribe(NAMES, "from-timestamp", "etl", options={"scan.timestamp-millis": 0}) as stream:
        assert read(stream, 3)[2] == ("shop.orders", 2, 1)
    for name in NAMES:
        assert catalog.table(name).consumers.list().column("snapshot_id").to_pylist() == [1]
    with catalog.subscribe(NAMES, consumer_id="etl", auto_commit=False) as stream:
        assert stream.positions == {"shop.orders": 1, "shop.items": 1}
        assert read(stream, 2) == [("shop.orders", 2, 1), ("shop.items", 2, 2)]
        assert read(stream, 1) == [("shop.orders", 3, 1)]
        stream.commit()
        assert stream.positions == {"shop.orders": 2, "shop.items": 2}, "of the third commit only a half was seen"
        assert read(stream, 1) == [("shop.items", 3, 2)]
        with catalog.subscribe(reversed_names(), consumer_id="etl") as other:
            assert read(other, 2) == [("shop.items", 3, 2), ("shop.orders", 3, 1)]
            with pytest.raises(Fenced, match="Consumer 'etl'"):
                stream.commit()


def reversed_names() -> list[str]:
    return NAMES[::-1]


def test_a_consumer_may_come_back_with_fewer_tables_but_not_with_new_ones(catalog: Catalog) -> None:
    make_shop(catalog)
    commit_both(catalog, 1)
    with catalog.subscribe(NAMES, consumer_id="etl") as stream:
        read(stream, 2)
        assert is_silent(stream)
    commit_both(catalog, 2)
    with catalog.subscribe(["shop.items"], consumer_id="etl") as stream:
        assert read(stream, 1) == [("shop.items", 2, 2)]
        assert is_silent(stream)
    with catalog.subscribe(NAMES, consumer_id="etl") as stream:
        assert read(stream, 1) == [("shop.orders", 2, 1)], "its other half is done"
        assert is_silent(stream)
    catalog.create_table("shop.more", NUMBERS)
    with pytest.raises(
        InvalidArgument, match=r"has a position in shop\.orders at 2, shop\.items at 2, but none in shop\.more"
    ):
        catalog.subscribe([*NAMES, "shop.more"], consumer_id="etl")
    catalog.table("shop.more").consumers.reset("etl", 0)
    with catalog.subscribe([*NAMES, "shop.more"], consumer_id="etl") as stream:
        assert stream.positions == {"shop.orders": 2, "shop.items": 2, "shop.more": 0}


def test_it_begins_at_a_time_or_with_the_files_since(catalog: Catalog) -> None:
    make_shop(catalog)
    commit_both(catalog, 1)
    time.sleep(0.01)
    commit_both(catalog, 2)
    (since,) = {
        int(catalog.table(name).snapshots().column("committed_at").to_pylist()[-1].timestamp() * 1000) for name in NAMES
    }
    for mode, option in (
        ("from-timestamp", "scan.timestamp-millis"),
        ("from-file-creation-time", "scan.file-creation-time-millis"),
    ):
        with catalog.subscribe(NAMES, mode, options={option: since}) as stream:
            assert read(stream, 2) == [("shop.orders", 2, 1), ("shop.items", 2, 2)]
            assert is_silent(stream)


def test_tables_end_at_their_watermarks(catalog: Catalog) -> None:
    make_shop(catalog)
    for number, mark in enumerate((10, 20, 30)):
        with catalog.transaction(watermark=mark) as tx:
            tx.table("shop.orders").upsert(orders((number, "o", None)))
            tx.table("shop.items").append(items(number))
    options = {"scan.timestamp-millis": 0, "scan.bounded.watermark": 20}
    with catalog.subscribe(NAMES, options=options) as stream:
        assert [batch.snapshot_id for batch in stream] == [1, 1, 2, 2]
        assert stream.ended
    catalog.create_table("shop.more", NUMBERS)
    with catalog.subscribe([*NAMES, "shop.more"], options={"scan.bounded.watermark": 20}) as stream:
        assert count_rows(stream, 6) == {("shop.orders", 3): 3, ("shop.items", 3): 3}
        assert is_silent(stream)
        catalog.table("shop.orders").upsert(orders((9, "beyond", None)))
        catalog.table("shop.more").append(items(1), watermark=20)
        assert read(stream, 1) == [("shop.more", 1, 1)]
        catalog.table("shop.more").append(items(2), watermark=21)
        assert stream.read(WAIT_S) is None
        assert stream.ended


def test_a_dropped_table_ends_it_by_name(catalog: Catalog) -> None:
    make_shop(catalog)
    with catalog.subscribe(NAMES) as stream:
        assert is_silent(stream)
        commit_both(catalog, 1)
        assert len(read(stream, 2)) == 2
        catalog.drop_table("shop.items")
        with pytest.raises(NotFound, match=r"Table shop\.items was dropped, so no change will come any more"):
            stream.read(WAIT_S)


def test_a_reader_that_is_slow_holds_some_batches_of_each_table(catalog: Catalog) -> None:
    make_shop(catalog)
    for number in range(30):
        commit_both(catalog, number)
    with catalog.subscribe(NAMES, options={"scan.timestamp-millis": 0}) as stream:
        read(stream, 1)
        time.sleep(0.3)
        assert isinstance(stream._feed, ThreadFeed)
        assert stream._feed._box.items.qsize() <= 2
        found = [("shop.orders", 1, 1), *read(stream, 59)]
    assert [each[:2] for each in found] == [(name, n) for n in range(1, 31) for name in NAMES]


def test_what_comes_is_whole_also_when_little_of_it_is_kept(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots that find no room are asked for again, page by page."""
    monkeypatch.setattr("lakelog.reads.streams.follow.MAX_KNOWN", 3)
    make_shop(catalog)
    for number in range(10):
        catalog.table("shop.orders").upsert(orders((number, "x", None)))
    for number in range(10):
        commit_both(catalog, number)
        catalog.table("shop.items").append(items(number))
    with catalog.subscribe(NAMES, options={"scan.timestamp-millis": 0}) as stream:
        found = [each[:2] for each in read(stream, 40)]
    assert found[:10] == [("shop.orders", n) for n in range(1, 11)]
    joined = [(("shop.orders", 10 + n), ("shop.items", 2 * n - 1), ("shop.items", 2 * n)) for n in range(1, 11)]
    assert found[10:] == list(itertools.chain(*joined))


@pytest.mark.parametrize("policy", ["fail", "earliest", "full"])
@pytest.mark.parametrize("metastore", ["postgres"], indirect=True)
def test_an_expired_position_in_one_table(
    metastore: InProcessMetastore, catalog: Catalog, request: pytest.FixtureRequest, policy: str
) -> None:
    make_shop(catalog)
    for number in range(3):
        commit_both(catalog, number)
    with catalog.subscribe(NAMES, "from-timestamp", "etl", options={"scan.timestamp-millis": 0}) as stream:
        read(stream, 3)
    expire(request.getfixturevalue("migrated_url"), catalog.table("shop.items").uuid, until=2)
    options = {"scan.expired-position": policy}
    if policy == "fail":
        with pytest.raises(
            SnapshotExpired, match=r"Consumer 'etl' is at snapshot 1 of shop\.items, but snapshots 3 to 3"
        ):
            catalog.subscribe(NAMES, consumer_id="etl", options=options)
        return
    with catalog.subscribe(NAMES, consumer_id="etl", options=options) as stream:
        if policy == "earliest":
            assert read(stream, 3) == [("shop.orders", 2, 1), ("shop.orders", 3, 1), ("shop.items", 3, 2)]
        else:
            assert count_rows(stream, 9) == {("shop.orders", 3): 3, ("shop.items", 3): 6}
        assert is_silent(stream)


def expire(url: str, table_uuid: str, *, until: int) -> None:
    import psycopg

    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        (table_id,) = connection.execute(
            "SELECT table_id FROM table_head WHERE table_uuid = %s", (table_uuid,)
        ).fetchone() or (0,)
        connection.execute("DELETE FROM snapshot WHERE table_id = %s AND snapshot_id <= %s", (table_id, until))
        connection.execute("UPDATE table_head SET earliest_snapshot_id = %s WHERE table_id = %s", (until + 1, table_id))


@pytest.mark.parametrize(
    ("tables", "arguments", "message"),
    [
        ([], {}, r"tables is empty\. Name at least one"),
        (
            "shop.orders",
            {},
            r"tables='shop\.orders' is one text: give a list of table names, here perhaps \['shop\.orders'\]",
        ),
        (["shop.orders", "shop.items", "shop.orders"], {}, r"tables names shop\.orders twice"),
        (["orders"], {}, "orders"),
        (
            NAMES,
            {"scan_mode": "from-snapshot", "options": {"scan.snapshot-id": 1}},
            "'from-snapshot' names a snapshot of one table, and these are 2",
        ),
        (NAMES, {"options": {"scan.snapshot-id": 1}}, "names a snapshot of one table"),
        (NAMES, {"columns": {"shop.other": ["n"]}}, r"columns names 'shop\.other', which is not subscribed to"),
        (NAMES, {"columns": ["n"]}, r"columns=\['n'\] does not say of which table"),
        (NAMES, {"filter": {"shop.items": "id > 1"}}, "id"),
        (NAMES, {"consumer_id": ""}, "consumer-id"),
    ],
)
def test_what_cannot_be_is_refused_at_once(
    catalog: Catalog, tables: Any, arguments: dict[str, Any], message: str
) -> None:
    make_shop(catalog)
    with pytest.raises(InvalidArgument, match=message):
        catalog.subscribe(tables, **arguments)


def test_an_unknown_table_is_named(catalog: Catalog) -> None:
    make_shop(catalog)
    with pytest.raises(NotFound, match=r"'shop\.itemz' does not exist\. The nearest name is 'items'"):
        catalog.subscribe(["shop.orders", "shop.itemz"])


def test_snapshots_of_a_transaction(catalog: Catalog) -> None:
    make_shop(catalog)
    with catalog.subscribe(NAMES, "latest") as stream:
        commit_both(catalog, 1)
        commit_both(catalog, 5)
        found = [(each.table, each.snapshot_id, each.data.num_rows) for each in stream.snapshots(timeout=2)]
    assert sorted(found[:2]) == [("shop.items", 1, 2), ("shop.orders", 1, 1)]
    assert sorted(found[2:]) == [("shop.items", 2, 2), ("shop.orders", 2, 1)]
