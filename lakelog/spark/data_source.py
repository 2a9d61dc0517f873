"""`format("lakelog")`: tables as a Python data source of Spark, for reading, writing and as a streaming sink.

Spark makes objects of these classes in short-lived processes on the driver's machine: one to find the schema, one to
plan, one to commit; tasks get what planning pickled. Such a source can ask for no columns or conditions of a query, so
they are options here; rows are written as they lie, each task a run for each bucket it meets.
`lakelog.spark.read_table` and `write` are the fast way.
"""

from __future__ import annotations

from typing import ClassVar, NoReturn

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from lakelog.errors import InvalidArgument
from lakelog.options.call_options import COMMIT_USER
from lakelog.spark.commit import open_attempt
from lakelog.spark.connection import SparkConnection
from lakelog.spark.source_options import SourceOptions
from lakelog.spark.source_reader import LakelogReader, pick_columns, plan_source
from lakelog.spark.source_writer import LakelogStreamWriter, LakelogWriter, StreamIdentity, WriteTarget
from lakelog.spark.task_errors import told_briefly
from lakelog.spark.types import to_spark_schema


def register_data_source(spark: SparkSession, connection: SparkConnection) -> None:
    """Makes `format("lakelog")` known to a session, over a connection."""

    # SUBTLE: a class made here travels to other processes whole, its connection with it.
    class Installed(LakelogSource):
        pass

    Installed.connection = connection
    spark.dataSource.register(Installed)


class RefusedStreamReader(DataSourceStreamReader):
    """Refuses to read a stream.

    SUBTLE: not made until Spark asks where the stream begins, because PySpark stops a reader that could not be made,
    which fails with a message of its own instead of ours.
    """

    @told_briefly
    def initialOffset(self) -> NoReturn:  # noqa: N802
        """Raises InvalidArgument."""
        raise InvalidArgument(
            "Spark cannot read a lakelog table as a stream in this version. Read snapshots with read_table, or use the "
            "SDK's table.changes(...)."
        )

    def latestOffset(self, start: object = None, limit: object = None) -> NoReturn:  # noqa: N802
        """Raises InvalidArgument; asked first by a stream that goes on from a checkpoint."""
        self.initialOffset()

    def read(self, partition: InputPartition) -> NoReturn:
        """Raises InvalidArgument."""
        self.initialOffset()


class LakelogSource(DataSource):
    """A table, as Spark's data source API sees it.

    Options: `table` (`database.table`), for reads `columns` (names with commas, or a JSON list), `filter` (an SQL
    condition) and every scan option; for writes `partition` (a JSON object, or `dynamic`) and every write option.
    """

    connection: ClassVar[SparkConnection]

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return "lakelog"

    @told_briefly
    def schema(self) -> StructType:
        """The columns of a read."""
        options = SourceOptions.of(self.options)
        _, plan, names, _ = plan_source(self.connection, options)
        # Nullable as in every file source: Arrow hands on no NULL below a NULL struct as a field that cannot be NULL.
        return to_spark_schema(pick_columns(plan.schema, names), nullable=True)

    @told_briefly
    def reader(self, schema: StructType) -> LakelogReader:
        """Plans a read."""
        return LakelogReader(self.connection, SourceOptions.of(self.options), schema)

    def streamReader(self, schema: StructType) -> RefusedStreamReader:  # noqa: N802
        """There are no streaming reads in this version, which the reader says when the stream starts."""
        return RefusedStreamReader()

    @told_briefly
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

    @told_briefly
    def streamWriter(self, schema: StructType, overwrite: bool) -> LakelogStreamWriter:  # noqa: N802
        """Begins, or is about to end, the write of one batch of a stream."""
        options = SourceOptions.of(self.options)
        target = WriteTarget.of(self.connection, options, schema, overwrite, is_stream=True)
        return LakelogStreamWriter(target, StreamIdentity.of(options))
