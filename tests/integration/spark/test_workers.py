"""Python workers of a session that lakelog made."""

from __future__ import annotations

import subprocess
import sys
import zipimport
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def look_around(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a worker has imported, and from where."""
    import pyspark

    archives = sum(isinstance(each, zipimport.zipimporter) for each in sys.path_importer_cache.values())
    for _ in batches:
        yield pa.RecordBatch.from_pylist([{"pyspark": pyspark.__file__, "archives": archives}])


def test_workers_import_nothing_from_archives(spark: SparkSession) -> None:
    """They would cost each worker half a second, and each task 100 ms."""
    (found,) = spark.range(0, 1, 1, 1).mapInArrow(look_around, "pyspark string, archives bigint").collect()
    assert ".zip" not in found.pyspark
    assert found.archives == 0


def test_functions_of_pandas_give_what_they_give_in_any_spark(spark: SparkSession) -> None:
    """Where pyarrow knows no pandas, NaT is an error, and NaN a value."""
    pytest.importorskip("pandas")

    def halve(frames: Iterator[Any]) -> Iterator[Any]:
        import pandas as pd

        for frame in frames:
            ids = frame["id"]
            yield pd.DataFrame({"half": (ids / 2).where(ids > 0), "at": pd.to_datetime(ids, unit="s").where(ids > 0)})

    def look(frames: Iterator[Any]) -> Iterator[Any]:
        import pandas as pd

        for _ in frames:
            found = pa.Array.from_pandas(pd.Series([pd.Timestamp("2020-01-01"), pd.NaT]))
            yield pd.DataFrame({"missing": [found.null_count]})

    found = spark.range(0, 3, 1, 1).mapInPandas(halve, "half double, at timestamp").collect()
    assert [row.half for row in found] == [None, 0.5, 1.0]
    assert [row["at"] is None for row in found] == [True, False, False]
    assert [row.missing for row in spark.range(0, 1, 1, 1).mapInPandas(look, "missing bigint").collect()] == [1]


def test_workers_of_services_know_no_pandas() -> None:
    """By the daemon's own words, since a process has one session: each worker would pay 0.4 s of CPU for it."""
    program = (
        "import os, sys; from lakelog.spark.session import service_daemon; service_daemon._begin_worker(); "
        "import pyarrow as pa; pa.array([1]); print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]
