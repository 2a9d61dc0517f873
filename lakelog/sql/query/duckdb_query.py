"""Runs a SELECT with DuckDB over scans; needs the extra `sql`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakelog.errors import InvalidArgument, LakelogError
from lakelog.options.declared.reads_and_writes import INCREMENTAL_BETWEEN, INCREMENTAL_BETWEEN_SCAN_MODE
from lakelog.options.values import ScanOptions
from lakelog.sdk.system_table import SystemTable
from lakelog.sql.named_tables import NamedTables
from lakelog.sql.query.file_functions import OpenFiles, open_files
from lakelog.sql.query.information_schema import INFORMATION_SCHEMA, read_information_schema
from lakelog.sql.query.query import SelectPlan, TableUse, needed_columns, plan_select, pushed_filter
from lakelog.system_tables.scan import SystemScan

if TYPE_CHECKING:
    from lakelog.reads.scan import Scan
    from lakelog.sdk.tables.table import Table

_MISSING_COLUMN: Final = re.compile(r"Referenced column|does not have a column")
_OF_FILES: Final = re.compile(r"lakelog_files_|arrow", re.IGNORECASE)
"""What DuckDB's message contains if reading files failed."""

_MAX_SHOWN: Final = 50


@dataclass(frozen=True)
class QueryLimits:
    """Limits of a query that someone else has written.

    Args:
        rows: At most this many are returned.
        memory_bytes: DuckDB's memory; nothing goes to disk instead.
    """

    rows: int
    memory_bytes: int


def run_query(
    names: NamedTables, sql: str, read: dict[str, int] | None = None, limits: QueryLimits | None = None
) -> pa.RecordBatchReader:
    """Runs a query and returns its rows as a stream, which keeps its resources open until it is read or dropped.

    All references to one table in the query read the same snapshot of it.

    Args:
        names: Finds the tables.
        sql: The query.
        read: Gets, by uuid, the snapshot of each table that is read at its newest one; 0: it had none.
        limits: Limits of the query; None: DuckDB's own.

    Raises:
        InvalidArgument: DuckDB is not installed, or the query cannot run; the message says why.
    """
    plan = plan_select(sql, names.catalog.name)
    duckdb = import_duckdb()
    connection = duckdb.connect(":memory:")
    failures: list[BaseException] = []
    columns: dict[str, list[str]] = {}
    files: list[OpenFiles] = []
    try:
        connection.execute("SET TimeZone = 'UTC'")
        if limits is not None:
            connection.execute(f"SET memory_limit = '{limits.memory_bytes}B'")
            connection.execute("SET temp_directory = ''")
        files += register_files(names, plan, connection, columns)
        pinned = {} if read is None else read
        columns |= register_tables(names, plan, plan.tables, connection, failures, pinned, reads_once=plan.reads_once)
        lock(connection)
        relation = connection.sql(plan.sql)
        if limits is not None:
            relation = relation.limit(limits.rows)
        # DuckDB's sum of whole numbers has 128 bits, which Arrow has no type for; here it is a BIGINT, as in Spark.
        sums = [i for i, each in enumerate(relation.types) if str(each) == "HUGEINT" and not plan.has_long_numbers]
        reader = relation.to_arrow_reader()
    except BaseException as error:
        # Holds the rows read so far, in memory or in a file.
        connection.close()
        if isinstance(error, duckdb.Error):
            raise to_own_error(error, failures, columns, files) from error
        raise
    schema = reader.schema
    for place in sums:
        schema = schema.set(place, schema.field(place).with_type(pa.int64()))
    return pa.RecordBatchReader.from_batches(schema, _read(connection, reader, schema, failures, files))


@dataclass(frozen=True)
class DescribedQuery:
    """A query that is planned, but of which no row is read.

    Args:
        plan: The plan: what the query reads.
        scans: The tables with their scans, by the relation that stands for them; without system tables.
        files: The files that it reads.
        schema: The schema of its rows.
        operators: DuckDB's plan, as JSON.
    """

    plan: SelectPlan
    scans: Mapping[str, tuple[Table, Scan]]
    files: Sequence[OpenFiles]
    schema: pa.Schema
    operators: str

    @property
    def newest(self) -> Sequence[tuple[Table, Scan]]:
        """The tables that are read at their newest snapshot, with their scans."""
        uses = (use for use in self.plan.tables if use.relation in self.scans and _is_newest(use))
        return [self.scans[use.relation] for use in uses]


def describe_query(names: NamedTables, sql: str) -> DescribedQuery:
    """Plans a query as `run_query` does, with the same arguments and errors."""
    plan = plan_select(sql, names.catalog.name)
    duckdb = import_duckdb()
    scans: dict[str, tuple[Table, Scan]] = {}
    columns: dict[str, list[str]] = {}
    pinned: dict[str, int] = {}
    with duckdb.connect(":memory:") as connection:
        try:
            connection.execute("SET TimeZone = 'UTC'")
            files = register_files(names, plan, connection, columns)
            for use in plan.tables:
                source = _find_source(names, plan, use, columns)
                if isinstance(source, SystemTable):
                    connection.register(use.relation, _schema_of(source, use).empty_table())
                    continue
                if isinstance(source, pa.Table):
                    connection.register(use.relation, source)
                    continue
                scan = _plan_scan(source, plan, use, pinned)
                scans[use.relation] = source, scan
                connection.register(use.relation, scan.schema.empty_table())
            connection.execute("SET enable_external_access = false")
            schema = connection.sql(plan.sql).to_arrow_reader().schema
            ((_, operators),) = connection.execute(f"EXPLAIN (FORMAT JSON) {plan.sql}").fetchall()
        except duckdb.Error as error:
            raise to_own_error(error, [], columns) from error
    return DescribedQuery(plan, scans, files, schema, operators)


def import_duckdb() -> Any:
    """DuckDB's module; raises InvalidArgument (`MISSING_EXTRA`) where it is not installed."""
    try:
        import duckdb
    except ImportError as error:
        raise InvalidArgument(
            "SELECT needs DuckDB, which is not installed: pip install 'lakelog[sql]'.", reason="MISSING_EXTRA"
        ) from error
    return duckdb


def lock(connection: Any) -> None:
    """From now on DuckDB itself reads only what is registered: no files, no variables of this program."""
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def register_files(
    names: NamedTables, plan: SelectPlan, connection: Any, columns: dict[str, list[str]]
) -> list[OpenFiles]:
    """Registers the files under the names in the plan; adds their columns."""
    opened = []
    for use in plan.files:
        files = open_files(use, names.catalog.stores)
        opened.append(files)
        columns[str(use)] = files.dataset.schema.names
        connection.register(use.relation, files.dataset)
    return opened


def _read(
    connection: Any,
    reader: pa.RecordBatchReader,
    schema: pa.Schema,
    failures: list[BaseException],
    files: Sequence[OpenFiles],
) -> Iterator[pa.RecordBatch]:
    """The rows, with lakelog's errors; keeps the connection open until all are read."""
    import duckdb

    with connection:
        try:
            for batch in reader:
                yield batch if schema == reader.schema else _narrow(batch, schema)
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise to_own_error(error, failures, files=files) from error


def _narrow(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    try:
        columns = [column.cast(each) for column, each in zip(batch.columns, schema.types, strict=True)]
    except pa.ArrowInvalid as error:
        raise InvalidArgument(
            "The query cannot be run: a sum is beyond the numbers of BIGINT. Cast what is summed to DECIMAL(38, 0).",
            reason="QUERY_FAILED",
        ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def to_own_error(
    error: BaseException,
    failures: list[BaseException],
    columns: Mapping[str, list[str]] | None = None,
    files: Sequence[OpenFiles] = (),
) -> BaseException:
    """The error of a failed scan, which DuckDB passes on only as a text, or else DuckDB's own error.

    For a missing column, the message lists the columns of the tables: DuckDB itself knows only the columns that it was
    given, which are those that the query names.
    """
    if failures:
        return failures[0]
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    if _OF_FILES.search(first):
        bad = next((found for each in files if (found := each.find_bad()) is not None), None)
        if bad is not None:
            return bad
    if columns and _MISSING_COLUMN.search(first):
        tables = "; ".join(f"{name} has {', '.join(names[:_MAX_SHOWN])}" for name, names in columns.items())
        first = f"{first.rstrip('!.')}. The columns: {tables}."
    if "Values were not provided" in first:
        first = f"{first.rstrip('.')}. Give them as params={{'name': value}}, in the SDK."
    return InvalidArgument(f"The query cannot be run: {first}", reason="QUERY_FAILED")


def register_tables(
    names: NamedTables,
    plan: SelectPlan,
    uses: Sequence[TableUse],
    connection: Any,
    failures: list[BaseException],
    pinned: dict[str, int],
    *,
    reads_once: bool,
) -> dict[str, list[str]]:
    """Registers tables under the names in the plan; returns the columns of each by its full name."""
    columns: dict[str, list[str]] = {}
    for use in uses:
        relation = _relation(names, plan, use, pinned, failures, columns)
        if reads_once or isinstance(relation, pa.Table):
            connection.register(use.relation, relation)
            continue
        # A stream can be read only once. As a table of DuckDB, its rows can be read again, and can go to disk.
        connection.register(f"{use.relation}_stream", relation)
        connection.execute(f"CREATE TEMP TABLE {use.relation} AS SELECT * FROM {use.relation}_stream")
        connection.unregister(f"{use.relation}_stream")
    return columns


def _relation(
    names: NamedTables,
    plan: SelectPlan,
    use: TableUse,
    pinned: dict[str, int],
    failures: list[BaseException],
    columns: dict[str, list[str]],
) -> pa.Table | pa.RecordBatchReader:
    source = _find_source(names, plan, use, columns)
    if isinstance(source, pa.Table):
        return source
    if isinstance(source, SystemTable):
        system_scan = _plan_system_scan(source, plan, use)
        return pa.RecordBatchReader.from_batches(
            system_scan.schema, _noting_failure(system_scan.to_batches(), failures)
        )
    scan = _plan_scan(source, plan, use, pinned)
    return pa.RecordBatchReader.from_batches(scan.schema, _noting_failure(scan.to_batches(), failures))


def _find_source(
    names: NamedTables, plan: SelectPlan, use: TableUse, columns: dict[str, list[str]]
) -> Table | SystemTable | pa.Table:
    """The table, the system table, or the rows of a view; adds its columns."""
    if (use.name.database or "").casefold() == INFORMATION_SCHEMA:
        if use.options:
            raise InvalidArgument(f"'{use.name}' takes no options. Leave the hint out.")
        if not _is_newest(use):
            raise InvalidArgument(f"'{use.name}' shows only the present state. Leave AS OF out.")
        rows = read_information_schema(names.find_catalog(use.name), use.name.table, plan.conditions[use.relation])
        columns[str(use.name)] = rows.schema.names
        return rows
    source = names.system_table(use.name)
    if source is not None:
        columns[str(use.name) if use.name.catalog else source.name] = source.schema.names
        return source
    table = names.table(use.name)
    columns[names.shown_name(use.name, table)] = table.schema.names
    return table


def _plan_system_scan(source: SystemTable, plan: SelectPlan, use: TableUse) -> SystemScan:
    schema = _schema_of(source, use)
    return source.scan(
        needed_columns(plan, schema),
        pushed_filter(plan, use, schema, with_fields=True),
        snapshot_id=use.snapshot_id,
        timestamp=use.timestamp_ms,
        tag=use.tag,
        options=use.options,
    )


def _schema_of(source: SystemTable, use: TableUse) -> pa.Schema:
    """The columns of a system table at the state that is read; the scan itself says whether it has a past."""
    return source.schema_at(use.snapshot_id, use.timestamp_ms, use.tag)


def _plan_scan(table: Table, plan: SelectPlan, use: TableUse, pinned: dict[str, int]) -> Scan:
    schema = table.schema
    snapshot_id, timestamp_ms = use.snapshot_id, use.timestamp_ms
    is_newest = _is_newest(use)
    # A table without a snapshot at its first reference is read as empty at all its references.
    limit = 0 if is_newest and pinned.get(table.uuid) == 0 else None
    if is_newest:
        snapshot_id = pinned.get(table.uuid) or None
    # The read columns decide which updates there are, and must not depend on how a query is written.
    between = ScanOptions(use.options).get(INCREMENTAL_BETWEEN) or ()
    by_tags = any(isinstance(each, str) for each in between)
    shows_updates = by_tags or INCREMENTAL_BETWEEN_SCAN_MODE.key in use.options
    scan = table.scan(
        None if shows_updates else needed_columns(plan, schema),
        pushed_filter(plan, use, schema),
        limit,
        snapshot_id=snapshot_id,
        timestamp=timestamp_ms,
        tag=use.tag,
        options=use.options,
    )
    if is_newest:
        pinned.setdefault(table.uuid, scan.snapshot_id)
    return scan


def _is_newest(use: TableUse) -> bool:
    """Whether a table is read in its newest state: all options of a scan select another state. Pure."""
    return use.snapshot_id is None and use.timestamp_ms is None and use.tag is None and not use.options


def _noting_failure(batches: Iterator[pa.RecordBatch], failures: list[BaseException]) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except LakelogError as error:
        failures.append(error)
        raise
