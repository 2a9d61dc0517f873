"""What a stream reader plans and reads: where it begins, how much a batch takes, restarts, errors (SEMANTICS.md 5)."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from lakelog.catalog import Catalog
from lakelog.embedded.stack import EmbeddedStack
from lakelog.errors import HistoryDiverged, InvalidArgument, NotFound, SnapshotExpired
from lakelog.spark.stream import splits
from lakelog.table import Table
from metastore.postgres.connections import libpq_url
from tests.integration.spark.conftest import MakeTable
from tests.integration.spark.driven_stream import DrivenStream, Row
from tests.property.tables.conditions import draw_condition
from tests.property.tables.history import History, sorted_rows

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
Told = tuple[Any, ...]


def data(*rows: tuple[int, str | None]) -> pa.Table:
    return pa.table({"k": [k for k, _ in rows], "v": [v for _, v in rows]}, schema=SCHEMA)


def told(rows: list[Row]) -> list[Told]:
    """The rows by snapshot and key, `-U` before `+U`."""
    order = ["-D", "-U", "+U", "+I"]
    rows = sorted(rows, key=lambda row: (row["_snapshot_id"], row["k"], order.index(row.get("_row_kind", "+I"))))
    return [tuple(row[name] for name in ("_snapshot_id", "_row_kind", "k", "v") if name in row) for row in rows]


@pytest.fixture
def keyed(make_table: MakeTable) -> Table:
    """Snapshots: two rows, one changed, one deleted."""
    table = make_table(SCHEMA, ("k",), options={"bucket": "2"})
    table.upsert(data((1, "a"), (2, "b")))
    table.upsert(data((2, "B")))
    table.delete(pa.table({"k": [1]}))
    return table


@pytest.fixture
def appended(make_table: MakeTable) -> Table:
    """Five snapshots of two rows each."""
    table = make_table(SCHEMA)
    for number in range(5):
        table.append(data((number, "x"), (number, "y")))
    return table


def stream_of(stack: EmbeddedStack, table: Table, **options: str) -> DrivenStream:
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return DrivenStream(stack.target, table.name, {"metadata-columns": "_snapshot_id"} | named)


def flat(batches: list[list[Row]]) -> list[Told]:
    return told([row for batch in batches for row in batch])


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
    stack: EmbeddedStack, keyed: Table, options: dict[str, str], wanted: list[Told]
) -> None:
    stream = stream_of(stack, keyed, **options)
    assert flat(stream.run()) == wanted
    assert stream.schema.names == ["k", "v", "_snapshot_id", "_row_kind"]
    if options.get("scan.snapshot-id") == "5":
        keyed.upsert(data((8, "too early")))
        assert flat(stream.run()) == []
        keyed.upsert(data((9, "fifth")))
        assert flat(stream.run()) == [(5, "+I", 9, "fifth")]
        return
    # Where it is wins over where the options say to begin.
    stream.options |= {"scan.mode": "default", "scan.snapshot-id": "1"}
    stream.options.pop("scan.timestamp-millis", None)
    stream.options.pop("scan.file-creation-time-millis", None)
    keyed.upsert(data((1, "again"), (2, "B"), (3, "new")))
    again = [(4, "+I", 1, "again"), (4, "+I", 3, "new")]
    if "scan.remove-normalize" in options:
        again.insert(1, (4, "+I", 2, "B"))
    assert flat(stream.run()) == again
    assert stream.run() == []


def test_a_time_in_the_future_is_waited_for(stack: EmbeddedStack, keyed: Table) -> None:
    stream = stream_of(stack, keyed, scan__timestamp_millis=str(10**14))
    assert flat(stream.run()) == []
    keyed.upsert(data((5, "too early")))
    assert flat(stream.run()) == []


def test_rows_come_before_changes_in_a_batch_of_their_own(stack: EmbeddedStack, keyed: Table) -> None:
    stream = stream_of(stack, keyed, scan__mode="from-snapshot-full", scan__snapshot_id="1")
    assert [told(batch) for batch in stream.run()] == [FIRST, [*SECOND, *THIRD]]


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
    monkeypatch.setattr(splits, "_TOLD_BYTES", 1)
    table = make_table(SCHEMA, ("k",), options={"bucket": "4"})
    for number in range(4):
        table.upsert(data(*((k, str(number)) for k in range(20))))
    stream = stream_of(stack, table, scan__snapshot_id="2")
    stream.run()
    before = stream.show_tasks(0)
    assert len(before) == 4
    assert sum(map(len, before)) == 3 * 20 * 2
    for task in before:
        ids = [row["_snapshot_id"] for row in task]
        assert ids == sorted(ids)
    # What happens meanwhile changes nothing, whoever plans.
    table.overwrite(data((1, "o")))
    table.upsert(data((1, "z")))
    stream.start()
    assert stream.show_tasks(0) == before


def test_what_comes_while_it_runs_is_left_to_the_next_run(stack: EmbeddedStack, appended: Table) -> None:
    stream = stream_of(stack, appended, scan__snapshot_id="4", maxFilesPerTrigger="1")
    stream.start()
    assert stream.reader is not None
    stream.reader.prepareForTriggerAvailableNow()
    stream.offsets.append(stream.reader.initialOffset())
    appended.append(data((9, "late")))
    limit = stream.reader.getDefaultReadLimit()
    assert [stream.advance(limit) for _ in range(3)] == [True, True, False]
    assert stream.offsets[-1]["snapshot"] == 5
    assert flat(stream.run()) == [(6, 9, "late")]


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


def test_columns_filters_and_metadata(stack: EmbeddedStack, keyed: Table, appended: Table) -> None:
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
    table = make_table(SCHEMA, key, options={"bucket": "2"} if key else {})
    table.append(data((1, "a"), (2, "b")))
    table.overwrite(data((2, "c"), (3, "d")))
    table.append(data((3, "e")))
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


def test_a_watermark_ends_it(stack: EmbeddedStack, make_table: MakeTable) -> None:
    table = make_table(SCHEMA)
    for number in range(3):
        table.append(data((number, "x")), watermark=number * 100)
    stream = stream_of(stack, table, scan__snapshot_id="1", scan__bounded__watermark="100")
    assert flat(stream.run()) == [(1, 0, "x"), (2, 1, "x")]
    assert stream.run() == []


def test_an_empty_table(stack: EmbeddedStack, make_table: MakeTable) -> None:
    table = make_table(SCHEMA, ("k",))
    streams = [stream_of(stack, table), stream_of(stack, table, scan__mode="latest")]
    assert [stream.run() for stream in streams] == [[], []]
    table.upsert(data((1, "a")))
    assert [flat(stream.run()) for stream in streams] == [[(1, "+I", 1, "a")]] * 2


def test_a_checkpoint_of_another_table(stack: EmbeddedStack, keyed: Table, appended: Table, catalog: Catalog) -> None:
    stream = stream_of(stack, keyed)
    stream.run()
    stream.table = appended.name
    with pytest.raises(HistoryDiverged, match=rf"The checkpoint is of the table {keyed.uuid}, but {appended.name} is"):
        stream.run()
    stream.table = keyed.name
    catalog.drop_table(keyed.name)
    with pytest.raises(NotFound, match=keyed.name):
        stream.run()
    again = catalog.create_table(keyed.name, schema=SCHEMA, primary_key=["k"])
    again.upsert(data((1, "other")))
    with pytest.raises(HistoryDiverged, match=r"one that was made after the old one had been dropped.*new checkpoint"):
        stream.run()


def test_a_table_dropped_while_it_runs(stack: EmbeddedStack, keyed: Table, catalog: Catalog) -> None:
    stream = stream_of(stack, keyed)
    stream.run()
    catalog.drop_table(keyed.name)
    catalog.create_table(keyed.name, schema=SCHEMA, primary_key=["k"])
    with pytest.raises(NotFound, match="was dropped, so no change will come any more"):
        stream.advance(ReadAllAvailable())


@pytest.mark.parametrize("change", [{"snapshot": 7}, {"uuid": "0" * 32}])
def test_another_history(stack: EmbeddedStack, keyed: Table, change: dict[str, Any]) -> None:
    stream = stream_of(stack, keyed)
    stream.run()
    stream.offsets[-1] |= change
    with pytest.raises(HistoryDiverged, match=r"The checkpoint knows snapshot \d of .* restored to an earlier"):
        stream.run()
    # So does a batch that was planned before the restart.
    stream.offsets.insert(-1, {"table": keyed.uuid, "snapshot": 2, "uuid": ""})
    with pytest.raises(HistoryDiverged, match="restored to an earlier state"):
        stream.show(len(stream.offsets) - 2)


def test_a_checkpoint_of_another_source(stack: EmbeddedStack, keyed: Table) -> None:
    stream = stream_of(stack, keyed)
    stream.offsets.append({"topic-0": {"0": 5}})
    with pytest.raises(InvalidArgument, match=r"The checkpoint is not one of a lakelog table: its offset is"):
        stream.run()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scan.mode": "oldest"}, r"'scan\.mode' = 'oldest' is not possible"),
        ({"scan.mode": "incremental"}, "it is a read with an end"),
        ({"scan.mode": "from-snapshot"}, r"needs the option 'scan\.snapshot-id'"),
        ({"scan.mode": "latest", "scan.snapshot-id": "1"}, "contradict each other: that mode takes none"),
        ({"scan.snapshot-id": "1", "scan.timestamp-millis": "1"}, "both say where to begin"),
        ({"scan.snapshot-idd": "1"}, r"Did you mean 'scan\.snapshot-id'"),
        ({"incremental-between": "1,2"}, "It is an option of reads"),
        ({"consumer-id": "etl"}, "whose checkpoint keeps its position"),
        ({"columns": "w"}, "has no column 'w'"),
        ({"filter": "w = 1"}, "w"),
        ({"filter": "k > "}, "filter"),
        ({"metadata-columns": "_rowkind"}, "names '_rowkind', which is none of the metadata columns"),
        ({"maxFilesPerTrigger": "0"}, "'maxFilesPerTrigger' = '0' is not possible"),
        ({"maxBytesPerTrigger": "much"}, "Give a size such as '128 mb'"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_loaded(
    stack: EmbeddedStack, keyed: Table, options: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        DrivenStream(stack.target, keyed.name, options).start()


def test_a_snapshot_that_is_not_there_yet(stack: EmbeddedStack, keyed: Table) -> None:
    stream = stream_of(stack, keyed, scan__mode="from-snapshot-full", scan__snapshot_id="9")
    with pytest.raises(NotFound, match=r"Snapshot 9 of .* does not exist: its newest snapshot is 3"):
        stream.run()


def expire(stack: EmbeddedStack, table: Table, earliest: int) -> None:
    """Forgets the snapshots before one, as an expiry does."""
    with psycopg.connect(libpq_url(stack.database_url), autocommit=True) as connection:
        found = connection.execute("SELECT table_id FROM table_head WHERE table_uuid = %s", [table.uuid]).fetchone()
        assert found is not None
        connection.execute("UPDATE table_head SET earliest_snapshot_id = %s WHERE table_id = %s", [earliest, found[0]])
        connection.execute("DELETE FROM snapshot WHERE snapshot_id < %s AND table_id = %s", [earliest, found[0]])


def test_a_checkpoint_whose_next_change_is_no_longer_kept(stack: EmbeddedStack, appended: Table) -> None:
    first = stream_of(stack, appended, scan__snapshot_id="1", maxFilesPerTrigger="1")
    first.start()
    assert first.reader is not None
    first.offsets.append(first.reader.initialOffset())
    assert first.advance(first.reader.getDefaultReadLimit())
    expire(stack, appended, 4)
    with pytest.raises(
        SnapshotExpired,
        match=rf"The checkpoint is at snapshot 1 of {appended.name}, but snapshots 4 to 5 are all that is kept\. "
        r"Begin with a new checkpoint, or give the option 'scan\.expired-position' = 'earliest' or 'full'",
    ):
        first.run()
    with pytest.raises(SnapshotExpired, match="The checkpoint is at snapshot 0 of"):
        first.show(0)
    for policy, wanted in {
        "earliest": [(4, 3, "x"), (4, 3, "y"), (5, 4, "x"), (5, 4, "y")],
        "full": sorted((5, n, v) for n in range(5) for v in "xy"),
    }.items():
        stream = stream_of(stack, appended, scan__expired_position=policy)
        stream.offsets = list(first.offsets)
        assert flat(stream.run()) == wanted
        assert stream.run() == []
        # The jump itself shows nothing, also when it is planned again.
        assert stream.offsets[2]["jump"] is True
        assert stream.show(1) == []


@pytest.mark.parametrize("seed", [2, 3, 5, 7, 8])
def test_a_stream_shows_what_the_sdk_shows(
    stack: EmbeddedStack, catalog: Catalog, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random tables, options and restarts, with buckets apart and together."""
    catalog.create_database("streamed", if_not_exists=True)
    history = History(catalog, f"streamed.t{seed}", seed)
    for _ in range(12):
        history.step()
    random = history.random
    until = len(history.model.snapshots)
    for _ in range(4):
        monkeypatch.setattr(splits, "_TOLD_BYTES", random.choice((1, 1 << 25)))
        monkeypatch.setattr(splits, "_READ_BYTES", random.choice((1, 1 << 25)))
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
