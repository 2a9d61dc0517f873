"""What of the Spark room needs no Spark: types, bits, groups of files, errors as text, conditions and time zones."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import types as st

from lakelog.errors import DataCorrupted, InvalidArgument, LakelogError
from lakelog.format.filter.condition import parse_filter
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.spark.batch.live_rows import _chunks, spark_location, split_by_size
from lakelog.spark.batch.table_read import _translate_filter
from lakelog.spark.executor.write import pack_indices
from lakelog.spark.planning import _depends_on_zone, _parse
from lakelog.spark.source.data_source import LakelogSource
from lakelog.spark.source.stream_identity import read_query_id
from lakelog.spark.task_errors import errors_to_driver, find_lakelog_error
from lakelog.spark.types import forbids_null, is_widening, same_values, to_spark_schema
from lakelog.storage.parquet.live_file import LiveFile


def file_of(name: str, size_bytes: int, rows: int = 100) -> LiveFile:
    return LiveFile(1, f"data/a/{name}", b"", 0, 0, rows, 0, size_bytes, None, None, 0, 1, 1, 0, 0)


def test_types_keep_ids_and_nullability() -> None:
    schema = assign_field_ids(
        pa.schema([pa.field("k", pa.int8(), nullable=False), ("s", pa.struct([("x", pa.timestamp("us"))]))])
    )
    spark = to_spark_schema(schema)
    assert spark["k"].dataType == st.ByteType()
    assert not spark["k"].nullable
    assert spark["k"].metadata == {"parquet.field.id": 1}
    inner = spark["s"].dataType
    assert isinstance(inner, st.StructType)
    assert (inner["x"].dataType, inner["x"].metadata) == (st.TimestampNTZType(), {"parquet.field.id": 3})
    assert to_spark_schema(schema, nullable=True)["k"].nullable


def test_a_schema_may_not_hide_nulls_anywhere() -> None:
    nested: list[Callable[[bool], st.DataType]] = [
        lambda may: st.ArrayType(st.IntegerType(), may),
        lambda may: st.MapType(st.StringType(), st.IntegerType(), may),
        lambda may: st.StructType([st.StructField("x", st.ArrayType(st.IntegerType(), may))]),
        lambda may: st.StructType([st.StructField("x", st.IntegerType(), may)]),
    ]
    for make in nested:
        assert forbids_null(make(False), make(True))
        assert not forbids_null(make(True), make(False))
        assert not forbids_null(make(True), make(True))


@pytest.mark.parametrize(
    ("given", "wanted", "is_safe"),
    [
        (st.IntegerType(), st.LongType(), True),
        (st.LongType(), st.IntegerType(), False),
        (st.LongType(), st.DecimalType(20, 0), True),
        (st.LongType(), st.DecimalType(20, 2), False),
        (st.IntegerType(), st.DoubleType(), False),
        (st.DecimalType(5, 2), st.DecimalType(7, 3), True),
        (st.DecimalType(5, 2), st.DecimalType(5, 3), False),
        (st.FloatType(), st.DoubleType(), True),
        (st.DoubleType(), st.FloatType(), False),
        (st.StringType(), st.DateType(), False),
        (st.DateType(), st.TimestampType(), False),
    ],
)
def test_what_spark_may_cast_by_itself(given: st.DataType, wanted: st.DataType, is_safe: bool) -> None:
    assert is_widening(given, wanted) is is_safe


def test_nullability_does_not_make_another_type() -> None:
    one, other = st.ArrayType(st.LongType(), True), st.ArrayType(st.LongType(), False)
    assert same_values(one, other)
    assert not same_values(one, st.ArrayType(st.IntegerType(), True))


def test_packed_indices() -> None:
    indices = np.array([0, 63, 64, 129])
    words = pack_indices(indices, 130)
    assert len(words) == 3
    assert [p for p in range(192) if (int(words[p // 64]) >> (p % 64)) & 1] == indices.tolist()


def test_files_of_one_size_never_share_a_scan() -> None:
    files = [file_of(str(place), size) for place, size in enumerate([5, 6, 5, 7, 5])]
    groups = split_by_size(files)
    assert [[file.size_bytes for file in group] for group in groups] == [[5, 6, 7], [5], [5]]
    assert sorted(file.path for group in groups for file in group) == [file.path for file in files]


def test_chunks_hold_bounded_words_and_all_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakelog.spark.batch.live_rows._SCAN_WORDS", 4)
    files = [file_of(str(place), place) for place in range(5)]
    words = {file.path: np.zeros(3, np.int64) for file in files[1:]}
    chunks = list(_chunks(files, words))
    assert [len(chunk) for chunk in chunks] == [2, 1, 1, 1]
    assert [file for chunk in chunks for file in chunk] == files


def test_a_failed_task_ends_with_the_sentence() -> None:
    with pytest.raises(Exception, match="damaged") as raised, errors_to_driver():
        raise DataCorrupted("The file x is damaged.", reason="FILE_SIZE", metadata={"path": "[ż] {x}]\n"})
    marker, sentence = str(raised.value).split("\n")
    assert sentence == "The file x is damaged."
    assert marker == '[lakelog DataCorrupted, FILE_SIZE, 22 characters, {"path": "[\\u017c] {x}]\\n"}]'
    found = find_lakelog_error(RuntimeError(f'raise TaskFailed(f"[lakelog {{kind}}, ...")\n{raised.value} and more'))
    assert found is not None
    assert (found.message, found.metadata) == (sentence, {"path": "[ż] {x}]\n"})
    cut = RuntimeError(str(raised.value)[:60])
    assert find_lakelog_error(cut) is None


def test_an_error_survives_as_text() -> None:
    with pytest.raises(Exception, match="file x is damaged") as raised, errors_to_driver():
        raise DataCorrupted("The file x is damaged: {}\n[odd].", reason="FILE_SIZE", metadata={"path": "x"})
    found = find_lakelog_error(RuntimeError(f"PythonException: Traceback ...\n{raised.value}\n\tat org.apache..."))
    assert isinstance(found, DataCorrupted)
    assert (found.reason, found.metadata) == ("FILE_SIZE", {"path": "x"})
    assert found.message == "The file x is damaged: {}\n[odd]."
    assert find_lakelog_error(RuntimeError("out of memory")) is None
    assert issubclass(DataCorrupted, LakelogError)


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("file:///w/a%20b/t/", "file:///w/a b/t/"),
        ("file:///w/%5Bx%5D/t/", "file:///w/\\[x\\]/t/"),
        ("s3://bucket/t/?endpoint=x", "s3a://bucket/t/"),
    ],
)
def test_locations(location: str, expected: str) -> None:
    assert spark_location(location) == expected


@pytest.mark.parametrize(
    ("condition", "depends"),
    [("n = 1", False), ("at > '2024-01-01'", True), ("day < timestamp '2024-01-01 00:00'", True), ("s = 'x'", False)],
)
def test_conditions_that_a_time_zone_changes(condition: str, depends: bool) -> None:
    schema = pa.schema(
        [("n", pa.int64()), ("s", pa.string()), ("day", pa.date32()), ("at", pa.timestamp("us", tz="UTC"))]
    )
    assert _depends_on_zone(condition, parse_filter(condition, schema)) is depends
    table = TableSchema(0, assign_field_ids(schema))
    assert (_parse(condition, table.arrow, "Europe/Berlin", False) is None) is depends
    assert _parse(condition, table.arrow, "UTC", False) is not None


def test_the_id_in_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="commit-user"):
        read_query_id(str(tmp_path))
    (tmp_path / "metadata").write_text(json.dumps({"id": "a-b"}))
    assert read_query_id(str(tmp_path)) == "a-b"
    assert read_query_id(tmp_path.as_uri()) == "a-b"
    with pytest.raises(InvalidArgument, match="cannot be read from Python"):
        read_query_id("hdfs://host/checkpoint")


def test_a_data_source_reports_errors_without_the_way_they_took() -> None:
    source = LakelogSource({})
    with pytest.raises(InvalidArgument, match="The option 'table' is missing") as caught:
        source.schema()
    # This test and the method; what is called inside of it is left out.
    assert len(traceback.extract_tb(caught.value.__traceback__)) == 2
    assert caught.value.__suppress_context__


def test_what_spark_says_of_a_filter_is_reported_without_its_plan() -> None:
    plan = "[UNRESOLVED_COLUMN] The column `nope` is unknown. SQLSTATE: 42703; line 1 pos 0;\n'Filter\n+- Relation"
    reported = _translate_filter(AnalysisException(plan), "shop.t")
    assert str(reported) == (
        "The filter of shop.t is not possible: [UNRESOLVED_COLUMN] The column `nope` is unknown. SQLSTATE: 42703; "
        "line 1 pos 0."
    )
