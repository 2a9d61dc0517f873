"""What a stream reader plans and reads: where it begins, how much a batch takes, restarts, errors (semantics 5)."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from lakelog.embedded.stack import EmbeddedStack
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.spark.stream import reader, splits
from tests.integration.spark.spark_tables import MakeTable
from tests.support.random_tables.conditions import draw_condition
from tests.support.random_tables.history import History, sorted_rows
from tests.support.random_tables.keyed_changes import alter_producer
from tests.support.spark.driven_stream import STREAMED, DrivenStream, emitted, flat, put, stream_of

Emitted = tuple[Any, ...]


@pytest.fixture
def keyed(make_table: MakeTable) -> Table:
    """Snapshots: two rows, one changed, one deleted."""
    table = make_table(STREAMED, ("k",), options={"bucket": "2"})
    table.upsert(put((1, "a"), (2, "b")))
    table.upsert(put((2, "B")))
    table.delete(pa.table({"k": [1]}))
    return table


@pytest.fixture
def appended(make_table: MakeTable) -> Table:
    """Five snapshots of two rows each."""
    table = make_table(STREAMED)
    for number in range(5):
        table.append(put((number, "x"), (number, "y")))
    return table


ROWS = [(3, "+I", 2, "B")]
FIRST = [(1, "+I", 1, "a"), (1, "+I", 2, "b")]
SECOND = [(2, "-U", 2, "b"), (2, "+U", 2, "B")]
THIRD = [(3, "-D", 1, "a")]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, ROWS),
        ({"scan.mode": "compacted-full"}, ROWS),
        ({"scan.mode": "latest"}, []),
        ({"scan.snapshot-id": "1"}, FIRST + SECOND + THIRD),
        ({"scan.mode": "from-snapshot", "scan.snapshot-id": "3"}, THIRD),
        ({"scan.mode": "from-snapshot", "scan.snapshot-id": "5"}, []),
        (
            {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2"},
            [(2, "+I", 1, "a"), (2, "+I", 2, "B"), *THIRD],
        ),
        ({"scan.timestamp-millis": "0"}, FIRST + SECOND + THIRD),
        ({"scan.mode": "from-file-creation-time", "scan.file-creation-time-millis": "0"}, ROWS),
        ({"scan.snapshot-id": "1", "scan.remove-normalize": "true"}, [*FIRST, (2, "+I", 2, "B"), (3, "-D", 1, None)]),
    ],
)
def test_modes_and_how_they_go_on(
    stack: EmbeddedStack, keyed: Table, options: dict[str, str], wanted: list[Emitted]
) -> None:
    stream = stream_of(stack, keyed, **options)
    assert flat(stream.run()) == wanted
    assert stream.schema.names == ["k", "v", "_snapshot_id", "_row_kind"]
    if options.get("scan.snapshot-id") == "5":
        keyed.upsert(put((8, "too early")))
        assert flat(stream.run()) == []
        keyed.upsert(put((9, "fifth")))
        assert flat(stream.run()) == [(5, "+I", 9, "fifth")]
        return
    # Where it is wins over where the options say to begin.
    stream.options |= {"scan.mode": "default", "scan.snapshot-id": "1"}
    stream.options.pop("scan.timestamp-millis", None)
    stream.options.pop("scan.file-creation-time-millis", None)
    keyed.upsert(put((1, "again"), (2, "B"), (3, "new")))
    again = [(4, "+I", 1, "again"), (4, "+I", 3, "new")]
    if "scan.remove-normalize" in options:
        again.insert(1, (4, "+I", 2, "B"))
    assert flat(stream.run()) == again
    assert stream.run() == []


def test_a_time_in_the_future_is_waited_for(stack: EmbeddedStack, keyed: Table) -> None:
    stream = stream_of(stack, keyed, scan__timestamp_millis=str(10**14))
    assert flat(stream.run()) == []
    keyed.upsert(put((5, "too early")))
    assert flat(stream.run()) == []


def test_rows_come_before_changes_in_a_batch_of_their_own(stack: EmbeddedStack, keyed: Table) -> None:
    stream = stream_of(stack, keyed, scan__mode="from-snapshot-full", scan__snapshot_id="1")
    assert [emitted(batch) for batch in stream.run()] == [FIRST, [*SECOND, *THIRD]]


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [
        ({}, [10]),
        ({"maxFilesPerTrigger": "1"}, [2, 2, 2, 2, 2]),
        ({"maxFilesPerTrigger": "2"}, [4, 4, 2]),
        ({"maxRowsPerTrigger": "1"}, [2, 2, 2, 2, 2]),
        ({"maxRowsPerTrigger": "7"}, [6, 4]),
        ({"maxBytesPerTrigger": "1"}, [2, 2, 2, 2, 2]),
        ({"maxBytesPerTrigger": "1 gb", "maxRowsPerTrigger": "8"}, [8, 2]),
        ({"maxFilesPerTrigger": "4", "maxRowsPerTrigger": "4"}, [4, 4, 2]),
    ],
)
def test_a_batch_takes_as_many_whole_snapshots_as_the_limits_allow(
    stack: EmbeddedStack, appended: Table, limits: dict[str, str], sizes: list[int]
) -> None:
    stream = stream_of(stack, appended, **{"scan.snapshot-id": "1"}, **limits)
    batches = stream.run()
    assert [len(batch) for batch in batches] == sizes
    assert flat(batches) == sorted((n + 1, n, v) for n in range(5) for v in "xy")


def test_bytes_are_those_of_the_files(stack: EmbeddedStack, appended: Table) -> None:
    sizes = appended.files().column("bytes").to_pylist()
    stream = stream_of(stack, appended, scan__snapshot_id="1", maxBytesPerTrigger=str(2 * max(sizes)))
    assert [len(batch) for batch in stream.run()] == [4, 4, 2]
    stream = stream_of(stack, appended, scan__snapshot_id="1", maxBytesPerTrigger=str(2 * min(sizes) - 1))
    assert [len(batch) for batch in stream.run()] == [2] * 5


def test_a_batch_is_planned_again_as_it_was(
    stack: EmbeddedStack, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "READ_BYTES", 1)
    table = make_table(STREAMED, ("k",), options={"bucket": "4"})
    for number in range(4):
        table.upsert(put(*((k, str(number)) for k in range(20))))
    stream = stream_of(stack, table, scan__snapshot_id="2")
    stream.run()
    before = stream.show_tasks(0)
    assert len(before) == 4
    assert sum(map(len, before)) == 3 * 20 * 2
    for task in before:
        ids = [row["_snapshot_id"] for row in task]
        assert ids == sorted(ids)
    # What happens meanwhile changes nothing, whoever plans.
    table.overwrite(put((1, "o")))
    table.upsert(put((1, "z")))
    stream.start()
    assert stream.show_tasks(0) == before


def test_what_comes_while_it_runs_is_left_to_the_next_run(stack: EmbeddedStack, appended: Table) -> None:
    stream = stream_of(stack, appended, scan__snapshot_id="4", maxFilesPerTrigger="1")
    stream.start()
    assert stream.reader is not None
    stream.reader.prepareForTriggerAvailableNow()
    stream.offsets.append(stream.reader.initialOffset())
    appended.append(put((9, "late")))
    limit = stream.reader.getDefaultReadLimit()
    assert [stream.advance(limit) for _ in range(3)] == [True, True, False]
    assert stream.offsets[-1]["snapshot"] == 5
    assert flat(stream.run()) == [(6, 9, "late")]


def test_an_idle_stream_is_notified_of_the_next_snapshot(stack: EmbeddedStack, appended: Table) -> None:
    stream = stream_of(stack, appended, scan__mode="latest")
    stream.start()
    assert stream.reader is not None
    stream.offsets.append(stream.reader.initialOffset())
    for number in range(2):
        began_s = time.monotonic()
        assert not stream.advance(ReadAllAvailable())
        assert time.monotonic() - began_s > 0.5, "it waits before it says that there is nothing"
        writing = threading.Timer(0.2, appended.append, [put((number, "told"))])
        writing.start()
        began_s = time.monotonic()
        while not stream.advance(ReadAllAvailable()):
            assert time.monotonic() - began_s < 20
        writing.join()
        assert flat([stream.show(number)]) == [(6 + number, number, "told")]
    waiter = stream.reader._waiter
    assert waiter is not None
    assert not waiter.is_over
    stream.reader.stop()
    assert waiter.is_over


@pytest.mark.parametrize("every_s", [30.0, 0.0], ids=["as it is", "control"])
def test_an_idle_stream_calls_the_metastore_rarely(
    stack: EmbeddedStack, appended: Table, monkeypatch: pytest.MonkeyPatch, every_s: float
) -> None:
    monkeypatch.setattr(reader, "_WAIT_S", 0.05)
    monkeypatch.setattr(reader, "_CALL_EVERY_S", every_s)
    calls: list[int] = []
    original = reader.LakelogStreamReader._load_page

    def load(self: Any, table: Any, after: int) -> Any:
        calls.append(after)
        return original(self, table, after)

    stream = stream_of(stack, appended, scan__mode="latest")
    stream.start()
    assert stream.reader is not None
    stream.offsets.append(stream.reader.initialOffset())
    monkeypatch.setattr(reader.LakelogStreamReader, "_load_page", load)
    assert not any(stream.advance(ReadAllAvailable()) for _ in range(10))
    assert len(calls) == (1 if every_s else 10)
    stream.reader.stop()


def test_all_available_means_all(stack: EmbeddedStack, appended: Table) -> None:
    stream = stream_of(stack, appended, scan__snapshot_id="1", maxRowsPerTrigger="1")
    stream.start()
    assert stream.reader is not None
    stream.offsets.append(stream.reader.initialOffset())
    assert stream.advance(ReadAllAvailable())
    assert len(stream.show(0)) == 10
    newest = stream.reader.reportLatestOffset()
    assert newest is not None
    assert newest["snapshot"] == 5


def test_columns_filters_and_metaput(stack: EmbeddedStack, keyed: Table, appended: Table) -> None:
    stream = DrivenStream(
        stack.target,
        keyed.name,
        {
            "scan.snapshot-id": "1",
            "columns": "v",
            "filter": "v = 'B' OR k = 1",
            "metadata-columns": "_commit_timestamp,_row_kind",
        },
    )
    (rows,) = stream.run()
    times = keyed.snapshots().column("committed_at").to_pylist()
    assert stream.schema.names == ["v", "_commit_timestamp", "_row_kind"]
    assert sorted((row["_commit_timestamp"], row["_row_kind"], row["v"]) for row in rows) == [
        (times[0], "+I", "a"),
        (times[1], "+U", "B"),
        (times[2], "-D", "a"),
    ]
    stream = DrivenStream(stack.target, appended.name, {"columns": "v", "metadata-columns": "_row_kind"})
    assert {tuple(row.items()) for row in stream.run()[0]} == {(("v", v), ("_row_kind", "+I")) for v in "xy"}


@pytest.mark.parametrize("key", [("k",), ()])
def test_overwrites_show_nothing_unless_asked(
    stack: EmbeddedStack, make_table: MakeTable, key: tuple[str, ...]
) -> None:
    table = make_table(STREAMED, key, options={"bucket": "2"} if key else {})
    table.append(put((1, "a"), (2, "b")))
    table.overwrite(put((2, "c"), (3, "d")))
    table.append(put((3, "e")))
    quiet = stream_of(stack, table, scan__snapshot_id="1")
    asked = stream_of(stack, table, scan__snapshot_id="1", streaming_read_overwrite="true")
    if not key:
        assert flat(quiet.run()) == [(1, 1, "a"), (1, 2, "b"), (3, 3, "e")]
        assert flat(asked.run()) == [(1, 1, "a"), (1, 2, "b"), (2, 2, "c"), (2, 3, "d"), (3, 3, "e")]
        return
    third = [(3, "-U", 3, "d"), (3, "+U", 3, "e")]
    second = [(2, "-D", 1, "a"), (2, "-U", 2, "b"), (2, "+U", 2, "c"), (2, "+I", 3, "d")]
    assert flat(quiet.run()) == [*FIRST, *third]
    assert flat(asked.run()) == [*FIRST, *second, *third]


@pytest.mark.parametrize("key", [("k",), ()])
@pytest.mark.parametrize("at_first", [True, False])
def test_a_repeated_batch_shows_overwrites_as_it_did_whatever_is_set_now(
    stack: EmbeddedStack, make_table: MakeTable, key: tuple[str, ...], at_first: bool
) -> None:
    options = {"streaming-read-overwrite": str(at_first).lower()}
    table = make_table(STREAMED, key, options=options | ({"bucket": "2"} if key else {}))
    table.append(put((1, "a")))
    table.overwrite(put((2, "b")))
    stream, old = (stream_of(stack, table, scan__snapshot_id="1") for _ in range(2))
    before = stream.run()
    assert len(before) == 1
    assert ((2, "b") in [(row["k"], row["v"]) for row in before[0]]) is at_first
    table.alter(set={"streaming-read-overwrite": str(not at_first).lower()})
    table.overwrite(put((3, "c")))
    stream.start()
    assert [stream.show(0)] == before
    # The next batch is a new one, and shows them as is said now.
    assert [(row["k"], row["v"]) for batch in stream.run() for row in batch] == (
        [] if at_first else [(2, "b"), (3, "c")] if key else [(3, "c")]
    )
    # What the query itself says wins over the table, for new batches.
    stream.options["streaming-read-overwrite"] = str(at_first).lower()
    table.overwrite(put((4, "d")))
    assert bool(flat(stream.run())) is at_first
    stream.options["streaming-read-overwrite"] = str(not at_first).lower()
    stream.start()
    assert bool(stream.show(len(stream.offsets) - 2)) is at_first
    # A checkpoint that says nothing of it was written by an older lakelog: what is said now counts.
    old.run()
    old.offsets = [{k: v for k, v in each.items() if k != "overwrites"} for each in old.offsets]
    shown = old.show(0)
    table.alter(set={"streaming-read-overwrite": str(at_first).lower()})
    old.start()
    assert (len(old.show(0)) > len(shown)) is at_first


def test_a_watermark_ends_it(stack: EmbeddedStack, make_table: MakeTable) -> None:
    table = make_table(STREAMED)
    for number in range(3):
        table.append(put((number, "x")), watermark=number * 100)
    stream = stream_of(stack, table, scan__snapshot_id="1", scan__bounded__watermark="100")
    assert flat(stream.run()) == [(1, 0, "x"), (2, 1, "x")]
    assert stream.run() == []


def test_an_empty_table(stack: EmbeddedStack, make_table: MakeTable) -> None:
    table = make_table(STREAMED, ("k",))
    streams = [stream_of(stack, table), stream_of(stack, table, scan__mode="latest")]
    assert [stream.run() for stream in streams] == [[], []]
    table.upsert(put((1, "a")))
    assert [flat(stream.run()) for stream in streams] == [[(1, "+I", 1, "a")]] * 2


@pytest.mark.parametrize(
    ("seed", "alters"), [(2, False), (3, False), (5, False), (7, False), (8, False), (4, True), (9, True), (14, True)]
)
def test_a_stream_shows_what_the_sdk_shows(
    stack: EmbeddedStack, catalog: Catalog, seed: int, alters: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random tables, options, changelogs and restarts, with buckets apart and together."""
    catalog.create_database("streamed", if_not_exists=True)
    history = History(catalog, f"streamed.t{seed}", seed)
    for number in range(12):
        if alters and number % 3 == 2:
            alter_producer(history)
        history.step()
    random = history.random
    until = len(history.model.snapshots)
    for _ in range(4):
        monkeypatch.setattr(splits, "READ_BYTES", random.choice((1, 1 << 25)))
        first = random.randrange(until) + 1
        names = random.sample([*history.by_name], random.randrange(len(history.by_name)) + 1)
        condition = draw_condition(random, history.columns, history.model.snapshots[-1].rows).sql
        raw = bool(random.randrange(2))
        overwrites = bool(random.randrange(2))
        kind = ["_row_kind"] if history.key else []
        # The table's option tells the SDK, the stream's tells the stream.
        history.table.alter(set={"streaming-read-overwrite": str(overwrites and not raw).lower()})
        found = history.table.changes(
            first - 1, until, columns=[*names, "_snapshot_id", *kind], filter=condition or None, raw=raw
        )
        stream = stream_of(stack, history.table, scan__snapshot_id=str(first))
        stream.options |= {
            "columns": json.dumps(names),
            "filter": condition,
            "scan.remove-normalize": str(raw).lower(),
            "streaming-read-overwrite": str(overwrites and not raw).lower(),
            "maxRowsPerTrigger": str(random.choice((1, 30, 10**6))),
        }
        shown = [row for batch in stream.run() for row in batch]
        wanted = found.to_arrow().to_pylist()
        assert sorted_rows(shown) == sorted_rows(wanted), f"{history!r} from {first}: {stream.options}"
