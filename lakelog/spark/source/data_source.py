"""`format("lakelog")`: tables as a Python data source of Spark, for reads, writes and streams in both directions.

Spark makes objects of these classes in short-lived processes on the driver's machine: one to find the schema, one to
plan, one to commit; tasks get what planning pickled. Such a source cannot see the columns or conditions of a query, so
they are options here. Rows are written as they come, each task a run for each bucket it meets.
`lakelog.spark.read_table` and `write` are the fast way.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from lakelog.arguments import parse_table_name
from lakelog.errors import InvalidArgument
from lakelog.options.declared.reads_and_writes import COMMIT_USER
from lakelog.spark.batch.commit import open_attempt
from lakelog.spark.connection import SparkConnection, open_metastore
from lakelog.spark.source.options import SourceOptions
from lakelog.spark.source.reader import LakelogReader, pick_columns, plan_source
from lakelog.spark.source.system_reader import is_planned_as_system_table, open_system_reader, plan_system_source
from lakelog.spark.source.writer import LakelogStreamWriter, LakelogWriter, StreamIdentity, WriteTarget
from lakelog.spark.stream.batch import RangeReader, RangeReadOptions
from lakelog.spark.stream.read_options import StreamReadOptions, to_change_schema
from lakelog.spark.stream.reader import LakelogStreamReader
from lakelog.spark.task_errors import brief_errors
from lakelog.spark.types import to_spark_schema
from lakelog.without_pandas import leave_pandas_out


def register_data_source(spark: SparkSession, connection: SparkConnection) -> None:
    """Makes `format("lakelog")` known to a session, over a connection."""
    spark.dataSource.register(_installed(connection))


def make_python_source(spark: SparkSession, connection: SparkConnection) -> Any:
    """The data source as Spark's Java holds it, without making it known."""
    # Imported here: it is not for processes without Java.
    from pyspark.sql.udf import _wrap_function

    java = spark._jvm
    assert java is not None, "the session is not one of Spark Connect"
    function = _wrap_function(spark.sparkContext, _installed(connection))
    return java.org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource(function)


def _installed(connection: SparkConnection) -> type[LakelogSource]:
    # SUBTLE: a class made here is pickled whole for other processes, including its connection.
    class Installed(LakelogSource):
        pass

    Installed.connection = connection
    return Installed


class LakelogSource(DataSource):
    """A table, as Spark's data source API sees it.

    Options: `table` (`database.table`), for reads `columns` (names with commas, or a JSON list), `filter` (an SQL
    condition) and every scan option, for streams those of subscriptions and of Spark's streams; for writes `partition`
    (a JSON object, or `dynamic`) and every write option.
    """

    connection: ClassVar[SparkConnection]

    @classmethod
    def name(cls) -> str:
        """The name in `format(...)`."""
        return "lakelog"

    @brief_errors
    def schema(self) -> StructType:
        """The columns of a read."""
        options = SourceOptions.of(self.options)
        if options.is_stream:
            return self._stream_schema(options)
        if is_planned_as_system_table(options.table):
            return to_spark_schema(plan_system_source(self.connection, options).returned, nullable=True)
        changes = RangeReadOptions.of(open_metastore(self.connection), options)
        if changes is not None:
            return changes.schema
        _, plan, names, _ = plan_source(self.connection, options)
        # Nullable as in every file source: Arrow cannot pass a NULL below a NULL struct as a field that cannot be NULL.
        return to_spark_schema(pick_columns(plan.schema, names), nullable=True)

    @brief_errors
    def reader(self, schema: StructType) -> DataSourceReader:
        """Plans a read of a state, of changes, or of a system table."""
        options = SourceOptions.of(self.options)
        if is_planned_as_system_table(options.table):
            return open_system_reader(self.connection, options, schema)
        changes = RangeReadOptions.of(open_metastore(self.connection), options)
        if changes is not None:
            return RangeReader(self.connection, changes, schema)
        return LakelogReader(self.connection, options, schema)

    def streamReader(self, schema: StructType) -> LakelogStreamReader:  # noqa: N802
        """Reads the table as a stream; makes no call yet."""
        # Spark plans in a process that it starts for this stream alone.
        leave_pandas_out()
        return LakelogStreamReader(self.connection, SourceOptions.of(self.options), schema)

    @brief_errors
    def writer(self, schema: StructType, overwrite: bool) -> LakelogWriter:
        """Begins a batch write."""
        options = SourceOptions.of(self.options)
        target = WriteTarget.of(self.connection, options, schema, overwrite, is_stream=False)
        if options.write.get(COMMIT_USER) is not None:
            raise InvalidArgument(
                "'commit-user' makes a write happen once only together with a number, which a data source has no place "
                "for. Use lakelog.spark.write(df, table, writer=, identifier=), or leave it out.",
                metadata={"option": COMMIT_USER.key},
            )
        return LakelogWriter(target, open_attempt(target.metastore, target.info, None))

    @brief_errors
    def streamWriter(self, schema: StructType, overwrite: bool) -> LakelogStreamWriter:  # noqa: N802
        """Begins, or is about to end, the write of one batch of a stream."""
        options = SourceOptions.of(self.options)
        target = WriteTarget.of(self.connection, options, schema, overwrite, is_stream=True)
        return LakelogStreamWriter(target, StreamIdentity.of(options))

    def _stream_schema(self, options: SourceOptions) -> StructType:
        """The columns of a stream; also checks all of its options."""
        read_options = StreamReadOptions.of(options)
        table = open_metastore(self.connection).get_table(parse_table_name(read_options.table))
        read_options.check(table)
        names = read_options.names(table)
        return to_change_schema(table, (*options.leading, *(name for name in names if name not in options.leading)))
