"""Streams against their tables, before Spark is started; and what is reported of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument, NotFound
from lakelog.format.tables.table import TableName
from lakelog.serving.logging_setup import set_up_logging
from metastore.testing import InProcessMetastore
from reader.streams.checking import check_stream
from reader.streams.metrics import StreamMetrics
from reader.streams.progress import StreamProgress
from reader.streams.reading import read_stream
from reader.streams.spec import Sink, SinkType, Source, Stream

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])


@pytest.fixture
def metastore(metastore: InProcessMetastore) -> InProcessMetastore:
    metastore.create_database("shop")
    metastore.create_table(TableName("shop", "keyed"), SCHEMA, primary_key=["id"])
    metastore.create_table(TableName("shop", "copy"), SCHEMA, primary_key=["id"])
    metastore.create_table(TableName("shop", "append"), SCHEMA)
    metastore.create_table(TableName("shop", "log"), pa.schema([*SCHEMA, pa.field("op", pa.string())]))
    key = SCHEMA.field("id")
    pair = pa.schema([key, pa.field("v", pa.string(), nullable=False)])
    metastore.create_table(TableName("shop", "pair"), pair, primary_key=["id", "v"])
    metastore.create_table(TableName("shop", "by_v"), pair, primary_key=["v"])
    first, by_value = {"merge-engine": "first-row"}, {"sequence.field": "v"}
    metastore.create_table(TableName("shop", "first"), SCHEMA, primary_key=["id"], options=first)
    metastore.create_table(TableName("shop", "first_copy"), SCHEMA, primary_key=["id"], options=first)
    metastore.create_table(TableName("shop", "sequenced"), SCHEMA, primary_key=["id"], options=by_value)
    metastore.create_table(TableName("shop", "sequenced_copy"), SCHEMA, primary_key=["id"], options=by_value)
    log_by_v = pa.schema([*pair, pa.field("op", pa.string(), nullable=False)])
    metastore.create_table(TableName("shop", "log_by_v"), log_by_v, primary_key=["v", "op"])
    return metastore


def make(source: Source, sink: Sink) -> Stream:
    return Stream(Path("/s.yaml"), "s", None, source, sink, 0.0, Path("/state"))


TABLE = SinkType.TABLE


@pytest.mark.parametrize(
    ("source", "sink"),
    [
        (Source("shop.keyed"), Sink(TABLE, "shop.copy")),
        (Source("shop.keyed"), Sink(TABLE, "shop.log", row_kind_column="op")),
        (Source("shop.append"), Sink(TABLE, "shop.keyed")),
        (Source("shop.keyed", ("id",), "id > 3", {"scan.mode": "latest"}), Sink(TABLE, "shop.copy", fill_missing=True)),
        (Source("shop.keyed"), Sink(TABLE, "shop.pair")),
        (Source("shop.keyed"), Sink(TABLE, "shop.log_by_v", row_kind_column="op")),
        (Source("shop.append"), Sink(TABLE, "shop.by_v")),
        (Source("shop.append"), Sink(TABLE, "shop.first")),
        (Source("shop.append"), Sink(TABLE, "shop.sequenced")),
        (Source("shop.first"), Sink(TABLE, "shop.first_copy")),
        (Source("shop.sequenced"), Sink(TABLE, "shop.copy")),
        (Source("shop.keyed"), Sink(SinkType.CONSOLE)),
        (Source("shop.keyed"), Sink(SinkType.PYTHON, function="json:dumps")),
    ],
)
def test_what_fits(metastore: InProcessMetastore, source: Source, sink: Sink) -> None:
    check_stream(metastore, make(source, sink))


@pytest.mark.parametrize(
    ("source", "sink", "kind", "message"),
    [
        (Source("shop.none"), Sink(SinkType.CONSOLE), NotFound, r"'shop\.none' does not exist"),
        (Source("shop.keyed"), Sink(TABLE, "shop.none"), NotFound, r"'shop\.none' does not exist"),
        (Source("shop.keyed"), Sink(TABLE, "shop.keyed"), InvalidArgument, "is the source itself"),
        (Source("shop.keyed"), Sink(TABLE, "shop.append"), InvalidArgument, "cannot take updates and deletes"),
        (
            Source("shop.keyed"),
            Sink(TABLE, "shop.append", row_kind_column="op"),
            InvalidArgument,
            r"shop\.append has no column op",
        ),
        (Source("shop.append", ("v",)), Sink(TABLE, "shop.copy"), InvalidArgument, "needs the column id"),
        (Source("shop.keyed", ("id",)), Sink(TABLE, "shop.copy"), InvalidArgument, "needs the column v, .*missing_col"),
        (
            Source("shop.append", ("v",)),
            Sink(TABLE, "shop.copy", fill_missing=True),
            InvalidArgument,
            "needs the column id",
        ),
        (
            Source("shop.keyed", ("id",)),
            Sink(TABLE, "shop.copy"),
            InvalidArgument,
            r'needs the column v, which the stream does not have.*sink\.missing_columns: "null"',
        ),
        (
            Source("shop.keyed"),
            Sink(TABLE, "shop.by_v"),
            InvalidArgument,
            r"sink\.table: the primary key \(v\) of shop\.by_v lacks id of the primary key \(id\) of shop\.keyed",
        ),
        (Source("shop.pair"), Sink(TABLE, "shop.copy"), InvalidArgument, r"\(id\) of shop\.copy lacks v of"),
        (Source("shop.first"), Sink(TABLE, "shop.by_v"), InvalidArgument, "lacks id of"),
        (
            Source("shop.keyed", ("id",)),
            Sink(TABLE, "shop.pair"),
            InvalidArgument,
            r"source\.columns: v is left out, which is of the primary key \(id, v\) of shop\.pair",
        ),
        (
            Source("shop.keyed"),
            Sink(TABLE, "shop.sequenced"),
            InvalidArgument,
            r"shop\.sequenced has 'sequence\.field' = 'v', .* `row_kind_column: op`",
        ),
        (Source("shop.sequenced"), Sink(TABLE, "shop.sequenced_copy"), InvalidArgument, r"has 'sequence\.field'"),
        (Source("shop.keyed"), Sink(TABLE, "shop.first"), InvalidArgument, "has 'merge-engine' = 'first-row'"),
        (Source("shop.keyed", ("w",)), Sink(SinkType.CONSOLE), InvalidArgument, "has no column 'w'"),
        (Source("shop.keyed", None, "w = 1"), Sink(SinkType.CONSOLE), InvalidArgument, "w"),
        (
            Source("shop.keyed", None, None, {"scan.mode": "oldest"}),
            Sink(SinkType.CONSOLE),
            InvalidArgument,
            r"'scan\.mode' = 'oldest'",
        ),
        (
            Source("shop.keyed", None, None, {"consumer-id": "x"}),
            Sink(SinkType.CONSOLE),
            InvalidArgument,
            "whose checkpoint keeps its position",
        ),
        (
            Source("shop.keyed"),
            Sink(SinkType.PYTHON, function="no_such_module_:f"),
            InvalidArgument,
            "cannot be imported: No module named 'no_such_module_'",
        ),
        (Source("shop.keyed"), Sink(SinkType.PYTHON, function="json:nothing"), InvalidArgument, "cannot be imported"),
        (Source("shop.keyed"), Sink(SinkType.PYTHON, function="json:__name__"), InvalidArgument, "is no function"),
    ],
)
def test_what_does_not(
    metastore: InProcessMetastore, source: Source, sink: Sink, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        check_stream(metastore, make(source, sink))


def test_all_problems_come_with_the_places_of_their_keys(metastore: InProcessMetastore, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(
        "name: s\n"
        "source:\n"
        "  table: shop.keyed\n"
        "  columns: [v]\n"
        "  filter: w = 1\n"
        "  options:\n"
        "    scan.mode: oldest\n"
        "    scan.modes: latest\n"
        "sink:\n"
        "  type: table\n"
        "  table: shop.pair\n"
        "checkpoint: ./state\n"
    )
    with pytest.raises(InvalidArgument) as raised:
        check_stream(metastore, read_stream(file))
    lines = raised.value.message.splitlines()
    assert [line.split(": ")[:2] for line in lines] == [
        [f"{file}:4:12", "source.columns"],
        [f"{file}:5:11", "source.filter"],
        [f"{file}:7:16", "source.options.scan.mode"],
        [f"{file}:8:17", "source.options.scan.modes"],
    ]
    file.write_text(file.read_text().replace("shop.pair", "shop.gone").replace("shop.keyed", "shop.none"))
    with pytest.raises(NotFound) as missing:
        check_stream(metastore, read_stream(file))
    assert f"{file}:3:10: source.table: " in missing.value.message
    assert f"{file}:7:16: source.options.scan.mode: " in missing.value.message
    assert f"{file}:11:10: sink.table: " in missing.value.message


@pytest.mark.parametrize(
    "options",
    [
        {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"},
        {"scan.snapshot-id": "1", "scan.mode": "from-snapshot-full"},
        {"scan.mode": "from-timestamp", "scan.timestamp-millis": "1"},
        {"scan.mode": "from-file-creation-time", "scan.file-creation-time-millis": "1"},
        {"scan.snapshot-id": "1", "maxRowsPerTrigger": "10", "streaming-read-overwrite": "true"},
    ],
)
def test_options_that_need_each_other_fit(metastore: InProcessMetastore, options: dict[str, str]) -> None:
    check_stream(metastore, make(Source("shop.keyed", None, None, options), Sink(TABLE, "shop.copy")))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scan.mode": "from-snapshot"}, r"source\.options: Option 'scan\.mode' = 'from-snapshot' needs the option"),
        ({"scan.snapshot-id": "1", "scan.timestamp-millis": "1"}, "source.options: .* both say where to begin"),
        ({"scan.mode": "latest", "scan.snapshot-id": "1"}, "source.options: .* that mode takes none"),
    ],
)
def test_options_that_contradict_each_other(
    metastore: InProcessMetastore, options: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message) as raised:
        check_stream(metastore, make(Source("shop.keyed", None, None, options), Sink(TABLE, "shop.copy")))
    assert raised.value.message.count("\n") == 0, "told once"


def reported(batch_id: int, rows: int, snapshot_id: int, table_uuid: str) -> dict[str, Any]:
    offset = json.dumps({"table": table_uuid, "snapshot": snapshot_id, "uuid": ""})
    return {"batchId": batch_id, "numInputRows": rows, "sources": [{"endOffset": offset}]}


@pytest.mark.usefixtures("kept_logs")
def test_progress_is_counted_once_and_goes_on_over_restarts(metastore: InProcessMetastore) -> None:
    table_uuid = metastore.get_table(TableName("shop", "keyed")).table_uuid
    stream = make(Source("shop.keyed"), Sink(TABLE, "shop.copy"))
    for _ in range(2):
        progress = StreamProgress(stream, metastore, StreamMetrics(), set_up_logging("error"))
        grant = metastore.acquire_lease(stream.lease, "test", 10_000)
        progress.lead(grant.epoch)
        progress.running()
        (before,) = metastore.list_pipelines()
        for number in (1, 1, 2):
            snapshot_id = int(before.position.removeprefix("snapshot ") or 0) + number
            progress.see(reported(number, 5, snapshot_id, table_uuid))
        progress.ended(None)
        metastore.release_lease(stream.lease, grant.epoch)
    (found,) = metastore.list_pipelines()
    assert (found.name, found.table, found.state, found.source) == (
        "s",
        "shop.copy",
        "stopped",
        "changes of shop.keyed to table shop.copy",
    )
    assert (found.total_rows, found.position, found.last_batch_id, found.lag) == (20, "snapshot 4", 2, 0)


@pytest.mark.usefixtures("kept_logs")
def test_a_stream_that_has_not_run_shows_that_it_does_not_run(metastore: InProcessMetastore) -> None:
    metrics = StreamMetrics()
    StreamProgress(make(Source("shop.keyed"), Sink(TABLE, "shop.copy")), metastore, metrics, set_up_logging("error"))
    for name in ("running", "failures_total"):
        assert metrics.registry.get_sample_value(f"lakelog_reader_stream_{name}", {"stream": "s"}) == 0


@pytest.mark.usefixtures("kept_logs")
def test_progress_shows_each_batch_of_the_rows_that_a_stream_begins_with(metastore: InProcessMetastore) -> None:
    table_uuid = metastore.get_table(TableName("shop", "keyed")).table_uuid
    stream = make(Source("shop.keyed"), Sink(TABLE, "shop.rows"))
    progress = StreamProgress(stream, metastore, StreamMetrics(), set_up_logging("error"))
    progress.lead(metastore.acquire_lease(stream.lease, "test", 10_000).epoch)
    positions = []
    for number, more in enumerate(({"rows": True, "files-done": 3, "files": 7}, {"rows": True, "files-done": 6}, {})):
        offset = json.dumps({"table": table_uuid, "snapshot": 4, "uuid": ""} | ({"files": 7} if more else {}) | more)
        progress.see({"batchId": number, "numInputRows": 5, "sources": [{"endOffset": offset}]})
        (found,) = (each for each in metastore.list_pipelines() if each.table == "shop.rows")
        positions.append((found.position, found.total_rows))
    assert positions == [
        ("snapshot 4, 3 of 7 files of its rows", 5),
        ("snapshot 4, 6 of 7 files of its rows", 10),
        ("snapshot 4", 15),
    ]
