"""Streams whose rows Spark's own reader takes from files: the same rows, in the same order, as through Python."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from lakelog.errors import FILE_MISSING, HistoryDiverged, InvalidArgument, SnapshotExpired
from lakelog.sdk.catalog import Catalog
from lakelog.spark.java import compiling, stream_calls, table_stream
from lakelog.spark.task_errors import find_lakelog_error, find_unreadable_file
from tests.integration.spark.expiring import expire
from tests.integration.spark.spark_tables import MakeTable
from tests.support.random_tables.history import History, sorted_rows
from tests.support.random_tables.keyed_changes import alter_producer
from tests.support.spark.stream_query import StreamQuery

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """For each batch: `files`, or `rows` that Python makes."""
    found: list[str] = []
    original = stream_calls.StreamCalls._plan

    def plan(self: Any, asked: Any) -> dict[str, Any]:
        made = original(self, asked)
        if made.get("files") or made.get("rows"):
            found.append("rows" if "rows" in made else "files")
        return made

    monkeypatch.setattr(stream_calls.StreamCalls, "_plan", plan)
    return found


@pytest.fixture
def by_python(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Streams as PySpark makes them, until the patch is undone."""
    with monkeypatch.context() as patch:
        patch.setattr(table_stream, "stream_replacer", lambda _: None)
        yield patch


def put(*ks: int, v: int = 0) -> pa.Table:
    return pa.table({"k": list(ks), "v": [v] * len(ks)}, schema=SCHEMA)


@pytest.mark.parametrize(
    ("key", "options", "stream", "wanted"),
    [
        ((), {}, {}, "files"),
        ((), {"bucket": "2", "bucket-key": "k"}, {}, "files"),
        ((), {}, {"filter": "k > 1"}, "rows"),
        (("k",), {"changelog-producer": "lookup"}, {}, "files"),
        (("k",), {"changelog-producer": "input"}, {}, "files"),
        (("k",), {}, {}, "rows"),
        (("k",), {}, {"scan.remove-normalize": "true"}, "rows"),
    ],
)
def test_python_makes_only_rows_that_are_not_in_files(
    spark: SparkSession,
    make_table: MakeTable,
    tmp_path: Path,
    answers: list[str],
    key: tuple[str, ...],
    options: dict[str, str],
    stream: dict[str, str],
    wanted: str,
) -> None:
    table = make_table(SCHEMA, key, options=options)
    write = table.upsert if key else table.append
    write(put(1, 2, 3))
    write(put(2, 4, v=1))
    query = StreamQuery(spark, table.name, tmp_path, scan__snapshot_id="1")
    query.options |= stream
    rows = query.rows()
    assert answers == [wanted]
    condition, raw = stream.get("filter"), "scan.remove-normalize" in stream
    found = table.changes(0, columns=query.load().columns, filter=condition, raw=raw).to_arrow()
    assert sorted_rows(rows) == sorted_rows(found.to_pylist())


def test_a_beginning_is_in_files_where_no_key_is_in_two(
    spark: SparkSession, make_table: MakeTable, tmp_path: Path, answers: list[str]
) -> None:
    table = make_table(SCHEMA, ("k",))
    table.upsert(put(1, 2))
    table.upsert(put(3, 4))
    assert len(StreamQuery(spark, table.name, tmp_path / "apart").rows()) == 4
    table.upsert(put(2, 3, v=1))
    assert len(StreamQuery(spark, table.name, tmp_path / "merged").rows()) == 4
    assert answers == ["files", "rows"]


@pytest.mark.parametrize(("key", "producer"), [((), "none"), (("k",), "lookup")])
def test_rows_of_a_bucket_come_in_the_order_of_their_snapshots(
    spark: SparkSession,
    make_table: MakeTable,
    tmp_path: Path,
    answers: list[str],
    key: tuple[str, ...],
    producer: str,
) -> None:
    options = {"bucket": "3", "changelog-producer": producer} if key else {"bucket": "3", "bucket-key": "k"}
    table = make_table(SCHEMA, key, options=options)
    for number in range(12):
        # The later a file, the larger or smaller it is: Spark itself would sort them by size.
        ks = range(20 * (number + 1 if number % 2 else 12 - number))
        (table.upsert if key else table.append)(put(*ks, v=number))
    query = StreamQuery(
        spark, table.name, tmp_path, scan__snapshot_id="1", metadata_columns="_snapshot_id,_commit_timestamp"
    )
    (rows,) = query.run()
    assert answers == ["files"]
    by_key: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        by_key.setdefault(row["k"], []).append(row)
    for history in by_key.values():
        assert [each["_snapshot_id"] for each in history] == sorted(each["_snapshot_id"] for each in history)
        for before, after in pairwise(history):
            if before.get("_row_kind") == "-U":
                assert (after["_row_kind"], after["_snapshot_id"]) == ("+U", before["_snapshot_id"])
    times = {each["id"]: each["committed_at"] for each in table.snapshots().to_pylist()}
    assert {row["_snapshot_id"]: row["_commit_timestamp"] for row in rows} == times


def test_every_type_and_value_is_as_the_sdk_shows_it(
    spark: SparkSession, make_table: MakeTable, tmp_path: Path, answers: list[str]
) -> None:
    schema = pa.schema(
        [
            ("tiny", pa.int8()),
            ("real", pa.float32()),
            ("double", pa.float64()),
            ("price", pa.decimal128(38, 18)),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("local", pa.timestamp("us")),
            ("raw", pa.binary()),
            ("text", pa.string()),
            ("many", pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]))),
            ("by", pa.map_(pa.string(), pa.float64())),
            ("a.b `c`", pa.bool_()),
        ]
    )
    table = make_table(schema)
    rows = [
        (-128, math.inf, -0.0, Decimal("-0.000000000000000001"), date(1, 1, 1), datetime(1, 1, 1, tzinfo=UTC),
         datetime.fromisoformat("1582-10-10"), b"\x00", "ż\x00", [{"a": None, "b": ""}, None], [("", None)], True),
        (127, -0.0, math.inf, Decimal("9" * 20), date(9999, 12, 31), datetime(9999, 12, 31, tzinfo=UTC),
         datetime.fromisoformat("1900-01-01T00:00:00.000001"), b"", "", [], [], False),
        (None,) * 12,
    ]  # fmt: skip
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    table.append(pa.table(arrays, schema=schema))
    shown = StreamQuery(spark, table.name, tmp_path, scan__snapshot_id="1").rows()
    assert answers == ["files"]
    assert repr(shown) == repr(table.scan().to_arrow().to_pylist())


def test_a_checkpoint_goes_from_python_to_java_and_back(
    spark: SparkSession, make_table: MakeTable, tmp_path: Path, answers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(SCHEMA)
    shown: list[list[int]] = []
    for number in range(6):
        table.append(put(number))
        with monkeypatch.context() as patch:
            if number % 2 == 0:
                patch.setattr(table_stream, "stream_replacer", lambda _: None)
            query = StreamQuery(spark, table.name, tmp_path, scan__snapshot_id="1")
            shown.append([row["k"] for row in query.rows()])
        if number == 3:
            query.forget_last_batch()
    assert shown == [[0], [1], [2], [3], [3, 4], [5]]
    assert answers == ["files"] * 3


def test_two_queries_of_one_frame_are_apart(
    spark: SparkSession, make_table: MakeTable, tmp_path: Path, answers: list[str]
) -> None:
    table = make_table(SCHEMA)
    table.append(put(1))
    frame = StreamQuery(spark, table.name, tmp_path, scan__snapshot_id="1").load()
    shown: dict[str, list[int]] = {"ended": [], "running": []}

    def start(name: str, **trigger: Any) -> Any:
        def take(rows: Any, _: int) -> None:
            shown[name] += [row.k for row in rows.collect()]

        writer = frame.writeStream.foreachBatch(take).trigger(**trigger)
        return writer.option("checkpointLocation", str(tmp_path / name)).start()

    running = start("running", processingTime="0 seconds")
    ended = start("ended", availableNow=True)
    assert ended.awaitTermination(60)
    table.append(put(2))
    running.processAllAvailable()
    running.stop()
    assert shown == {"ended": [1], "running": [1, 2]}


def test_a_frame_joined_with_itself(spark: SparkSession, make_table: MakeTable, tmp_path: Path) -> None:
    table = make_table(SCHEMA, ("k",), options={"changelog-producer": "lookup"})
    table.upsert(put(1, 2))
    frame = StreamQuery(spark, table.name, tmp_path, scan__snapshot_id="1").load()
    both = frame.select("k").unionAll(frame.where("k = 2").select("k"))
    shown: list[int] = []

    def take(rows: Any, _: int) -> None:
        shown.extend(row.k for row in rows.collect())

    writer = both.writeStream.foreachBatch(take).trigger(availableNow=True)
    assert writer.option("checkpointLocation", str(tmp_path)).start().awaitTermination(60)
    assert sorted(shown) == [1, 2, 2]


def test_a_spark_with_other_classes_reads_through_python(
    spark: SparkSession,
    make_table: MakeTable,
    tmp_path: Path,
    answers: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = tmp_path / "TableStream.java"
    source = compiling.SOURCES.joinpath("TableStream.java").read_text()
    other.write_text(source.replace("ParquetScanBuilder", "ParquetScanMaker"))
    monkeypatch.setattr(compiling, "SOURCES", tmp_path)
    monkeypatch.setattr(compiling, "_make_replacer", compiling._make_replacer.__wrapped__)
    table = make_table(SCHEMA)
    table.append(put(1))
    assert StreamQuery(spark, table.name, tmp_path / "state", scan__snapshot_id="1").rows() == [{"k": 1, "v": 0}]
    assert answers == []
    assert "ParquetScanMaker" in caplog.text


def test_a_store_that_spark_cannot_reach_is_read_through_python(
    spark: SparkSession, make_table: MakeTable, tmp_path: Path, answers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_calls, "can_read", lambda *_: False)
    table = make_table(SCHEMA, ("k",), options={"changelog-producer": "lookup"})
    table.upsert(put(1))
    assert StreamQuery(spark, table.name, tmp_path, scan__snapshot_id="1").rows() == [
        {"k": 1, "v": 0, "_row_kind": "+I"}
    ]
    assert answers == ["rows"]


def test_an_error_keeps_its_kind(spark: SparkSession, make_table: MakeTable, tmp_path: Path) -> None:
    table = make_table(SCHEMA)
    for number in range(3):
        table.append(put(number))
    query = StreamQuery(spark, table.name, tmp_path, scan__snapshot_id="1", maxFilesPerTrigger="1")
    query.run()
    for number in range(3):
        table.append(put(number))
    expire(table, 6)
    with pytest.raises(StreamingQueryException) as failed:
        query.run()
    error = find_lakelog_error(failed.value)
    assert isinstance(error, SnapshotExpired)
    assert table.name in error.message


def test_a_table_that_was_made_again_since_the_load_is_refused(
    spark: SparkSession, make_table: MakeTable, catalog: Catalog, tmp_path: Path
) -> None:
    """Its columns may have exchanged their ids, by which Spark reads."""
    table = make_table(SCHEMA)
    query = StreamQuery(spark, table.name, tmp_path, scan__snapshot_id="1")
    loaded = query.load()
    catalog.drop_table(table.name)
    again = catalog.create_table(table.name, schema=pa.schema([SCHEMA.field("v"), SCHEMA.field("k")]))
    again.append(put(1, v=2).select(["v", "k"]))
    query.load = lambda: loaded  # type: ignore[method-assign]
    with pytest.raises(StreamingQueryException) as failed:
        query.run()
    assert isinstance(find_lakelog_error(failed.value), HistoryDiverged)
    assert StreamQuery(spark, table.name, tmp_path, scan__snapshot_id="1").rows() == [{"v": 2, "k": 1}]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("k bigint, x string", "x: expected no such column"),
        ("K bigint", "is 'k' meant"),
        ("k string", "k: expected bigint"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused_when_it_is_loaded(
    spark: SparkSession, make_table: MakeTable, schema: str, message: str
) -> None:
    table = make_table(SCHEMA)
    with pytest.raises(InvalidArgument, match=message):
        spark.readStream.format("lakelog").option("table", table.name).schema(schema).load()


@pytest.mark.parametrize(
    ("damage", "reason"), [("byte", "FILE_DAMAGED"), ("gone", FILE_MISSING), ("cut", "FILE_DAMAGED")]
)
def test_a_damaged_file_ends_the_query_and_is_named(
    spark: SparkSession, make_table: MakeTable, tmp_path: Path, damage: str, reason: str
) -> None:
    table = make_table(SCHEMA)
    table.append(put(*range(1000)))
    path = Path(table.location.removeprefix("file://")) / table.files()["path"][0].as_py()
    data = bytearray(path.read_bytes())
    if damage == "byte":
        # Inside the first page, behind its header.
        data[200] ^= 1
        path.write_bytes(data)
    elif damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    else:
        path.unlink()
    with pytest.raises(StreamingQueryException) as failed:
        StreamQuery(spark, table.name, tmp_path, scan__snapshot_id="1").run()
    error = find_unreadable_file(failed.value)
    assert error is not None
    assert error.reason == reason
    assert path.name in error.message


@pytest.mark.parametrize("seed", [11, 12, 13, 14])
def test_random_tables_show_what_the_sdk_shows(
    spark: SparkSession, catalog: Catalog, tmp_path: Path, answers: list[str], seed: int
) -> None:
    """Tables, options, changelogs and restarts by chance."""
    catalog.create_database("byjava", if_not_exists=True)
    history = History(catalog, f"byjava.t{seed}", seed)
    for number in range(12):
        if number % 3 == 2:
            alter_producer(history)
        history.step()
    random = history.random
    until = len(history.model.snapshots)
    for place in range(3):
        first = random.randrange(until) + 1
        names = random.sample([*history.by_name], random.randrange(len(history.by_name)) + 1)
        kind = ["_row_kind"] if history.key else []
        wanted = history.table.changes(first - 1, until, columns=[*names, "_snapshot_id", *kind]).to_arrow().to_pylist()
        query = StreamQuery(spark, history.table.name, tmp_path / str(place), scan__snapshot_id=str(first))
        query.options |= {
            "columns": json.dumps(names),
            "metadata-columns": "_snapshot_id",
            "maxRowsPerTrigger": str(random.choice((30, 10**6))),
        }
        shown = query.rows()
        assert sorted_rows(shown) == sorted_rows(wanted), f"{history!r} from {first}: {query.options}"
    assert answers


def test_the_control_of_files_is_python(
    spark: SparkSession, make_table: MakeTable, tmp_path: Path, answers: list[str], by_python: pytest.MonkeyPatch
) -> None:
    """Where Java is left out, no batch is planned by it, and the rows are the same."""
    table = make_table(SCHEMA)
    table.append(put(1, 2))
    shown = StreamQuery(spark, table.name, tmp_path / "python", scan__snapshot_id="1").rows()
    assert answers == []
    by_python.undo()
    assert StreamQuery(spark, table.name, tmp_path / "java", scan__snapshot_id="1").rows() == shown
    assert answers == ["files"]
