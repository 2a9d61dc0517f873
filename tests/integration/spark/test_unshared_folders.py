"""What a driver program does when its executors see other folders than it does: nothing is committed or shown."""

from __future__ import annotations

import itertools
import json
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakelog.spark
from lakelog.errors import InvalidArgument
from lakelog.sdk.catalog import Catalog
from lakelog.spark.batch import commit
from lakelog.spark.executor_files import FOLDER_NOT_SHARED
from reader.streams import sinks
from reader.streams.spec import SinkType

_numbers = itertools.count(1)


@pytest.fixture
def table(catalog: Catalog) -> Any:
    catalog.create_database("unshared", if_not_exists=True)
    return catalog.create_table(f"unshared.t{next(_numbers)}", pa.schema([("id", pa.int64())]))


@pytest.fixture
def other_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the files that tasks write is not on this machine."""
    table_write: Any = import_module("lakelog.spark.batch.table_write")
    original = table_write.commit_attempt

    def commit_attempt(metastore: Any, attempt: Any, written: Any, *more: Any) -> Any:
        path = written[0].files[0].path
        (Path(attempt.info.location.removeprefix("file://")) / path).unlink()
        return original(metastore, attempt, written, *more)

    monkeypatch.setattr(table_write, "commit_attempt", commit_attempt)


def test_files_on_another_disk_are_not_committed(spark: SparkSession, table: Any, other_disk: None) -> None:
    with pytest.raises(InvalidArgument, match="Executors wrote 1 files of table") as refused:
        lakelog.spark.write(spark.range(10), table.name)
    assert refused.value.reason == FOLDER_NOT_SHARED
    assert table.snapshots().num_rows == 0
    assert not list(Path(table.location.removeprefix("file://")).rglob("*.parquet")), "the attempt is given up"


def test_control_without_the_check_a_snapshot_names_files_that_no_reader_finds(
    spark: SparkSession, table: Any, other_disk: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "check_files_are_here", lambda *_: None)
    lakelog.spark.write(spark.range(10), table.name)
    assert table.snapshots().num_rows == 1
    with pytest.raises(lakelog.LakelogError):
        table.scan().to_arrow()


@pytest.mark.parametrize("kind", [SinkType.PARQUET, SinkType.JSON])
def test_a_batch_of_files_is_shown_only_with_all_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: SinkType
) -> None:
    checkpoint, folder = tmp_path / "state", tmp_path / "out"
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text(json.dumps({"id": "q"}))
    sink = SimpleNamespace(type=kind, path=folder, row_kind_column=None)
    stream: Any = SimpleNamespace(name="s", sink=sink, checkpoint=checkpoint)
    lease: Any = SimpleNamespace(epoch=1, check=lambda: None)
    files = sinks._FilesSink(stream, lease)
    # As on a cluster.
    monkeypatch.setattr(sinks, "is_on_this_machine", lambda master: False)
    rows = spark.range(0, 1000, numPartitions=2)
    files.write(rows, 0)
    shown = spark.read.format(kind.value).load(str(folder / f"batch={0:012d}"))
    assert shown.count() == 1000
    count_rows = sinks.count_rows
    monkeypatch.setattr(sinks, "count_rows", lambda path: count_rows(path) - 500)
    with pytest.raises(InvalidArgument, match=r"wrote 1000 rows .* of which 500 are there") as refused:
        files.write(rows, 1)
    assert refused.value.reason == FOLDER_NOT_SHARED
    assert sorted(path.name for path in folder.iterdir()) == ["_stream.json", f"batch={0:012d}"]
