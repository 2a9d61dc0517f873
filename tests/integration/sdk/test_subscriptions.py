"""Subscriptions: where they begin, what they show, how they go on and end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from lakelog.errors import Fenced, InvalidArgument, NotFound
from lakelog.reads.streams import follow
from lakelog.reads.streams.feeds import ThreadFeed
from lakelog.reads.streams.subscription import Subscription
from lakelog.sdk.catalog import Catalog

from .shop import make_orders, orders
from .streaming import WAIT_S, is_silent, make_appended, make_history, rows


def test_by_default_the_rows_there_are_then_each_change(catalog: Catalog) -> None:
    table = make_history(catalog)
    with table.subscribe() as stream:
        assert rows(stream, 1) == [(3, "+I", 2, "B")]
        assert is_silent(stream)
        table.upsert(orders((2, "c", None), (3, "d", None)))
        assert rows(stream, 3) == [(4, "-U", 2, "B"), (4, "+U", 2, "c"), (4, "+I", 3, "d")]
        assert stream.position == 3
        assert is_silent(stream)
        assert stream.position == 4
    assert stream.ended
    assert list(stream) == []
    with pytest.raises(InvalidArgument, match=r"The subscription to shop\.orders is closed, so no batch comes"):
        stream.read()


def test_latest_shows_what_comes_next(catalog: Catalog) -> None:
    table = make_history(catalog)
    with table.subscribe("latest") as stream:
        assert is_silent(stream)
        table.upsert(orders((9, "z", None)))
        assert rows(stream, 1) == [(4, "+I", 9, "z")]


def test_latest_of_an_empty_table_shows_everything(catalog: Catalog) -> None:
    table = make_orders(catalog)
    with table.subscribe("latest") as stream:
        table.upsert(orders((1, "a", None)))
        assert rows(stream, 1) == [(1, "+I", 1, "a")]


def test_from_a_snapshot_its_changes_and_on(catalog: Catalog) -> None:
    table = make_history(catalog)
    with table.subscribe("from-snapshot", options={"scan.snapshot-id": 2}) as stream:
        assert rows(stream, 3) == [(2, "-U", 2, "b"), (2, "+U", 2, "B"), (3, "-D", 1, "a")]
    with table.subscribe(options={"scan.snapshot-id": "3"}) as stream:
        assert rows(stream, 1) == [(3, "-D", 1, "a")]
    with table.subscribe("from-snapshot", options={"scan.snapshot-id": "5"}) as stream:
        table.upsert(orders((7, "not yet", None)))
        assert is_silent(stream)
        table.upsert(orders((8, "now", None)))
        assert rows(stream, 1) == [(5, "+I", 8, "now")]


def test_from_a_snapshot_with_its_rows(catalog: Catalog) -> None:
    table = make_history(catalog)
    with table.subscribe("from-snapshot-full", options={"scan.snapshot-id": 2}) as stream:
        assert sorted(rows(stream, 2)) == [(2, "+I", 1, "a"), (2, "+I", 2, "B")]
        assert rows(stream, 1) == [(3, "-D", 1, "a")]
    with pytest.raises(
        NotFound, match=r"Snapshot 4 of shop\..* does not exist: its newest snapshot is 3.*from-snapshot"
    ):
        table.subscribe("from-snapshot-full", options={"scan.snapshot-id": 4})


def test_from_a_time(catalog: Catalog) -> None:
    table = make_history(catalog)
    times = [int(t.timestamp() * 1000) for t in table.snapshots().column("committed_at").to_pylist()]
    for moment in {0, *times, times[1] + 1}:
        first = next((n for n, t in enumerate(times, 1) if t >= moment), None)
        with table.subscribe("from-timestamp", options={"scan.timestamp-millis": moment}) as stream:
            if first is None:
                assert is_silent(stream)
            else:
                assert rows(stream, 1 if first == 3 else 2)[0][0] == first
    with table.subscribe("from-timestamp", options={"scan.timestamp-millis": times[-1] + 1500}) as stream:
        table.upsert(orders((7, "too early", None)))
        assert is_silent(stream)
        time.sleep(1.6)
        table.upsert(orders((8, "now", None)))
        assert rows(stream, 1) == [(5, "+I", 8, "now")]


def test_from_the_creation_time_of_files(catalog: Catalog) -> None:
    table = make_history(catalog)
    time.sleep(0.01)
    table.upsert(orders((5, "new", None)))
    since = int(table.snapshots().column("committed_at").to_pylist()[-1].timestamp() * 1000)
    with table.subscribe("from-file-creation-time", options={"scan.file-creation-time-millis": since}) as stream:
        assert rows(stream, 1) == [(4, "+I", 5, "new")]
        table.upsert(orders((6, "next", None)))
        assert rows(stream, 1) == [(5, "+I", 6, "next")]


def test_an_append_table_shows_its_new_rows(catalog: Catalog) -> None:
    table = make_appended(catalog)
    table.append(orders((1, "a", None)))
    with table.subscribe() as stream:
        assert rows(stream, 1) == [(1, 1, "a")]
        table.append(orders((1, "a", None)))
        assert rows(stream, 1) == [(2, 1, "a")]
        table.overwrite(orders((3, "o", None)))
        table.append(orders((4, "p", None)))
        assert rows(stream, 1) == [(4, 4, "p")]
    with table.subscribe(options={"scan.snapshot-id": 3, "streaming-read-overwrite": "true"}) as stream:
        assert rows(stream, 2) == [(3, 3, "o"), (4, 4, "p")]


def test_it_ends_at_a_watermark(catalog: Catalog) -> None:
    table = make_orders(catalog)
    for number, mark in enumerate((None, 10, 20, 30), 1):
        table.upsert(orders((number, "x", None)), watermark=mark)
    with table.subscribe(options={"scan.snapshot-id": 1, "scan.bounded.watermark": 20}) as stream:
        assert [batch.snapshot_id for batch in stream] == [1, 2, 3]
        assert stream.ended
        assert stream.position == 3
    # The rows there are lie beyond it already.
    with table.subscribe(options={"scan.bounded.watermark": 20}) as stream:
        assert {batch.snapshot_id for batch in stream} == {4}
        assert stream.ended


def test_a_consumer_goes_on_after_what_was_done(catalog: Catalog) -> None:
    table = make_history(catalog)
    start = {"scan.snapshot-id": 1}
    with table.subscribe(consumer_id="etl", options=start) as stream:
        rows(stream, 2)
        # The first snapshot is done only when more is asked for.
        assert table.consumers.list().column("snapshot_id").to_pylist() == [0]
        rows(stream, 2)
        assert table.consumers.list().column("snapshot_id").to_pylist() == [1]
    # What was handed out, but not done, comes again; where to begin does not count any more.
    with table.subscribe("latest", consumer_id="etl") as stream:
        assert stream.position == 1
        assert rows(stream, 3) == [(2, "-U", 2, "b"), (2, "+U", 2, "B"), (3, "-D", 1, "a")]
        assert is_silent(stream)
    with table.subscribe(consumer_id="etl") as stream:
        assert is_silent(stream)
    table.consumers.reset("etl", 2)
    with table.subscribe(consumer_id="etl") as stream:
        assert rows(stream, 1) == [(3, "-D", 1, "a")]
    table.consumers.delete("etl")
    assert table.consumers.list().num_rows == 0


def test_a_consumer_that_began_with_the_latest_goes_on_there(catalog: Catalog) -> None:
    table = make_history(catalog)
    with table.subscribe("latest", consumer_id="etl") as stream:
        assert is_silent(stream)
    table.upsert(orders((9, "z", None)))
    with table.subscribe("latest", consumer_id="etl") as stream:
        assert rows(stream, 1) == [(4, "+I", 9, "z")]


def test_without_auto_commit_the_position_moves_by_commit_only(catalog: Catalog) -> None:
    table = make_history(catalog)
    with table.subscribe(consumer_id="etl", auto_commit=False, options={"scan.snapshot-id": 1}) as stream:
        rows(stream, 4)
        assert table.consumers.list().column("snapshot_id").to_pylist() == [None]
        stream.commit()
        assert table.consumers.list().column("snapshot_id").to_pylist() == [2]
        rows(stream, 1)
    with table.subscribe(consumer_id="etl") as stream:
        assert rows(stream, 1) == [(3, "-D", 1, "a")]


def test_a_consumer_that_began_with_what_came_next_misses_nothing(catalog: Catalog) -> None:
    table = make_history(catalog, **{"snapshot.time-retained": "0 ms", "snapshot.num-retained.min": "1"})
    stream = table.subscribe("latest", consumer_id="etl", auto_commit=False)
    for number in (7, 8):
        table.upsert(orders((number, "x", None)))
    # Nothing was read of it yet.
    assert table.expire_snapshots().first_kept == 3
    assert rows(stream, 1) == [(4, "+I", 7, "x")]
    # It dies before it has committed, and what is the newest is another snapshot by now.
    stream.close()
    with table.subscribe("latest", consumer_id="etl") as stream:
        assert rows(stream, 2) == [(4, "+I", 7, "x"), (5, "+I", 8, "x")]


def test_the_second_reader_of_a_consumer_takes_over(catalog: Catalog) -> None:
    table = make_history(catalog)
    with table.subscribe(consumer_id="etl") as first:
        rows(first, 1)
        with table.subscribe(consumer_id="etl") as second:
            assert rows(second, 1) == [(3, "+I", 2, "B")]
            with pytest.raises(Fenced, match=r"Consumer 'etl' of table .* is read by"):
                first.read(WAIT_S)


def test_who_is_fenced_stays_so(catalog: Catalog) -> None:
    table = make_history(catalog)
    with table.subscribe(consumer_id="etl", options={"scan.snapshot-id": 1}) as first:
        rows(first, 2)
        table.consumers.reset("etl", 0)
        for _ in range(3):
            with pytest.raises(Fenced, match="was reset"):
                first.read(WAIT_S)
        with pytest.raises(Fenced):
            first.commit()


def test_a_reader_that_waits_uses_its_consumer(catalog: Catalog) -> None:
    table = make_history(catalog, **{"consumer.expiration-time": "1 s"})
    with table.subscribe("latest", consumer_id="etl") as stream:
        assert is_silent(stream)
        for _ in range(5):
            assert stream.read(0.4) is None
        assert table.consumers.list().column("id").to_pylist() == ["etl"]
        with table.subscribe("latest", consumer_id="etl"):
            time.sleep(1.0)
            # Without a change it is told, too.
            with pytest.raises(Fenced, match="is read by"):
                stream.read(0.2)


@pytest.mark.parametrize("consumer_id", [None, "c"])
def test_a_dropped_table_ends_it(catalog: Catalog, consumer_id: str | None) -> None:
    table = make_history(catalog)
    with table.subscribe(consumer_id=consumer_id) as stream:
        rows(stream, 1)
        catalog.drop_table(table.name)
        for _ in range(2):
            with pytest.raises(NotFound, match=r"Table shop\..* was dropped, so no change will come any more"):
                stream.read(WAIT_S)
        assert stream.ended


def test_closing_wakes_anyone_who_waits(catalog: Catalog) -> None:
    stream = make_orders(catalog).subscribe()
    closing = threading.Timer(0.3, stream.close)
    closing.start()
    assert list(stream) == []
    closing.join()
    assert "closed" in repr(stream)
    stream.close()


def test_a_slow_reader_holds_only_some_batches(catalog: Catalog) -> None:
    table = make_appended(catalog)
    for number in range(50):
        table.append(orders((number, "x", None)))
    with table.subscribe(options={"scan.snapshot-id": 1}) as stream:
        first = stream.read(WAIT_S)
        assert first is not None
        time.sleep(0.5)
        assert isinstance(stream._feed, ThreadFeed)
        assert stream._feed._box.items.qsize() <= 2
        assert [batch.snapshot_id for batch in take(stream, 49)] == list(range(2, 51))


def take(stream: Subscription, count: int) -> Iterator[Any]:
    for _ in range(count):
        batch = stream.read(WAIT_S)
        assert batch is not None
        yield batch


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scan_mode": "oldest"}, r"'scan\.mode' = 'oldest' is not possible"),
        ({"scan_mode": "incremental"}, "it is a read with an end"),
        ({"scan_mode": "from-snapshot"}, r"'scan\.mode' = 'from-snapshot' needs the option 'scan\.snapshot-id'"),
        (
            {"scan_mode": "latest", "options": {"scan.snapshot-id": 1}},
            r"'scan\.mode' = 'latest' and 'scan\.snapshot-id' contradict each other: that mode takes none",
        ),
        (
            {"scan_mode": "from-timestamp", "options": {"scan.snapshot-id": 1}},
            r"that mode takes 'scan\.timestamp-millis'",
        ),
        (
            {"options": {"scan.snapshot-id": 1, "scan.timestamp-millis": 1}},
            r"'scan\.snapshot-id' and 'scan\.timestamp-millis' both say where to begin",
        ),
        (
            {"scan_mode": "latest", "options": {"scan.mode": "latest"}},
            r"scan_mode= and option 'scan\.mode' say the same",
        ),
        ({"options": {"scan.tag-name": "x"}}, "It is an option of reads"),
        ({"options": {"scan.snapshot-idd": "1"}}, r"Did you mean 'scan\.snapshot-id'"),
        ({"options": {"incremental-between": "1,2"}}, "It is an option of reads"),
        ({"options": {"scan.snapshot-id": "-1"}}, r"'scan\.snapshot-id' = '-1' is not possible"),
        ({"consumer_id": ""}, "consumer-id"),
        ({"consumer_id": 7}, "consumer_id=7 is no text. Give one in quotes, for instance 'reports'."),
        ({"scan_mode": 3}, "scan_mode=3 is no text. Give one of 'default', 'latest-full', 'latest', "),
        ({"scan_mode": "newest"}, "Give one of 'default', 'latest-full', 'latest', "),
        (
            {"options": {"scan.remove-normalize": "true", "streaming-read-overwrite": "true"}},
            "do not tell what an overwrite took away",
        ),
        ({"columns": ["nam"]}, "has no column 'nam'; near it are name"),
        ({"columns": "name"}, r"here perhaps \['name'\]"),
        ({"filter": "nam = 1"}, "nam"),
        ({"filter": "name > 1"}, "name"),
    ],
)
def test_what_cannot_be_is_refused_at_once(catalog: Catalog, arguments: dict[str, Any], message: str) -> None:
    table = make_history(catalog)
    with pytest.raises(InvalidArgument, match=message):
        table.subscribe(**arguments)
    assert table.consumers.list().num_rows == 0


def test_first_rows_are_not_read_as_they_were_written(catalog: Catalog) -> None:
    table = make_orders(catalog, **{"merge-engine": "first-row"})
    message = r"'first-row' rows as they were written are not what becomes of them\. Leave it out"
    with pytest.raises(InvalidArgument, match=rf"^Option 'scan\.remove-normalize' is not possible.*{message}"):
        table.subscribe(options={"scan.remove-normalize": "true"})
    with pytest.raises(InvalidArgument, match=rf"^raw=True is not possible for .*{message}"):
        table.changes(raw=True)


def test_a_time_to_wait_is_not_negative(catalog: Catalog) -> None:
    with make_orders(catalog).subscribe() as stream, pytest.raises(InvalidArgument, match="timeout=-1"):
        stream.read(-1)


def test_a_read_of_no_column_of_an_append_table_still_shows_the_snapshots(catalog: Catalog) -> None:
    table = make_appended(catalog)
    table.append(orders((1, "a", None), (2, "b", None)))
    table.append(orders((3, "c", None)))
    assert table.changes(columns=["_snapshot_id"]).to_arrow().column(0).to_pylist() == [1, 1, 2]
    with table.subscribe(columns=[], options={"scan.snapshot-id": 1}) as stream:
        assert [(batch.snapshot_id, batch.data.num_rows, batch.data.num_columns) for batch in take(stream, 2)] == [
            (1, 2, 0),
            (2, 1, 0),
        ]


@pytest.mark.parametrize("max_rows", [1, 1 << 17])
def test_snapshots_come_whole(catalog: Catalog, max_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All buckets of a snapshot together, also where they are several batches; what shows nothing is passed over."""
    monkeypatch.setattr(follow, "_MAX_ROWS", max_rows)
    table = catalog.create_table("shop.wide", orders().schema, primary_key=["id"], options={"bucket": "8"})
    table.upsert(orders(*((n, "a", None) for n in range(40))))
    table.upsert(orders((7, "a", None)))
    table.upsert(orders(*((n, "b", None) for n in range(40))))
    with table.subscribe("from-snapshot", options={"scan.snapshot-id": 1}) as stream:
        found = list(stream.snapshots(timeout=2))
        assert [(each.table, each.snapshot_id, each.data.num_rows) for each in found] == [
            ("shop.wide", 1, 40),
            ("shop.wide", 3, 80),
        ]
        assert (len(found[0].batches) > 1) is (max_rows == 1)
        assert stream.position == 3
        table.upsert(orders((1, "c", None)))
        assert [each.snapshot_id for each in stream.snapshots(timeout=2)] == [4]
    assert list(stream.snapshots()) == []


def test_a_batch_is_a_snapshot(catalog: Catalog) -> None:
    table = catalog.create_table("shop.wide", orders().schema, primary_key=["id"], options={"bucket": "8"})
    table.upsert(orders(*((n, "a", None) for n in range(40))))
    with table.subscribe() as stream:
        table.upsert(orders(*((n, "b", None) for n in range(30))))
        found = [stream.read(WAIT_S), stream.read(WAIT_S)]
    assert [None if each is None else (each.snapshot_id, each.data.num_rows) for each in found] == [(1, 40), (2, 60)]


def test_a_position_moves_after_whole_snapshots(catalog: Catalog) -> None:
    table = catalog.create_table("shop.wide", orders().schema, primary_key=["id"], options={"bucket": "8"})
    for name in ("a", "b"):
        table.upsert(orders(*((n, name, None) for n in range(40))))
    with table.subscribe("from-snapshot", "me", options={"scan.snapshot-id": 1}) as stream:
        snapshots = stream.snapshots(timeout=WAIT_S)
        assert next(snapshots).snapshot_id == 1
        assert stream.position != 1
        assert next(snapshots).snapshot_id == 2
        assert stream.position == 1
    with table.subscribe(consumer_id="me") as stream:
        again = next(stream.snapshots(timeout=WAIT_S))
        assert (again.snapshot_id, again.data.num_rows) == (2, 80)
