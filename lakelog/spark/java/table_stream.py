"""Makes `TableStream.java` the source of a stream that was loaded by `format("lakelog")`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import pyarrow as pa
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st
from pyspark.sql.datasource import DataSource

from lakelog.format.tables.table import TableInfo
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, RowKind
from lakelog.spark.connection import SparkConnection
from lakelog.spark.java.compiling import stream_replacer
from lakelog.spark.java.stream_calls import StreamCalls
from lakelog.spark.parquet_files import PARQUET_OPTIONS
from lakelog.spark.source.options import SourceOptions
from lakelog.spark.stream.read_options import COMMIT_TIMESTAMP_COLUMN
from lakelog.spark.stream.reader import LakelogStreamReader, check_stream_schema
from lakelog.spark.types import to_spark_schema
from lakelog.storage.scan.file_scan import SNAPSHOT_ID_COLUMN

_CONSTANTS: Final = (SNAPSHOT_ID_COLUMN, COMMIT_TIMESTAMP_COLUMN)
"""Columns with one value in a file."""

_OPTIONS: Final = PARQUET_OPTIONS | {"parquet.page.verify-checksum.enabled": "true"}
"""A stream shows a row once, and so a damaged one cannot be read again later."""


class StreamOpener:
    """Makes the calls of each query that is started from one DataFrame."""

    class Java:
        """The interface by which Java calls it."""

        implements: ClassVar = ["java.util.function.Function"]

    def __init__(self, make: Any) -> None:
        self._make = make

    def apply(self, _: str) -> StreamCalls:
        """Makes the calls of a query."""
        calls: StreamCalls = self._make()
        return calls


def read_by_java(
    frame: DataFrame, table: TableInfo, connection: SparkConnection, source: DataSource, options: SourceOptions
) -> DataFrame:
    """A stream with the same rows, those of files read by Spark's own reader.

    Args:
        frame: What Spark has loaded; its columns are those to return.
        table: The table.
        connection: To the metastore.
        source: The data source.
        options: Those of the stream.

    Raises:
        InvalidArgument: The user's schema does not fit the table.
    """
    spark = frame.sparkSession
    check_stream_schema(table, frame.schema, options)
    kept = [name for name in frame.columns if name not in _CONSTANTS]
    constants = [name for name in frame.columns if name in _CONSTANTS]
    columns = st.StructType([_coded(frame.schema[name]) for name in (*kept, *constants)])

    def open_calls() -> StreamCalls:
        reader = LakelogStreamReader(connection, options, frame.schema, returned=columns, table_uuid=table.table_uuid)
        return StreamCalls(spark, source, reader, columns, constants, is_filtered=options.filter is not None)

    gateway = spark.sparkContext._gateway
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    replacer = stream_replacer(spark)
    if replacer is None:
        return frame
    made = replacer.replace(
        frame._jdf,
        f"lakelog {table.name}",
        columns.json(),
        _stored(table, kept).json(),
        st.StructType([columns[name] for name in constants]).json(),
        _OPTIONS,
        StreamOpener(open_calls),
    )
    if made is None:
        return frame
    rows = DataFrame(made, spark)
    is_shown_so = ROW_KIND_COLUMN not in kept and rows.columns == frame.columns
    # Each expression more is planned for each batch.
    return rows if is_shown_so else rows.select(*[_decoded(name) for name in frame.columns])


def _coded(field: st.StructField) -> st.StructField:
    """A column as files hold it: kinds of rows are numbers there."""
    return st.StructField(field.name, st.ByteType() if field.name == ROW_KIND_COLUMN else field.dataType)


def _decoded(name: str) -> Any:
    column = sf.col("`" + name.replace("`", "``") + "`")
    if name != ROW_KIND_COLUMN:
        return column
    texts = sf.array(*[sf.lit(kind.text) for kind in RowKind])
    # Files with only +I rows have no such column.
    return sf.get(texts, sf.coalesce(column, sf.lit(RowKind.INSERT.value)).cast("int")).alias(name)


def _stored(table: TableInfo, names: Sequence[str]) -> st.StructType:
    kind = pa.field(ROW_KIND_COLUMN, pa.int8())
    fields = [kind if name == ROW_KIND_COLUMN else table.schema.arrow.field(name) for name in names]
    return to_spark_schema(pa.schema(fields), nullable=True)
