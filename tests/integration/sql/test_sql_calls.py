"""CALL sys.*: what the SDK does, by statements."""

from __future__ import annotations

from typing import Any

import pytest

from lakelog.errors import AlreadyExists, InvalidArgument, NotFound
from lakelog.sql import SqlSession
from tests.support.tables.compacting import working


@pytest.fixture
def shop(session: SqlSession) -> SqlSession:
    session.execute("CREATE TABLE orders (id BIGINT, v STRING, PRIMARY KEY (id) NOT ENFORCED)")
    session.execute("INSERT INTO orders VALUES (1, 'pen')")
    session.execute("INSERT INTO orders VALUES (1, 'cup'), (2, 'hat')")
    return session


def call(session: SqlSession, sql: str) -> list[dict[str, Any]]:
    result = session.execute(f"CALL {sql}").rows
    assert result is not None
    found: list[dict[str, Any]] = result.to_pylist()
    return found


def test_tags_and_rollback(shop: SqlSession) -> None:
    assert call(shop, "sys.create_tag('shop.orders', 'first', 1)") == [{"tag": "first", "snapshot_id": 1}]
    assert call(shop, "sys.create_tag(table => 'orders', tag => 'now')") == [{"tag": "now", "snapshot_id": 2}]
    assert call(shop, "SYS.Rollback_To('orders', 'first')") == [{"snapshot_id": 3}]
    assert shop.execute("SELECT v FROM orders").rows.to_pylist() == [{"v": "pen"}]  # type: ignore[union-attr]
    assert call(shop, "sys.rollback_to('orders', 1)") == [{"snapshot_id": None}]
    assert call(shop, "sys.rollback_to(table => 'orders', snapshot_id => 2)") == [{"snapshot_id": 4}]
    assert call(shop, "sys.rollback_to(table => 'orders', tag => 'first')") == [{"snapshot_id": 5}]
    assert call(shop, "sys.delete_tag('orders', 'first')") == [{"tag": "first"}]
    assert shop.execute("SELECT name FROM orders$tags").rows.to_pylist() == [{"name": "now"}]  # type: ignore[union-attr]
    with pytest.raises(AlreadyExists, match="has a tag 'now' already"):
        call(shop, "sys.create_tag('orders', 'now')")
    with pytest.raises(NotFound, match="has no tag 'first'; it has 'now'"):
        call(shop, "sys.rollback_to('orders', 'first')")
    for arguments, said in (("", "no state is named"), (", 1, tag => 'now'", "version and tag say the same")):
        with pytest.raises(InvalidArgument, match=rf"sys\.rollback_to: {said}\. Give one of version"):
            call(shop, f"sys.rollback_to('orders'{arguments})")


def test_compactions(shop: SqlSession) -> None:
    (planned,) = call(shop, "sys.compact(table => 'orders', compact_strategy => 'full', dry_run => true)")
    assert (planned["state"], planned["bucket"], planned["files"]) == ("planned", 0, 2)
    with working(shop.catalog.metastore, lambda job: "rewrote it") as taken:
        (done,) = call(shop, "sys.compact('orders')")
    assert (done["state"], done["outcome"]) == ("done", "rewrote it")
    assert [job.payload for job in taken] == [{"strategy": "minor"}]
    shop.execute("CREATE TABLE visits (dt STRING, n BIGINT) PARTITIONED BY (dt)")
    for _ in range(2):
        shop.execute("INSERT INTO visits VALUES ('a', 1), ('b', 2), ('c', 3)")
    asked = "sys.compact(table => 'visits', compact_strategy => 'FULL', wait => false"
    assert [each["partition"] for each in call(shop, f"{asked}, partitions => 'dt=a;dt=b')")] == [
        {"dt": "a"},
        {"dt": "b"},
    ]
    assert [each["partition"] for each in call(shop, f"""{asked}, where => "dt > 'b'")""")] == [{"dt": "c"}]
    with pytest.raises(NotFound, match="dt=z"):
        call(shop, "sys.compact(table => 'visits', partitions => 'dt=z')")
    with pytest.raises(InvalidArgument, match=r"partitions 'dt' is not of the form COLUMN=VALUE.* and NULL, by where"):
        call(shop, "sys.compact(table => 'visits', partitions => 'dt=a;dt')")
    with pytest.raises(InvalidArgument, match=r"compact_strategy is 'whole': give 'minor' .* or 'full'"):
        call(shop, "sys.compact(table => 'visits', compact_strategy => 'whole')")


def test_expiry(shop: SqlSession) -> None:
    for number in range(3):
        shop.execute(f"INSERT INTO orders VALUES ({number}, 'x')")
    call(shop, "sys.create_tag('orders', 'first', 1)")
    asked = "sys.expire_snapshots(table => 'orders', older_than => '2999-01-01', retain_last => 2"
    (reported,) = call(shop, f"{asked}, dry_run => true)")
    assert (reported["first_kept"], reported["snapshots"], reported["tagged"]) == (4, 2, [1])
    assert shop.execute("SELECT count(*) FROM orders$snapshots").rows.to_pylist() == [{"count_star()": 5}]  # type: ignore[union-attr]
    (done,) = call(shop, f"{asked})")
    assert (done["first_kept"], done["snapshots"], done["held_by"]) == (4, 2, [])
    assert call(shop, "sys.rollback_to('orders', 'first')") == [{"snapshot_id": 6}]
    assert shop.execute("SELECT v FROM orders").rows.to_pylist() == [{"v": "pen"}]  # type: ignore[union-attr]
    with pytest.raises(InvalidArgument, match="retain_last=0 is no number of snapshots"):
        call(shop, "sys.expire_snapshots('orders', NULL, 0)")


def test_expiry_of_partitions(shop: SqlSession) -> None:
    shop.execute("CREATE TABLE days (day STRING, n BIGINT) PARTITIONED BY (day)")
    shop.execute("INSERT INTO days VALUES ('2020-01-01', 1), ('2999-01-01', 2)")
    with pytest.raises(InvalidArgument, match=r"does not say when its partitions expire"):
        call(shop, "sys.expire_partitions('days')")
    shop.execute("ALTER TABLE days SET ('partition.expiration-time' = '30 d')")
    (old,) = call(shop, "sys.expire_partitions('days', dry_run => true)")
    assert (old["partition"], old["rows"]) == ({"day": "2020-01-01"}, 1)
    assert call(shop, "sys.expire_partitions('days')") == [old]
    assert shop.execute("SELECT n FROM days").rows.to_pylist() == [{"n": 2}]  # type: ignore[union-attr]
    assert call(shop, "sys.expire_partitions('shop.days', false)") == []


def test_consumers(shop: SqlSession) -> None:
    uuid = shop.catalog.table("shop.orders").uuid
    shop.catalog.metastore.open_consumer("etl", [uuid], "host")
    assert call(shop, "sys.reset_consumer('orders', 'etl', 1)") == [{"consumer_id": "etl", "snapshot_id": 1}]
    assert shop.catalog.table("shop.orders").consumers.list().column("snapshot_id").to_pylist() == [1]
    assert call(shop, "sys.delete_consumer(consumer_id => 'etl', table => 'orders')") == [{"consumer_id": "etl"}]
    with pytest.raises(NotFound, match="has no consumer 'etl'"):
        call(shop, "sys.delete_consumer('orders', 'etl')")


def test_what_cannot_be_called(shop: SqlSession) -> None:
    with pytest.raises(
        InvalidArgument, match=r"no procedure sys\.creat_tag\. Nearest are sys\.create_tag.* There are "
    ):
        call(shop, "sys.creat_tag('orders', 'x')")
    with pytest.raises(InvalidArgument, match=r"no procedure sys\.vacuum\. There are compact, create_tag, delete_con"):
        call(shop, "sys.vacuum('orders')")
    with pytest.raises(NotFound, match=r"Table 'shop\.ordrs' does not exist"):
        call(shop, "sys.create_tag('ordrs', 'x')")
    with pytest.raises(InvalidArgument, match=r"'a\.b\.c' is no table's name"):
        call(shop, "sys.create_tag('a.b.c', 'x')")
    with pytest.raises(InvalidArgument, match=r"sys\.create_tag needs tag\. It takes table, tag, \[snapshot_id\]"):
        call(shop, "sys.create_tag('orders')")
