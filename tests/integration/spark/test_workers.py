"""Python workers of a session that lakelog made."""

from __future__ import annotations

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
        pa.array([1])
        yield pa.RecordBatch.from_pylist(
            [{"pyspark": pyspark.__file__, "archives": archives, "pandas": "pandas" in sys.modules}]
        )


def test_workers_import_nothing_from_archives_and_no_pandas(spark: SparkSession) -> None:
    """Both would cost each worker half a second, and archives each task 100 ms."""
    (found,) = (
        spark.range(0, 1, 1, 1).mapInArrow(look_around, "pyspark string, archives bigint, pandas boolean").collect()
    )
    assert not found.pandas
    assert ".zip" not in found.pyspark
    assert found.archives == 0


def test_functions_of_pandas_get_it_all_the_same(spark: SparkSession) -> None:
    """In a worker in which pyarrow has looked for it in vain: missing values are NULL, as everywhere."""
    pytest.importorskip("pandas")

    def halve(frames: Iterator[Any]) -> Iterator[Any]:
        for frame in frames:
            yield frame.assign(half=(frame["id"] / 2).where(frame["id"] > 0))[["half"]]

    found = spark.range(0, 3, 1, 1).mapInPandas(halve, "half double").collect()
    assert [row.half for row in found] == [None, 0.5, 1.0]
