"""Subscriptions: where they begin, what they show, how they go on and end."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog
from lakelog.errors import Fenced, InvalidArgument, NotFound
from lakelog.subscription import Subscription
from lakelog.table import Table

from .shop import make_orders, orders

WAIT_S = 20.0


def rows(stream: Subscription, count: int) -> list[tuple[Any, ...]]:
    """The next rows: snapshot, kind (where there is one), id, name."""
    found: list[tuple[Any, ...]] = []
    while len(found) < count:
        batch = stream.read(WAIT_S)
        assert batch is not None, f"only {found} came"
        for row in batch.data.to_pylist():
            kind = [row["_row_kind"]] if "_row_kind" in row else []
            found.append((batch.snapshot_id, *kind, row["id"], row["name"]))
    assert len(found) == count
    return found


def is_silent(stream: Subscription) -> bool:
    return stream.read(0.3) is None and not stream.ended


def make_history(catalog: Catalog, **options: str) -> Table:
    table = make_orders(catalog, **options)
    table.upsert(orders((1, "a", None), (2, "b", None)))
    table.upsert(orders((2, "B", None)))
    table.delete(pa.table({"id": [1]}))
    return table


def make_appended(catalog: Catalog) -> Table:
    catalog.create_database("shop", if_not_exists=True)
    return catalog.create_table("shop.appended", orders((1, "a", None)).schema)


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
    assert stream.read() is None
    assert stream.ended


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


def test_overwrites_that_are_not_shown_are_counted_and_logged(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    table = make_history(catalog)
    for number in range(7):
        table.overwrite(orders((number, "x", None)))
    table.upsert(orders((9, "m", None)))
    with table.subscribe(options={"scan.snapshot-id": 4}) as stream:
        assert rows(stream, 1) == [(11, "+I", 9, "m")]
        assert stream.metrics.snapshots_skipped == 7
    told = " ".join(record.message for record in caplog.records)
    assert f"{table.name}: snapshot" in told
    assert "overwrote rows; what was replaced, and by what, is not shown. 'streaming-read-overwrite' = 'true'" in told
    caplog.clear()
    with table.subscribe(options={"scan.snapshot-id": 9, "streaming-read-overwrite": "true"}) as stream:
        rows(stream, 5)
        assert stream.metrics.snapshots_skipped == 0
    assert not caplog.records
    assert table.changes(9, 10).metrics.snapshots_skipped == 1


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_rows_of_many_small_files_come_in_few_batches(catalog: Catalog, kind: str) -> None:
    table = make_appended(catalog) if kind == "append" else make_orders(catalog, bucket="2")
    for number in range(30):
        write = table.append if kind == "append" else table.upsert
        write(orders(*((n, f"{number}", None) for n in range(number, number + 3))))
    with table.subscribe("latest-full") as stream:
        found = [stream.read(WAIT_S), *iter(lambda: stream.read(0.5), None)]
    assert len(found) <= 2
    assert sum(each.data.num_rows for each in found if each) == (90 if kind == "append" else 32)


def test_overwrites_are_shown_as_a_difference_when_asked_for(catalog: Catalog) -> None:
    table = make_history(catalog)
    table.overwrite(orders((2, "x", None), (4, "n", None)))
    table.upsert(orders((4, "m", None)))
    expected = [(5, "-U", 4, "n"), (5, "+U", 4, "m")]
    with table.subscribe(options={"scan.snapshot-id": 4}) as stream:
        assert rows(stream, 2) == expected
    table.alter(set={"streaming-read-overwrite": "true"})
    with table.subscribe(options={"scan.snapshot-id": 4}) as stream:
        assert rows(stream, 5) == [(4, "-U", 2, "B"), (4, "+U", 2, "x"), (4, "+I", 4, "n"), *expected]
    assert table.changes(3, 4).count() == 3
    with table.subscribe(options={"scan.snapshot-id": 4, "streaming-read-overwrite": "false"}) as stream:
        assert rows(stream, 2) == expected


def test_raw_rows_columns_and_filters(catalog: Catalog) -> None:
    table = make_history(catalog)
    with table.subscribe(options={"scan.snapshot-id": 3, "scan.remove-normalize": "true"}) as stream:
        assert rows(stream, 1) == [(3, "-D", 1, None)]
    with table.subscribe(options={"scan.snapshot-id": 1}, columns=["name"], filter="id = 2") as stream:
        first = stream.read(WAIT_S)
        assert first is not None
        assert first.data.to_pylist() == [{"name": "b", "_row_kind": "+I"}]
        assert first.table == table.name
        second = stream.read(WAIT_S)
        assert second is not None
        assert [row["name"] for row in second.data.to_pylist()] == ["b", "B"]
        assert is_silent(stream)
        assert stream.position == 3


def test_the_kind_comes_last_named_or_not(catalog: Catalog) -> None:
    table = make_history(catalog)
    shown = []
    for columns in (["name"], ["_row_kind", "name"], ["name", "_row_kind"]):
        for mode in ("latest-full", "from-snapshot-full"):
            options = {"scan.snapshot-id": 2} if mode == "from-snapshot-full" else {}
            with table.subscribe(mode, options=options, columns=columns) as stream:
                batch = stream.read(WAIT_S)
                assert batch is not None
                assert batch.data.schema.names == ["name", "_row_kind"]
                shown.append((mode, batch.data.to_pylist()))
    assert shown[:2] == shown[2:4] == shown[4:]
    append = catalog.create_table("shop.plain", pa.schema([("n", pa.int64())]))
    with pytest.raises(InvalidArgument, match="has no column '_row_kind'"):
        append.subscribe(columns=["n", "_row_kind"])


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


def test_a_consumer_goes_on_behind_what_was_done(catalog: Catalog) -> None:
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


def test_a_dropped_table_ends_it(catalog: Catalog) -> None:
    table = make_history(catalog)
    with table.subscribe() as stream:
        rows(stream, 1)
        catalog.drop_table(table.name)
        with pytest.raises(NotFound, match=r"Table shop\..* was dropped, so no change will come any more"):
            stream.read(WAIT_S)


def test_closing_wakes_whoever_waits(catalog: Catalog) -> None:
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
        assert stream._queue.qsize() <= 2
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
        ({"options": {"scan.tag-name": "x"}}, "is not in this version"),
        ({"options": {"scan.snapshot-idd": "1"}}, r"Did you mean 'scan\.snapshot-id'"),
        ({"options": {"incremental-between": "1,2"}}, "It is an option of reads"),
        ({"options": {"scan.snapshot-id": "0"}}, r"'scan\.snapshot-id' = '0' is not possible"),
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


def test_no_column_of_an_append_table_still_tells_the_snapshots(catalog: Catalog) -> None:
    table = make_appended(catalog)
    table.append(orders((1, "a", None), (2, "b", None)))
    table.append(orders((3, "c", None)))
    assert table.changes(columns=["_snapshot_id"]).to_arrow().column(0).to_pylist() == [1, 1, 2]
    with table.subscribe(columns=[], options={"scan.snapshot-id": 1}) as stream:
        assert [(batch.snapshot_id, batch.data.num_rows, batch.data.num_columns) for batch in take(stream, 2)] == [
            (1, 2, 0),
            (2, 1, 0),
        ]


def test_results_saved_with_their_position_have_each_change_once(catalog: Catalog) -> None:
    """The recipe of docs/streams.md, killed at each of its steps."""
    table = make_history(catalog)
    saved: list[tuple[list[tuple[Any, ...]], int]] = []

    def run(dies_at: int) -> None:
        steps = 0

        def step() -> None:
            nonlocal steps
            steps += 1
            if steps == dies_at:
                raise InterruptedError

        if saved:
            table.consumers.reset("etl", saved[-1][1])
        found: list[tuple[Any, ...]] = []
        with table.subscribe(consumer_id="etl", auto_commit=False) as stream:
            while (batch := stream.read(0.5)) is not None:
                found += [(batch.snapshot_id, *row.values()) for row in batch.data.to_pylist()]
                step()
                if stream.is_whole:
                    saved.append((found, batch.snapshot_id))
                    step()
                    stream.commit()
                    found = []
                    step()

    for dies_at in (1, 2, 3, 1, 2, 4, 5, 6, 99):
        table.upsert(orders((10 + dies_at, f"at {dies_at}", None)))
        with contextlib.suppress(InterruptedError):
            run(dies_at)
    rows_of_all = [row for each, _ in saved for row in each]
    state: dict[int, Any] = {}
    for _, number, name, *_, kind in rows_of_all:
        if kind in ("+I", "+U"):
            state[number] = name
        else:
            assert state.pop(number) == name, "each old row is one that was there"
    assert state == {row["id"]: row["name"] for row in table.scan().to_arrow().to_pylist()}
    positions = [at for _, at in saved]
    assert positions == sorted(set(positions))
