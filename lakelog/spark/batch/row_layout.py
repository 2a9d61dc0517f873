"""Brings the rows of a DataFrame to their table: types, then buckets, then order, all except odd casts in the JVM.

Why no row is lost or doubled if Spark computes a stage again: a row's task depends only on its bucket key. So a map
task that runs twice sends each row to the same task again, in whatever order it reads its input; and a task that writes
without a shuffle writes the rows of its own partition. The arrival number only decides between rows of one key. It is
set before the shuffle, from the row's source partition and its place in it. All rows of a key meet in one task, which
reads each map task's output from one run of it: so every run gives one order of all rows of a key. That is the order of
the DataFrame's partitions if these have a stable order, as with all of Spark's sources.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema

from lakelog.errors import InvalidArgument
from lakelog.format.types.cast import check_schema
from lakelog.format.types.defaults import write_default
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.format.types.schema import TableSchema
from lakelog.spark.executor.write import RowConversion, converter
from lakelog.spark.session.arrow_batches import NarrowRows
from lakelog.spark.types import is_widening, same_values, to_spark_schema, to_spark_type
from lakelog.storage.write.routing import Routing
from lakelog.writes.overwrite import StaticPartition

_ARRIVAL: Final = "arrival"


def bring_to_types(
    df: DataFrame,
    schema: pa.Schema,
    static: StaticPartition | None,
    *,
    fill_missing: bool,
    narrow: NarrowRows | None = None,
) -> DataFrame:
    """Returns the rows with the table's columns in their order and types, under the names of `plain_name`.

    Spark's own cast is used if it keeps every value; other casts go through Python tasks, which refuse a value that
    would change. Call it before rows are hashed: an int and a bigint of the same value have different hashes.

    Args:
        df: Rows with columns in any order.
        schema: The table's columns; those that may be missing are nullable.
        static: A partition that must contain all rows; its columns may be missing.
        fill_missing: Whether nullable columns without a default that the rows leave out become NULL; else they are an
            error.
        narrow: How rows reach Python without a count of their bytes; None: their bytes are counted.

    Returns:
        The table's columns, and last the column `_row_kind` if `df` has one.

    Raises:
        InvalidArgument: Columns or types do not fit; one line for each.
    """
    is_filled_in = check_types(df, schema, static, fill_missing=fill_missing)
    has_kinds = ROW_KIND_COLUMN in df.columns
    names = [*schema.names, *([ROW_KIND_COLUMN] if has_kinds else [])]
    if not is_filled_in and all(_needs_no_cast(df, field) for field in schema):
        # One call of Java in place of some for each column.
        return _with_plain_names(df if df.columns == names else df.selectExpr(*map(_quote, names)), narrow)
    kinds = [_quoted(ROW_KIND_COLUMN)] if has_kinds else []
    columns = [] if is_filled_in else [_native(df, field) for field in schema]
    natives = [column for column in columns if column is not None]
    if len(natives) == len(schema):
        return _with_plain_names(df.select(*natives, *kinds), narrow)
    fields = [field.remove_metadata().with_name(plain_name(place)) for place, field in enumerate(schema)]
    output = to_spark_schema(pa.schema(fields), nullable=True)
    if has_kinds:
        output = output.add(st.StructField(plain_name(len(schema)), df.schema[ROW_KIND_COLUMN].dataType))
    conversion = RowConversion(schema, static, tuple(df.columns))
    given = _with_plain_names(df.select(*[_quoted(name) for name in df.columns]), narrow)
    return given.mapInArrow(converter(conversion), output)


def check_types(df: DataFrame, schema: pa.Schema, static: StaticPartition | None, *, fill_missing: bool) -> bool:
    """Checks that rows fit the table's columns, as far as their types show; arguments as of `bring_to_types`.

    Returns:
        Whether the rows lack columns of `static`, which are to be filled in.

    Raises:
        InvalidArgument: Columns or types do not fit; one line for each.
    """
    given = to_arrow(df.drop(ROW_KIND_COLUMN) if ROW_KIND_COLUMN in df.columns else df)
    missing_static = [] if static is None else [name for name in static.values if name not in given.names]
    expected = pa.schema([field for field in schema if field.name not in missing_static])
    check_schema(given, expected, fill_missing=fill_missing, merge_option="merge_schema")
    return bool(missing_static)


def bring_to_buckets(df: DataFrame, schema: TableSchema, routing: Routing) -> DataFrame:
    """Shuffles rows so that a partition's number is the bucket of its rows, in the order of the future run.

    Args:
        df: Rows as of `bring_to_types`.
        schema: The table's columns.
        routing: A routing with buckets.

    Returns:
        Partitions by bucket; the rows of each are sorted by partition columns, primary key, and arrival.
    """
    names = schema.arrow.names
    sort = [plain_name(names.index(name)) for name in (*schema.partition_by, *schema.trimmed_key)]
    bucket_key = [plain_name(names.index(name)) for name in routing.bucket_key]
    # SUBTLE: adaptive execution does not change a repartition with a number; it neither merges nor splits partitions.
    return (
        df.withColumn(_ARRIVAL, sf.monotonically_increasing_id())
        .repartition(routing.bucket_count, *bucket_key)
        .sortWithinPartitions(*sort, _ARRIVAL)
        .drop(_ARRIVAL)
    )


def plain_name(place: int) -> str:
    """A column's name in Python: mapInArrow fails for names with dots or back-quotes."""
    return f"c{place}"


def _with_plain_names(df: DataFrame, narrow: NarrowRows | None) -> DataFrame:
    named = df.toDF(*[plain_name(place) for place in range(len(df.columns))])
    return named if narrow is None else narrow.check(named)


def to_arrow(df: DataFrame) -> pa.Schema:
    """The Arrow types in which a DataFrame's rows reach Python.

    Raises:
        InvalidArgument: A type has no Arrow type.
    """
    try:
        return to_arrow_schema(df.schema, timezone="UTC")
    except PySparkException as error:
        raise InvalidArgument(
            f"The rows have a type that a table cannot have: {str(error)[:300]} Cast it first.",
            reason="SCHEMA_MISMATCH",
        ) from error


def _quoted(name: str) -> Column:
    """A column by its exact name, whatever characters are in it."""
    return sf.col(_quote(name))


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _needs_no_cast(df: DataFrame, field: pa.Field) -> bool:
    """Whether a column is there, with the table's type."""
    return field.name in df.columns and same_values(df.schema[field.name].dataType, to_spark_type(field.type))


def _native(df: DataFrame, field: pa.Field) -> Column | None:
    """Casts a column to the table's type in Spark; None if only Python can make it so that values survive."""
    wanted = to_spark_type(field.type)
    if field.name not in df.columns:
        default = write_default(field)
        if default is None:
            return sf.lit(None).cast(wanted).alias(field.name)
        is_same = isinstance(wanted, (st.NumericType, st.BooleanType, st.StringType, st.DateType))
        return sf.lit(default.as_py()).cast(wanted).alias(field.name) if is_same else None
    given = df.schema[field.name].dataType
    if same_values(given, wanted):
        return _quoted(field.name)
    return _quoted(field.name).cast(wanted).alias(field.name) if is_widening(given, wanted) else None
