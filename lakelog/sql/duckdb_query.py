"""A SELECT run by DuckDB over scans; needs the extra `sql`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakelog.errors import InvalidArgument, LakelogError
from lakelog.options.call_options import INCREMENTAL_BETWEEN, INCREMENTAL_BETWEEN_SCAN_MODE
from lakelog.options.values import ScanOptions
from lakelog.reads.tag_range import find_tagged
from lakelog.sql.file_functions import OpenFiles, open_files
from lakelog.sql.query import SelectPlan, TableUse, needed_columns, plan_select, pushed_filter
from lakelog.sql.statements import Name
from lakelog.sql.system_tables import read_system_table

if TYPE_CHECKING:
    from lakelog.sql.session import SqlSession
    from lakelog.table import Table

_MISSING_COLUMN: Final = re.compile(r"Referenced column|does not have a column")
_OF_FILES: Final = re.compile(r"lakelog_files_|arrow", re.IGNORECASE)
"""What DuckDB says where the reading of files failed."""

_MAX_SHOWN: Final = 50


def run_query(session: SqlSession, sql: str, read: dict[str, int] | None = None) -> pa.RecordBatchReader:
    """Runs a query and returns its rows as a stream, which keeps what it needs open until it is read or dropped.

    All places that name one table see one snapshot of it.

    Args:
        session: Knows the tables.
        sql: The query.
        read: Gets the snapshot of each table that is read at its newest one, by uuid; 0: it had none.

    Raises:
        InvalidArgument: DuckDB is not installed, or the query cannot be run; says why.
    """
    plan = plan_select(sql)
    try:
        import duckdb
    except ImportError as error:
        raise InvalidArgument(
            "SELECT needs DuckDB, which is not installed: pip install 'lakelog[sql]'.", reason="MISSING_EXTRA"
        ) from error
    connection = duckdb.connect(":memory:")
    failures: list[BaseException] = []
    columns: dict[str, list[str]] = {}
    files: list[OpenFiles] = []
    try:
        connection.execute("SET TimeZone = 'UTC'")
        for file_use in plan.files:
            files.append(open_files(file_use, session.catalog.stores))
            columns[str(file_use)] = files[-1].dataset.schema.names
            connection.register(file_use.relation, files[-1].dataset)
        columns |= _register_tables(session, plan, connection, failures, {} if read is None else read)
        # DuckDB itself reads what is registered and nothing else: no files, no variables of this program.
        connection.execute("SET python_enable_replacements = false")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        relation = connection.sql(plan.sql)
        # DuckDB sums whole numbers up to 128 bits, which Arrow has no type for; as in Spark it is a BIGINT.
        sums = [i for i, each in enumerate(relation.types) if str(each) == "HUGEINT" and not plan.has_long_numbers]
        reader = relation.to_arrow_reader()
    except BaseException as error:
        # What holds the rows read so far, in memory or in a file.
        connection.close()
        if isinstance(error, duckdb.Error):
            raise _to_own_error(error, failures, columns, files) from error
        raise
    schema = reader.schema
    for place in sums:
        schema = schema.set(place, schema.field(place).with_type(pa.int64()))
    return pa.RecordBatchReader.from_batches(schema, _read(connection, reader, schema, failures, files))


def _read(
    connection: Any,
    reader: pa.RecordBatchReader,
    schema: pa.Schema,
    failures: list[BaseException],
    files: Sequence[OpenFiles],
) -> Iterator[pa.RecordBatch]:
    """The rows, with errors as lakelog's; keeps the connection open until all is read."""
    import duckdb

    with connection:
        try:
            for batch in reader:
                yield batch if schema == reader.schema else _narrow(batch, schema)
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise _to_own_error(error, failures, files=files) from error


def _narrow(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    try:
        columns = [column.cast(each) for column, each in zip(batch.columns, schema.types, strict=True)]
    except pa.ArrowInvalid as error:
        raise InvalidArgument(
            "The query cannot be run: a sum is beyond the numbers of BIGINT. Cast what is summed to DECIMAL(38, 0).",
            reason="QUERY_FAILED",
        ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _to_own_error(
    error: BaseException,
    failures: list[BaseException],
    columns: Mapping[str, list[str]] | None = None,
    files: Sequence[OpenFiles] = (),
) -> BaseException:
    """What failed in a scan, which DuckDB hands on as a mere text, or else DuckDB's own complaint.

    Where a column is missing, the columns of the tables are told: DuckDB's own candidates are only those that it was
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
    return InvalidArgument(f"The query cannot be run: {first}", reason="QUERY_FAILED")


def _register_tables(
    session: SqlSession, plan: SelectPlan, connection: Any, failures: list[BaseException], pinned: dict[str, int]
) -> dict[str, list[str]]:
    """Makes the tables known under the names in the plan; returns the columns of each by its full name."""
    columns: dict[str, list[str]] = {}
    for use in plan.tables:
        relation = _relation(session, plan, use, pinned, failures, columns)
        if plan.reads_once or isinstance(relation, pa.Table):
            connection.register(use.relation, relation)
            continue
        # A stream can be read only once; as a table of DuckDB its rows may be read again, and leave memory for disk.
        connection.register(f"{use.relation}_stream", relation)
        connection.execute(f"CREATE TEMP TABLE {use.relation} AS SELECT * FROM {use.relation}_stream")
        connection.unregister(f"{use.relation}_stream")
    return columns


def _relation(
    session: SqlSession,
    plan: SelectPlan,
    use: TableUse,
    pinned: dict[str, int],
    failures: list[BaseException],
    columns: dict[str, list[str]],
) -> pa.Table | pa.RecordBatchReader:
    base, _, kind = use.name.table.partition("$")
    table = session.table(Name(use.name.database, base))
    if kind:
        if use.timestamp_ms is not None:
            raise InvalidArgument(f"'{use.name}' has no past by time. Use VERSION AS OF, or leave it out.")
        if use.options:
            raise InvalidArgument(f"'{use.name}' takes no options. Leave the hint out.")
        snapshot_id = use.snapshot_id
        if use.tag is not None:
            snapshot_id = find_tagged(session.catalog.metastore, table.info, use.tag)
        rows = read_system_table(session.catalog, table, kind, snapshot_id)
        columns[f"{table.name}${kind}"] = rows.schema.names
        return rows
    columns[table.name] = table.schema.names
    return _scan(table, plan, use, pinned, failures)


def _scan(
    table: Table, plan: SelectPlan, use: TableUse, pinned: dict[str, int], failures: list[BaseException]
) -> pa.RecordBatchReader:
    schema = table.schema
    snapshot_id, timestamp_ms = use.snapshot_id, use.timestamp_ms
    # Whatever options may be given to a scan, they say what state of the table is read.
    is_newest = snapshot_id is None and timestamp_ms is None and use.tag is None and not use.options
    # A table that had no snapshot when it was named first is read as empty wherever it is named again.
    limit = 0 if is_newest and pinned.get(table.uuid) == 0 else None
    if is_newest:
        snapshot_id = pinned.get(table.uuid) or None
    # Which updates there are depends on the columns that are read, which must not depend on how a query is written.
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
    return pa.RecordBatchReader.from_batches(scan.schema, _noting_failure(scan.to_batches(), failures))


def _noting_failure(batches: Iterator[pa.RecordBatch], failures: list[BaseException]) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except LakelogError as error:
        failures.append(error)
        raise
