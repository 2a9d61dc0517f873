"""Spark's own Parquet scan of a table's live files, less their superseded rows.

Objectives, which conflict: the speed of the plain scan; files known exactly, since a bit of another file would hide or
show the wrong row; any number of files; nothing wrong shown in silence. So:

1. Files without superseded rows are scanned as they are, when there are many of them.
2. The others are scanned together under a filter of `row_index` against their bits. Few files are told apart by their
   size, a number, in a CASE: two files of one size then go into different scans. Many files are told apart by their
   path inside the table, in a join.
3. A file that the filter does not know, or a row without index or without a bit, ends the query with an error: the
   metastore's sizes and the store's must agree, and Spark must fill the index in.
4. Bits of many files are spread over several scans, so that no task is sent more than `_SCAN_WORDS` of them.
"""

from __future__ import annotations

import functools
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from lakelog.errors import InvalidArgument
from lakelog.format.schema import TableSchema
from lakelog.spark.tasks import Words
from lakelog.spark.types import to_spark_schema
from lakelog.storage.live_file import LiveFile

ROW_INDEX_COLUMN: Final = "_tmp_metadata_row_index"
"""What Spark's Parquet reader itself fills with a row's position in its file; `_metadata.row_index` is made of it, by
way of a struct for each row, which costs a fifth of a narrow scan."""

_CASE_FILES: Final = 48
"""Above it the CASE, which is read from its beginning for each row, costs more than a join."""
_CASE_SCANS: Final = 3
_SCAN_WORDS: Final = 4 << 20
"""32 MiB of bits, 268 million rows."""
_LISTING_CONF: Final = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_GLOB: Final = re.compile(r"[\\*?\[\]{}]")
_listing_lock = threading.Lock()


def scan_live_rows(
    spark: SparkSession, schema: TableSchema, location: str, files: Sequence[LiveFile], words: Mapping[str, Words]
) -> DataFrame:
    """Returns the rows of files, all columns, without those whose bit is set. Lists the files; launches no job.

    Args:
        spark: The session.
        schema: What to read with.
        location: The table's location.
        files: Files to read; none: no rows.
        words: By a file's path: which of its rows are superseded.
    """
    columns = [_quoted(name) for name in schema.arrow.names]
    if not files:
        return spark.createDataFrame([], to_spark_schema(schema.arrow, nullable=True))
    if ROW_INDEX_COLUMN in schema.arrow.names:
        raise InvalidArgument(
            f"Spark cannot read a table with a column '{ROW_INDEX_COLUMN}', a name that its Parquet reader uses for "
            "itself. Copy the rows to a table in which it has another name.",
            metadata={"column": ROW_INDEX_COLUMN},
        )
    scan = functools.partial(_scan, spark, schema, location)
    dirty = [file for file in files if file.path in words]
    if not dirty:
        return scan(files)
    groups = split_by_size(files) if len(files) <= _CASE_FILES else []
    if 0 < len(groups) <= _CASE_SCANS:
        # A clean file in the same scan costs a comparison a row; in a scan of its own, planning and tasks.
        parts = [
            _filter_by_size(spark, scan(chunk, row_index=True), chunk, words)
            if any(file.path in words for file in chunk)
            else scan(chunk)
            for group in groups
            for chunk in _chunks(group, words)
        ]
    else:
        clean = [file for file in files if file.path not in words]
        parts = [scan(clean)] if clean else []
        parts += [_filter_by_path(spark, scan(part, row_index=True), part, words) for part in _chunks(dirty, words)]
    return functools.reduce(DataFrame.unionAll, (part.select(*columns) for part in parts))


def split_by_size(files: Sequence[LiveFile]) -> list[list[LiveFile]]:
    """Splits files so that inside each part all sizes differ: the n-th file of a size goes to part n. Pure."""
    groups: list[list[LiveFile]] = []
    seen: Counter[int] = Counter()
    for file in files:
        number = seen[file.size_bytes]
        seen[file.size_bytes] += 1
        if number == len(groups):
            groups.append([])
        groups[number].append(file)
    return groups


def _chunks(files: Sequence[LiveFile], words: Mapping[str, Words]) -> Iterator[list[LiveFile]]:
    """Splits files so that the words of each part are bounded; one file is never split."""
    chunk: list[LiveFile] = []
    held = 0
    for file in files:
        count = len(words.get(file.path, ()))
        if chunk and held + count > _SCAN_WORDS:
            yield chunk
            chunk, held = [], 0
        chunk.append(file)
        held += count
    yield chunk


def _scan(
    spark: SparkSession, schema: TableSchema, location: str, files: Sequence[LiveFile], *, row_index: bool = False
) -> DataFrame:
    columns = to_spark_schema(schema.arrow, nullable=True)
    if row_index:
        columns = columns.add(st.StructField(ROW_INDEX_COLUMN, st.LongType()))
    reader = (
        spark.read.schema(columns)
        # A folder named a=b above the table would otherwise become a column.
        .option("recursiveFileLookup", "true")
        # Missing or damaged files are errors, whatever the session says.
        .option("ignoreMissingFiles", "false")
        .option("ignoreCorruptFiles", "false")
        # Our files are not of an old Spark: their dates and times are what they say.
        .option("datetimeRebaseMode", "CORRECTED")
    )
    root = spark_location(location)
    with _listing_by_driver(spark, len(files)):
        return reader.parquet(*[root + file.path for file in files])


def spark_location(location: str) -> str:
    """A table's location as Spark writes it: Hadoop's paths are not percent-encoded, and its S3 is called s3a. Pure."""
    if location.startswith("s3://"):
        return "s3a://" + location.removeprefix("s3://").partition("?")[0]
    return _GLOB.sub(r"\\\g<0>", unquote(location))


@contextmanager
def _listing_by_driver(spark: SparkSession, count: int) -> Iterator[None]:
    """Lists files in the driver program meanwhile: Spark would launch a job that takes several ms a file.

    The setting is the session's own again afterwards; another thread's read meanwhile may list its files so as well,
    which changes no result.
    """
    with _listing_lock:
        before = spark.conf.get(_LISTING_CONF)
        if before is not None and int(before) >= count:
            before = None
        else:
            spark.conf.set(_LISTING_CONF, str(count + 1))
        try:
            yield
        finally:
            if before is not None:
                spark.conf.set(_LISTING_CONF, before)


def _filter_by_size(
    spark: SparkSession, rows: DataFrame, files: Sequence[LiveFile], words: Mapping[str, Words]
) -> DataFrame:
    branches: list[str] = []
    flat: list[Words] = []
    start = 0
    for file in files:
        bits = words.get(file.path)
        if bits is not None:
            branches.append(f"WHEN {file.size_bytes}L THEN {start}")
            flat.append(bits)
            start += len(bits)
    clean = ", ".join(f"{file.size_bytes}L" for file in files if file.path not in words)
    is_clean = f"`{_FILE}` IN ({clean})" if clean else "false"
    marked = rows.withColumn(_FILE, rows.metadataColumn("_metadata")["file_size"])
    first = sf.expr(f"CASE `{_FILE}` {' '.join(branches)} END")
    return marked.where(_is_kept(_one_list(spark, np.concatenate(flat)), first, is_clean))


def _filter_by_path(
    spark: SparkSession, rows: DataFrame, files: Sequence[LiveFile], words: Mapping[str, Words]
) -> DataFrame:
    bits = [words[file.path] for file in files]
    starts = np.cumsum([0] + [len(each) for each in bits])[:-1].astype(np.int32)
    known = spark.createDataFrame(pa.table({_FILE: pa.array([file.path for file in files]), _START: pa.array(starts)}))
    # data/<attempt>/<name>: these parts alone tell a table's files apart, however Spark writes those before them.
    depth = files[0].path.count("/") + 1
    path = rows.metadataColumn("_metadata")["file_path"]
    marked = rows.withColumn(_FILE, sf.substring_index(path, "/", -depth))
    joined = marked.join(sf.broadcast(known), _FILE, "left")
    return joined.where(_is_kept(_one_list(spark, np.concatenate(bits)), sf.col(_START), "false"))


def _is_kept(words: Column, first: Column, is_clean: str) -> Column:
    """Whether a row's bit, counted from the word `first`, is clear; without a bit it must be of a clean file."""
    row = sf.col(ROW_INDEX_COLUMN)
    word = sf.get(words, (first + sf.shiftright(row, 6)).cast("int"))
    # sf.shiftright takes no column as its second argument.
    bit = sf.call_function("shiftright", word, row.bitwiseAND(sf.lit(63)).cast("int")).bitwiseAND(sf.lit(1))
    error = f"raise_error(concat('{_NO_BIT}', coalesce(CAST(`{_FILE}` AS STRING), '-'), '{_NO_BIT_END}'))"
    without_bit = sf.expr(f"CASE WHEN {is_clean} THEN true ELSE CAST({error} AS BOOLEAN) END")
    return sf.coalesce(bit == 0, without_bit)


def _one_list(spark: SparkSession, words: Words) -> Column:
    """All words as one array in a scalar subquery, which is sent to each task once."""
    offsets = pa.array([0, len(words)], pa.int32())
    return spark.createDataFrame(pa.table({"words": pa.ListArray.from_arrays(offsets, pa.array(words))})).scalar()


def _quoted(name: str) -> Column:
    return sf.col("`" + name.replace("`", "``") + "`")


_FILE: Final = "\x01file"
_START: Final = "\x01start"
_NO_BIT: Final = (
    "lakelog: it cannot be told whether a row is superseded, so that the query ends. The file it comes from ("
)
_NO_BIT_END: Final = (
    ": its path, or its size in bytes) is not as it was committed: restore it from a backup. If it is, this version of "
    "Spark does not number the rows of a file as lakelog relies on; please report it."
)
