"""Spark's own Parquet scan of a table's live files, without their superseded rows.

Objectives, which conflict: the speed of the plain scan; exact identification of files, since a bit of another file
would hide or show the wrong row; any number of files; no wrong result without an error. So:

1. Files without superseded rows are scanned as they are, unless there are so few files that one scan of all is cheaper.
2. The others are scanned together, with a filter of `_metadata.row_index` against their bits. Their size, a number,
   identifies them: few files in a CASE, many in a join. Two files of one size go into different scans. If that would
   make too many scans, the path inside the table identifies the rest, which is several times more expensive.
3. A file that the filter does not know, or a row without index or without a bit, ends the query with an error: the
   sizes of the metastore and the store must agree, and Spark must fill in the index.
4. The bits of many files are spread over several scans, so that no task is sent more than `_SCAN_WORDS` of them.
"""

from __future__ import annotations

import functools
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from lakelog.format.types.schema import TableSchema
from lakelog.spark.executor.write import Words
from lakelog.spark.older_files.native_versions import to_sql_default
from lakelog.spark.parquet_files import PARQUET_OPTIONS, to_hadoop_location
from lakelog.spark.types import to_spark_schema
from lakelog.storage.parquet.live_file import LiveFile

PATH_COLUMN: Final = "\x01path"
ROW_COLUMN: Final = "\x01place"
_CASE_FILES: Final = 48
"""Above this number the CASE, which is evaluated from its beginning for each row, costs more than a join."""
_SIZE_SCANS: Final = 3
"""Scans in which the size identifies files; each costs planning and tasks of its own."""
_SCAN_WORDS: Final = 4 << 20
"""32 MiB of bits, 268 million rows."""
_LISTING_CONF: Final = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_EXISTS: Final = "EXISTS_DEFAULT"
_CURRENT: Final = "CURRENT_DEFAULT"
"""Spark's own keys for the defaults of columns; it takes the first only beside the second."""
_GLOB: Final = re.compile(r"[\\*?\[\]{}]")
_listing_lock = threading.Lock()


def scan_live_rows(
    spark: SparkSession,
    schema: TableSchema,
    location: str,
    files: Sequence[LiveFile],
    words: Mapping[str, Words],
    *,
    with_places: bool = False,
) -> DataFrame:
    """Returns all columns of the rows of files, without rows whose bit is set. Lists the files; launches no job.

    Args:
        spark: The session.
        schema: The schema to read with.
        location: The table's location.
        files: Files to read; none: no rows.
        words: By a file's path: the bits of its superseded rows.
        with_places: Also return where each row is: `PATH_COLUMN`, the path inside the table, and `ROW_COLUMN`.
    """
    if not files:
        nothing = spark.createDataFrame([], to_spark_schema(schema.arrow, nullable=True))
        return nothing.withColumns({PATH_COLUMN: sf.lit(""), ROW_COLUMN: sf.lit(0)}) if with_places else nothing
    scan = functools.partial(_scan, spark, schema, location, with_places=with_places)
    if not any(file.path in words for file in files):
        return scan(files)
    groups = split_by_size(files)
    if len(files) <= _CASE_FILES and len(groups) <= _SIZE_SCANS:
        parts = [
            _filter_by_case(spark, scan(chunk), chunk, words) for group in groups for chunk in _chunks(group, words)
        ]
    else:
        clean = [file for file in files if file.path not in words]
        groups = split_by_size([file for file in files if file.path in words])
        by_path = [file for group in groups[_SIZE_SCANS:] for file in group]
        parts = [scan(clean)] if clean else []
        parts += [
            _filter_by_join(spark, scan(chunk), chunk, words, by_path=False)
            for group in groups[:_SIZE_SCANS]
            for chunk in _chunks(group, words)
        ]
        parts += [
            _filter_by_join(spark, scan(chunk), chunk, words, by_path=True)
            for chunk in _chunks(by_path, words)
            if chunk
        ]
    return functools.reduce(DataFrame.unionAll, parts)


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
    spark: SparkSession, schema: TableSchema, location: str, files: Sequence[LiveFile], *, with_places: bool
) -> DataFrame:
    reader = (
        spark.read.schema(_to_scanned(schema))
        # Otherwise a folder named a=b above the table would become a column.
        .option("recursiveFileLookup", "true")
        .options(**PARQUET_OPTIONS)
    )
    root = spark_location(location)
    with _listing_by_driver(spark, len(files)):
        rows = reader.parquet(*[root + file.path for file in files])
    if not with_places:
        return rows
    metadata = rows.metadataColumn("_metadata")
    path = _path_inside(metadata["file_path"], files)
    return rows.withColumns({PATH_COLUMN: path, ROW_COLUMN: metadata["row_index"]})


def _path_inside(path: Column, files: Sequence[LiveFile]) -> Column:
    """The path inside the table: data/<attempt>/<name>, however Spark writes the parts before it."""
    return sf.substring_index(path, "/", -(files[0].path.count("/") + 1))


def _to_scanned(schema: TableSchema) -> StructType:
    """The columns of a scan, with the defaults that its reader fills in for files that lack them."""
    fields = []
    for column, field in zip(schema.arrow, to_spark_schema(schema.arrow, nullable=True), strict=True):
        default = to_sql_default(column)
        metadata = field.metadata if default is None else field.metadata | {_EXISTS: default, _CURRENT: default}
        fields.append(StructField(field.name, field.dataType, field.nullable, metadata))
    return StructType(fields)


def spark_location(location: str) -> str:
    """A table's location as the path of a read, in which Spark looks for patterns. Pure."""
    found = to_hadoop_location(location)
    return found if found.startswith("s3a://") else _GLOB.sub(r"\\\g<0>", found)


@contextmanager
def _listing_by_driver(spark: SparkSession, count: int) -> Iterator[None]:
    """Makes the driver program list files meanwhile: Spark would launch a job that takes several ms a file.

    The session's own setting is restored afterwards; a concurrent read of another thread may also list its files this
    way, which changes no result.
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


def _filter_by_case(
    spark: SparkSession, rows: DataFrame, files: Sequence[LiveFile], words: Mapping[str, Words]
) -> DataFrame:
    # A CASE is evaluated from its beginning for each row: files with many rows come first.
    dirty = sorted([file for file in files if file.path in words], key=lambda file: -file.row_count)
    if not dirty:
        return rows
    branches = [
        f"WHEN {file.size_bytes}L THEN {first}" for file, first in zip(dirty, _first_words(dirty, words), strict=True)
    ]
    clean = ", ".join(f"{file.size_bytes}L" for file in files if file.path not in words)
    metadata = rows.metadataColumn("_metadata")
    marked = rows.withColumns({_FILE: metadata["file_size"], _ROW: metadata["row_index"]})
    first_word = sf.expr(f"CASE `{_FILE}` {' '.join(branches)} END")
    kept = _is_kept(_one_list(spark, dirty, words), first_word, f"`{_FILE}` IN ({clean})" if clean else "false")
    return marked.where(kept).drop(_FILE, _ROW)


def _filter_by_join(
    spark: SparkSession, rows: DataFrame, files: Sequence[LiveFile], words: Mapping[str, Words], *, by_path: bool
) -> DataFrame:
    names = pa.array([file.path if by_path else file.size_bytes for file in files])
    known = spark.createDataFrame(pa.table({_FILE: names, _START: pa.array(_first_words(files, words))}))
    metadata = rows.metadataColumn("_metadata")
    name = metadata["file_size"]
    if by_path:
        name = _path_inside(metadata["file_path"], files)
    marked = rows.withColumns({_FILE: name, _ROW: metadata["row_index"]})
    joined = marked.join(sf.broadcast(known), _FILE, "left")
    kept = _is_kept(_one_list(spark, files, words), sf.col(_START), "false")
    return joined.where(kept).drop(_FILE, _ROW, _START)


def _is_kept(words: Column, first_word: Column, is_clean: str) -> Column:
    """Whether a row's bit, counted from the word `first_word`, is clear; without a bit the file must be clean."""
    row = sf.col(_ROW)
    word = sf.get(words, (first_word + sf.shiftright(row, 6)).cast("int"))
    # sf.shiftright takes no column as its second argument.
    bit = sf.call_function("shiftright", word, row.bitwiseAND(sf.lit(63)).cast("int")).bitwiseAND(sf.lit(1))
    error = f"raise_error(concat('{_NO_BIT}', coalesce(CAST(`{_FILE}` AS STRING), '-'), '{_NO_BIT_END}'))"
    without_bit = sf.expr(f"CASE WHEN {is_clean} AND `{_ROW}` >= 0 THEN true ELSE CAST({error} AS BOOLEAN) END")
    return sf.coalesce(bit == 0, without_bit)


def _first_words(files: Sequence[LiveFile], words: Mapping[str, Words]) -> list[int]:
    """Where each file's words begin in `_one_list`."""
    return [0, *np.cumsum([len(words[file.path]) for file in files]).tolist()][: len(files)]


def _one_list(spark: SparkSession, files: Sequence[LiveFile], words: Mapping[str, Words]) -> Column:
    """The words of all files as one array in a scalar subquery, which each task receives once."""
    flat = np.concatenate([words[file.path] for file in files])
    offsets = pa.array([0, len(flat)], pa.int32())
    return spark.createDataFrame(pa.table({"words": pa.ListArray.from_arrays(offsets, pa.array(flat))})).scalar()


_FILE: Final = "\x01file"
_ROW: Final = "\x01row"
_START: Final = "\x01start"
_NO_BIT: Final = (
    "lakelog: it cannot be known whether a row is superseded, so that the query ends. The file it comes from ("
)
_NO_BIT_END: Final = (
    ": its path, or its size in bytes) is not as it was committed: restore it from a backup. If it is, this version of "
    "Spark does not number the rows of a file as lakelog relies on; please report it."
)
