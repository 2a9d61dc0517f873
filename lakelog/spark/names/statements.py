"""`lakelog.spark.sql`: lakelog's statements beside the queries of Spark."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakelog.annotations import Parameters
from lakelog.arguments import check_text
from lakelog.clock import SystemClock
from lakelog.errors import InvalidArgument
from lakelog.format.filter.parameters import bind_parameters
from lakelog.format.types.types import canonical_schema
from lakelog.options.declared.reads_and_writes import DYNAMIC_PARTITION_OVERWRITE
from lakelog.options.values import WriteOptions
from lakelog.spark.batch.table_write import write_to
from lakelog.spark.batch.write_parameters import Partition
from lakelog.spark.installation import CATALOG, CATALOG_CONF, installation_of
from lakelog.spark.java.compiling import source_installer
from lakelog.spark.names.new_tables import save_as_table
from lakelog.spark.session.remote import check_not_remote
from lakelog.spark.types import to_spark_schema, to_spark_type
from lakelog.sql.parser import STATEMENT_WORDS, parse_statement
from lakelog.sql.session import SqlResult, SqlSession, check_column_count, target_fields
from lakelog.sql.statements import CreateTableAs, Insert, Name, Query
from lakelog.sql.word_reader import to_source
from lakelog.writes.commit_options import CommitOptions
from lakelog.writes.run_again import Pauses, run_again

if TYPE_CHECKING:
    from lakelog.sdk.catalog_tables import CatalogTables

_SPARKS: Final = frozenset({"EXPLAIN", "USE"})
_SPARKS_OBJECTS: Final = frozenset(
    {"VIEW", "VIEWS", "TEMPORARY", "TEMP", "GLOBAL", "FUNCTION", "FUNCTIONS", "CATALOGS", "VARIABLE", "QUERY"}
)
"""What lakelog's words CREATE, DROP, SHOW, DESCRIBE and ALTER mean to Spark alone."""

_QUERIES: Final = frozenset({"SELECT", "WITH", "FROM", "VALUES", "("})
_BLANK: Final = re.compile(r"\A(?:\s+|--[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SYSTEM_NAME: Final = re.compile(
    r"""[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/|\$(\w*)\$.*?\$\1\$|(\w+\$\w+)""",
    re.DOTALL,
)
"""Whatever a name with a `$` may stand in without being one, and last such a name."""

_LONGEST_START: Final = 1000
_SYSTEM_DATABASE: Final = "sys"

_KEPT_GUARDS: Final[CommitOptions] = {"if_snapshot": 0, "if_unchanged": 0}
"""An INSERT begins again after columns were altered, but not where rows have come that an overwrite did not read."""

_DONE: Final = pa.schema([("message", pa.string()), ("table", pa.string()), ("snapshot_id", pa.int64())])


def sql(
    spark: SparkSession, statement: str, *, database: str | None = None, params: Parameters | None = None
) -> DataFrame:
    """Runs one statement: lakelog's own ones as `lakelog sql` does, queries and all others by Spark.

    In a query `shop.orders` is lakelog's table if lakelog has a database of this name; names of Spark's own tables and
    views stay as they are. The rows of `INSERT ... SELECT` and `CREATE TABLE ... AS SELECT` are computed and written by
    Spark's tasks, as by `lakelog.spark.write`.

    Args:
        spark: A session in which lakelog is installed.
        statement: The statement. `VERSION AS OF`, `TIMESTAMP AS OF` and hints are possible in queries.
        database: The database of tables that lakelog's own statements name without one.
        params: Values of its `:name` parameters, for instance `{"id": 5}`; a list for IN.

    Returns:
        The rows of a query or of SHOW, DESCRIBE and CALL; of all others one row with `message`, `table` and
        `snapshot_id`.

    Raises:
        InvalidArgument: The statement cannot be read or does not fit; shows the place, or names table and column.
        NotFound: A database, table or snapshot does not exist.
        LakelogError: An error of the corresponding call.
        pyspark.errors.AnalysisException: Spark does not understand a query.
    """
    check_text(statement, "statement", "SELECT * FROM shop.orders")
    check_named(spark, "lakelog.spark.sql")
    text = statement if params is None else bind_parameters(to_source(statement), params)
    if is_own(text):
        return _to_frame(spark, _SparkStatements(spark, database).run(parse_statement(text)))
    return _query(spark, text)[0] if is_query(text) else spark.sql(quote_system_names(text))


def check_named(spark: SparkSession, what: str) -> None:
    """Refuses what needs lakelog's catalog in a session of Spark that has none.

    Raises:
        InvalidArgument: It is a session of Spark Connect; or lakelog is not installed, or could not compile its
            classes.
    """
    check_not_remote(spark, what, "format('lakelog')")
    installation_of(spark)
    if spark.conf.get(CATALOG_CONF, None) is None:
        raise InvalidArgument(
            f"{what} names tables through classes that this version of Spark does not take (its log says why). Use "
            "lakelog.spark.read_table and createOrReplaceTempView.",
            reason="NO_SPARK_CATALOG",
        )


class _SparkStatements(SqlSession):
    """lakelog's statements, whose queries Spark runs."""

    def __init__(self, spark: SparkSession, database: str | None) -> None:
        super().__init__(installation_of(spark).catalog, database, is_kept=False)
        self._spark = spark

    def find_catalog(self, name: Name) -> CatalogTables:
        """As in the session of lakelog, also with the name of Spark's catalog."""
        return self.catalog if name.catalog == CATALOG else super().find_catalog(name)

    def _two_parts(self, name: Name) -> str:
        if name.database is None and self.database is None and self._is_view(name.table):
            raise InvalidArgument(
                f"'{name.table}' is a temporary view of Spark, and this statement sees tables of lakelog only. Use "
                f"lakelog.spark.merge(spark, 'shop.orders', spark.table('{name.table}'), ...), which takes DataFrames.",
                reason="SPARK_VIEW",
                metadata={"table": name.table},
            )
        return super()._two_parts(name)

    def _is_view(self, name: str) -> bool:
        return bool(self._spark._jsparkSession.sessionState().catalog().getTempView(name).isDefined())

    def run(self, statement: Any) -> SqlResult:
        """Executes a parsed statement."""
        if isinstance(statement, Insert) and isinstance(statement.rows, Query):
            rows = statement.rows
            pauses = Pauses(SystemClock(), random.random)
            return run_again(pauses, _KEPT_GUARDS, lambda: self._insert_query(statement, rows))
        if isinstance(statement, CreateTableAs):
            return self._create_as(statement)
        return super().run(statement)

    def _insert_query(self, statement: Insert, query: Query) -> SqlResult:
        table = self.table(statement.name)
        partition = self._partition_values(table, statement)
        fields = target_fields(table, statement.columns, partition)
        rows, read = _query(self._spark, query.sql)
        check_column_count(len(rows.columns), fields)
        rows = rows.toDF(*[field.name for field in fields])
        options = dict(statement.options)
        if statement.overwrite:
            # The rows may come from the table itself: rows that others have added since would be lost silently.
            guard = table.info.latest_snapshot_id if table.name in read else None
            is_dynamic = bool(table.partition_by) and WriteOptions(options).get(DYNAMIC_PARTITION_OVERWRITE)
            replaced: Partition = partition or ("dynamic" if is_dynamic else None)
            done = write_to(
                rows, table.name, table.info, mode="overwrite", partition=replaced, options=options, if_snapshot=guard
            )
        else:
            schema = table.info.schema.arrow
            types = {name: to_spark_type(schema.field(name).type) for name in partition}
            rows = rows.withColumns({name: sf.lit(value).cast(types[name]) for name, value in partition.items()})
            done = write_to(rows, table.name, table.info, options=options)
        if done.snapshot_id is None:
            return SqlResult(f"Nothing was written to {table.name}: there were no rows.", table=table.name)
        message = f"Snapshot {done.snapshot_id} of {table.name} written."
        return SqlResult(message, table=table.name, snapshot_id=done.snapshot_id)

    def _create_as(self, statement: CreateTableAs) -> SqlResult:
        name = self.full_name(statement.name)
        rows, _ = _query(self._spark, statement.query.sql)
        names = {column.casefold(): column for column in rows.columns}
        done = save_as_table(
            rows,
            name,
            mode="ignore" if statement.if_not_exists else "error",
            primary_key=[names.get(column.casefold(), column) for column in statement.primary_key],
            partition_by=[names.get(column.casefold(), column) for column in statement.partition_by],
            options=statement.options,
            comment=statement.comment,
        )
        if done is None:
            return SqlResult(f"Table {name} exists already; nothing was written to it.")
        wrote = "the query gave no rows" if done.snapshot_id is None else f"snapshot {done.snapshot_id} written"
        return SqlResult(f"Table {name} created, {wrote}.", table=name, snapshot_id=done.snapshot_id)


def _query(spark: SparkSession, text: str) -> tuple[DataFrame, set[str]]:
    """The rows of a query, and the tables of lakelog that it names."""
    databases = [*installation_of(spark).catalog.databases(), _SYSTEM_DATABASE]
    quoted = quote_system_names(text)
    made = source_installer(spark).query(spark._jsparkSession, quoted, CATALOG, databases)
    return DataFrame(made.frame(), spark), set(made.tables())


def quote_system_names(text: str) -> str:
    """A statement of Spark with names as `orders$files` in back-quotes, without which it does not read them. Pure."""
    return _SYSTEM_NAME.sub(lambda found: f"`{found[2]}`" if found[2] else found[0], text)


def is_own(statement: str) -> bool:
    """Whether a statement is one of lakelog's own, which are no queries. Pure."""
    first, second, _, fourth = _first_words(statement)
    if not first:
        return True  # lakelog says what is missing.
    if first not in STATEMENT_WORDS or first in _SPARKS:
        return False
    return (fourth if second == "OR" else second) not in _SPARKS_OBJECTS


def is_query(statement: str) -> bool:
    """Whether it is a query of Spark. Pure."""
    return _first_words(statement)[0] in _QUERIES


def _first_words(statement: str) -> list[str]:
    """Four words after comments, in upper case; empty ones where there are no more."""
    rest = _BLANK.sub("", statement, count=1)
    words = re.findall(r"\w+|\S", rest[:_LONGEST_START])[:4]
    return [*map(str.upper, words), *[""] * (4 - len(words))]


def _to_frame(spark: SparkSession, result: SqlResult) -> DataFrame:
    rows = result.rows
    if rows is None:
        done = {"message": result.message, "table": result.table, "snapshot_id": result.snapshot_id}
        rows = pa.Table.from_pylist([done], _DONE)
    rows = rows.cast(canonical_schema(rows.schema))
    return spark.createDataFrame(rows, to_spark_schema(rows.schema, nullable=True))
