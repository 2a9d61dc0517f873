"""What Java learns from Python about a stream: offsets, limits, plans and errors."""

from __future__ import annotations

import base64
import json
import pickle
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxFiles, ReadMaxRows
from pyspark.sql.types import StructType

from lakelog.errors import SnapshotExpired
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.spark.executor.read_changes import ChangeSplit
from lakelog.spark.java.stream_calls import StreamCalls
from lakelog.spark.task_errors import find_lakelog_error
from lakelog.storage.parquet.live_file import LiveFile

SCHEMA = TableSchema(0, assign_field_ids(pa.schema([("k", pa.int64())])), ())
TABLE = TableInfo("0" * 32, TableName("shop", "t"), "file:///w/a%20b/", SCHEMA, {}, 0, 0)


class Reader:
    """A stream whose snapshots are numbers; a batch ends at the newest."""

    def __init__(self, latest: int = 3) -> None:
        self.latest = latest
        self.limit: ReadLimit = ReadAllAvailable()
        self.given: list[ReadLimit] = []
        self.planned: list[tuple[int, int]] = []
        self.is_stopped = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"snapshot": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return self.limit

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        self.given.append(limit)
        return {"snapshot": max(self.latest, start["snapshot"])}

    def reportLatestOffset(self) -> None:  # noqa: N802
        return None

    def reads_natively(self, schema_ids: set[int]) -> bool:
        return schema_ids == {0}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Any]:
        first, last = start["snapshot"], end["snapshot"]
        self.planned.append((first, last))
        if last > 90:
            raise SnapshotExpired("It is gone.", reason="SNAPSHOT_EXPIRED")
        files = tuple(
            LiveFile(n, f"data/f{n}", b"", 0, 0, 1, 0, 10, None, None, 0, n, n, 0, 0)
            for n in range(first + 1, last + 1)
        )
        return [ChangeSplit(TABLE, files, {n: n * 1000 for n in range(first + 1, last + 1)})]

    def stop(self) -> None:
        self.is_stopped = True


@pytest.fixture
def reader() -> Reader:
    return Reader()


def calls_of(reader: Reader, *, is_filtered: bool = False) -> StreamCalls:
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))
    constants = ["_snapshot_id", "_commit_timestamp"]
    return StreamCalls(spark, cast(Any, None), cast(Any, reader), StructType(), constants, is_filtered=is_filtered)


@pytest.fixture
def calls(reader: Reader) -> Iterator[StreamCalls]:
    made = calls_of(reader)
    yield made
    ask(made, "stop")
    assert reader.is_stopped


def ask(calls: StreamCalls, call: str, **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(calls.apply(json.dumps({"call": call, **more})))
    return answer


def at(snapshot: int) -> str:
    return json.dumps({"snapshot": snapshot})


def test_an_offset_is_the_text_of_the_checkpoint(calls: StreamCalls) -> None:
    assert ask(calls, "initialOffset") == {"offset": at(0)}
    assert ask(calls, "latestOffset", start=at(0), all=False) == {"offset": at(3)}
    assert ask(calls, "reportLatestOffset") == {"offset": None}


def test_spark_without_a_limit_gets_all(calls: StreamCalls, reader: Reader) -> None:
    reader.limit = ReadMaxRows(5)
    ask(calls, "latestOffset", start=at(0), all=False)
    ask(calls, "latestOffset", start=at(0), all=True)
    assert reader.given == [ReadMaxRows(5), ReadAllAvailable()]


@pytest.mark.parametrize(
    ("limit", "answer"),
    [
        (ReadAllAvailable(), {"kind": "all", "value": 0}),
        (ReadMaxFiles(7), {"kind": "files", "value": 7}),
        (ReadMaxBytes(8), {"kind": "bytes", "value": 8}),
        (ReadMaxRows(9), {"kind": "rows", "value": 9}),
    ],
)
def test_a_limit_goes_to_spark(calls: StreamCalls, reader: Reader, limit: ReadLimit, answer: dict[str, Any]) -> None:
    reader.limit = limit
    assert ask(calls, "limit") == answer


def test_a_plan_names_files_with_their_constants(calls: StreamCalls) -> None:
    plan = ask(calls, "plan", start=at(0), end=at(1))
    file = {"path": "data/f1", "start": 0, "length": 10, "size": 10, "constants": [1, 1_000_000]}
    assert plan == {"root": "file:///w/a b/", "files": [[file]]}


def test_a_batch_is_planned_ahead_once(calls: StreamCalls, reader: Reader) -> None:
    end = ask(calls, "latestOffset", start=at(0), all=False)["offset"]
    assert len(ask(calls, "plan", start=at(0), end=end)["files"][0]) == 3
    assert reader.planned == [(0, 3)]


def test_a_plan_of_another_batch_is_made_again(calls: StreamCalls, reader: Reader) -> None:
    ask(calls, "latestOffset", start=at(0), all=False)
    assert len(ask(calls, "plan", start=at(0), end=at(2))["files"][0]) == 2
    assert sorted(reader.planned) == [(0, 2), (0, 3)]


def test_nothing_new_is_not_planned(calls: StreamCalls, reader: Reader) -> None:
    assert ask(calls, "latestOffset", start=at(3), all=False) == {"offset": at(3)}
    assert reader.planned == []
    assert ask(calls, "plan", start=at(3), end=at(3))["files"] == []


def test_rows_of_a_condition_are_made_by_python(reader: Reader) -> None:
    calls = calls_of(reader, is_filtered=True)
    (row,) = ask(calls, "plan", start=at(0), end=at(1))["rows"]
    assert pickle.loads(base64.b64decode(row)) == reader.partitions({"snapshot": 0}, {"snapshot": 1})[0]
    ask(calls, "stop")


def test_an_error_of_a_plan_ahead_comes_with_the_plan(calls: StreamCalls, reader: Reader) -> None:
    reader.latest = 99
    end = ask(calls, "latestOffset", start=at(0), all=False)["offset"]
    error = find_lakelog_error(RuntimeError(ask(calls, "plan", start=at(0), end=end)["error"]))
    assert isinstance(error, SnapshotExpired)
    assert (error.message, error.reason) == ("It is gone.", "SNAPSHOT_EXPIRED")


def test_a_query_ends_while_a_plan_is_under_way(reader: Reader) -> None:
    may_end = threading.Event()
    plan = reader.partitions

    def wait(start: dict[str, Any], end: dict[str, Any]) -> list[Any]:
        may_end.wait(60)
        return plan(start, end)

    reader.partitions = wait  # type: ignore[method-assign]
    calls = calls_of(reader)
    ask(calls, "latestOffset", start=at(0), all=False)
    stopping = threading.Thread(target=ask, args=(calls, "stop"))
    stopping.start()
    stopping.join(10)
    has_ended = not stopping.is_alive()
    may_end.set()
    stopping.join()
    assert has_ended
    assert reader.is_stopped


def test_a_fault_of_ours_keeps_its_traceback(
    calls: StreamCalls, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "partitions", None)
    assert "TypeError: 'NoneType' object is not callable" in ask(calls, "plan", start=at(0), end=at(1))["error"]
