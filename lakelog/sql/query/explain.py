"""EXPLAIN: what a statement would read and write; it is planned, but reads and writes no rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakelog.byte_sizes import format_size
from lakelog.format.types.sql_types import to_sql_type
from lakelog.options.declared.reads_and_writes import DYNAMIC_PARTITION_OVERWRITE
from lakelog.options.declared.tables import CHANGELOG_PRODUCER, MERGE_ENGINE
from lakelog.options.values import TableOptions, WriteOptions
from lakelog.sql.named_tables import NamedTables
from lakelog.sql.query.duckdb_query import DescribedQuery, describe_query
from lakelog.sql.query.file_functions import OpenFiles
from lakelog.sql.query.query import SelectPlan, TableUse, needed_columns, pushed_filter
from lakelog.sql.query.row_selection import QueriedRows
from lakelog.sql.row_changes.running import find_rows
from lakelog.sql.statements import CreateTableAs, Delete, Explain, Insert, Merge, Query, Update, Values
from lakelog.storage.parquet.live_file import LiveFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakelog.reads.scan import Scan
    from lakelog.sdk.tables.table import Table

_COLUMNS: Final = pa.schema(
    [
        pa.field("step", pa.int32(), nullable=False),
        pa.field("operation", pa.string(), nullable=False),
        pa.field("object", pa.string(), nullable=False),
        pa.field("fact", pa.string(), nullable=False),
        pa.field("value", pa.string(), nullable=False),
    ]
)
_LEFT_OUT: Final = ("Function", "Estimated Cardinality", "Projections", "__estimated_cardinality__")

Step = tuple[str, str, Mapping[str, str]]
"""Operation, object, and facts by name."""


def explain(names: NamedTables, statement: Explain) -> pa.Table:
    """Returns the steps of a statement, one row for each fact of a step.

    Returns:
        Columns step (from 1), operation (`scan`, `read files`, `read`, `query` by DuckDB, `write`, `create`), object,
        fact and value.

    Raises:
        InvalidArgument: The statement cannot run, as far as that is known without reading rows.
        NotFound: A table or file does not exist.
    """
    inner = statement.statement
    steps: list[Step] = []
    described: DescribedQuery | None = None
    query = _find_query(inner)
    if query is not None:
        described = describe_query(names, query.sql)
        steps += _explain_query(names, described)
    if isinstance(inner, Insert):
        # As in the write itself: the tables that are read at their newest snapshot.
        newest = {} if described is None else {table.uuid: scan.snapshot_id for table, scan in described.newest}
        steps.append(_explain_insert(names, inner, newest))
    elif isinstance(inner, CreateTableAs):
        assert described is not None
        facts = {
            "columns": ", ".join(f"{field.name} {to_sql_type(field.type)}" for field in described.schema),
            "primary key": ", ".join(inner.primary_key) or "none",
            "partitioned by": ", ".join(inner.partition_by) or "nothing",
            "options": ", ".join(f"{key} = {value}" for key, value in inner.options.items()) or "none",
        }
        steps.append(("create", names.full_name(inner.name), facts))
    elif not isinstance(inner, Query):
        steps += _explain_changes(names, inner)
    rows = [
        {"step": number, "operation": operation, "object": name, "fact": fact, "value": value}
        for number, (operation, name, facts) in enumerate(steps, 1)
        for fact, value in facts.items()
    ]
    return pa.Table.from_pylist(rows, schema=_COLUMNS)


def _find_query(statement: Query | Insert | CreateTableAs | Delete | Update | Merge) -> Query | None:
    match statement:
        case Query():
            return statement
        case CreateTableAs():
            return statement.query
        case Merge():
            return statement.source
        case Insert():
            return statement.rows if isinstance(statement.rows, Query) else None
        case _:
            return None


def _explain_changes(names: NamedTables, statement: Delete | Update | Merge) -> Iterable[Step]:
    table = names.table(statement.table.name)
    shown = names.shown_name(statement.table.name, table)
    where = None if isinstance(statement, Merge) else find_rows(names, statement.table, table, statement.where)
    if isinstance(where, QueriedRows):
        yield from _explain_query(names, describe_query(names, where.query))
    else:
        whole, scan = table.scan(), table.scan(filter=where)
        facts = {"snapshot": str(scan.snapshot_id) if scan.snapshot_id else "none yet"}
        facts |= _count(scan.files, whole.files)
        yield "scan", shown, facts | {"filter": where or "none"}
    facts = {"mode": type(statement).__name__.lower()}
    match statement:
        case Update():
            facts |= {f"set {name}": str(value) for name, value in statement.set.items()}
        case Merge():
            facts["on"] = statement.on
            facts |= {f"clause {number}": str(clause) for number, clause in enumerate(statement.clauses, 1)}
    facts["merge engine"] = _show_engine(table)
    facts["changelog"] = str(TableOptions(table.info.options).get(CHANGELOG_PRODUCER))
    yield "write", shown, facts


def _explain_query(names: NamedTables, described: DescribedQuery) -> Iterable[Step]:
    plan = described.plan
    for use in plan.tables:
        scan = described.scans.get(use.relation)
        if scan is None:
            yield "read", str(use.name), {"rows": "made by the catalog when the query runs"}
        else:
            yield "scan", names.shown_name(use.name, scan[0]), _explain_scan(*scan, plan, use)
    for files in described.files:
        yield _explain_files(files, plan)
    for operator in _walk(json.loads(described.operators)[0]):
        shown = {key: value for key, value in (operator.get("extra_info") or {}).items() if key not in _LEFT_OUT}
        if operator["name"] != "PYTHON_ARROW_SCAN" or shown:
            facts = {key.lower(): _text(value) for key, value in shown.items()}
            yield "query", operator["name"], facts or {"": ""}


def _explain_scan(table: Table, scan: Scan, plan: SelectPlan, use: TableUse) -> Mapping[str, str]:
    facts = {"snapshot": str(scan.snapshot_id) if scan.snapshot_id else "none yet"}
    whole: Sequence[LiveFile] | None = None
    if not use.options:
        # A second plan without the filter shows what pruning has left out.
        whole = table.scan(snapshot_id=scan.snapshot_id).files if scan.snapshot_id else []
    facts |= _count(scan.files, whole)
    facts["columns"] = ", ".join(scan.schema.names)
    facts["filter"] = pushed_filter(plan, use, table.schema) or "none"
    facts["merge engine"] = _show_engine(table)
    if use.options:
        facts["options"] = ", ".join(f"{key} = {value}" for key, value in use.options.items())
    return facts


def _count(files: Sequence[LiveFile], whole: Sequence[LiveFile] | None) -> dict[str, str]:
    """How many files, buckets, partitions and bytes are read, and of how many in all; None: not known. Pure."""
    counted = [_measure(files), None if whole is None else _measure(whole)]
    facts = {}
    for name, count in counted[0].items():  # type: ignore[union-attr]
        show = format_size if name == "bytes" else str
        of_all = f" of {show(counted[1][name])}" if counted[1] is not None else ""
        facts[name] = f"{show(count)}{of_all}"
    return facts


def _measure(files: Iterable[LiveFile]) -> dict[str, int]:
    files = list(files)
    return {
        "files": len(files),
        "buckets": len({(file.partition, file.bucket) for file in files}),
        "partitions": len({file.partition for file in files}),
        "rows in files": sum(file.row_count for file in files),
        "bytes": sum(file.size_bytes for file in files),
    }


def _explain_files(files: OpenFiles, plan: SelectPlan) -> Step:
    names = needed_columns(plan, files.dataset.schema) or files.dataset.schema.names
    return "read files", str(files.use), {"files": str(len(files.dataset.files)), "columns": ", ".join(names)}


def _explain_insert(names: NamedTables, statement: Insert, read: Mapping[str, int]) -> Step:
    table = names.table(statement.name)
    options = TableOptions(table.info.options)
    facts: dict[str, str] = {}
    if isinstance(statement.rows, Values):
        facts["rows"] = str(len(statement.rows.rows))
    partition = ", ".join(name for name, _ in statement.partition)
    if not statement.overwrite:
        facts["mode"] = "upsert" if table.primary_key else "append"
    elif partition:
        facts["mode"] = f"overwrite the partition by its {partition}"
    elif bool(table.partition_by) and WriteOptions(statement.options).get(DYNAMIC_PARTITION_OVERWRITE):
        facts["mode"] = "overwrite the partitions that the rows lie in"
    else:
        facts["mode"] = "overwrite the table"
    facts["columns"] = ", ".join(statement.columns or table.schema.names)
    facts["merge engine"] = _show_engine(table)
    facts["changelog"] = str(options.get(CHANGELOG_PRODUCER))
    if statement.overwrite and table.uuid in read:
        facts["guard"] = f"refused where the table has changed since snapshot {read[table.uuid]}"
    return "write", names.shown_name(statement.name, table), facts


def _show_engine(table: Table) -> str:
    if not table.primary_key:
        return "none: append"
    return f"{TableOptions(table.info.options).get(MERGE_ENGINE)}, by {', '.join(table.primary_key)}"


def _walk(operator: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """The operators of DuckDB's plan, each after those whose rows it reads. Pure."""
    for child in operator.get("children", ()):
        yield from _walk(child)
    yield operator


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
