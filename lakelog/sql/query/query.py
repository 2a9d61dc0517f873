"""The plan of a SELECT: its tables, what it needs of them, and the query for DuckDB. Pure.

sqlglot reads the query as Spark's SQL and writes it as DuckDB's. Each reference to a table becomes a relation of its
own, which a scan fills. A scan may return more than the query needs, never less. It leaves out only columns that the
query does not name anywhere. From the WHERE it gets only conditions that concern rows of that table alone, and that
DuckDB and lakelog evaluate alike. DuckDB applies the whole WHERE again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import sqlglot
from pyarrow import types as pt
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lakelog.errors import InvalidArgument
from lakelog.options.tag_name import find_tag_problem
from lakelog.sql.dialect import ReadableQuery, marked_hint, to_readable
from lakelog.sql.query.file_functions import FileUse, parse_file_use
from lakelog.sql.query.qualified_columns import NamedNode, name_tables
from lakelog.sql.statements import Name
from lakelog.time_parsing import parse_timestamp

_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_KEEPS_LEFT: Final = frozenset({"", "INNER", "CROSS", "LEFT", "SEMI", "ANTI"})
_PLAIN_TEXT: Final = re.compile(r"[^\\'\x00-\x1f]*")
_PLAIN_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?)?")

_BIGINT_DIGITS: Final = 18
"""Every whole number with so many digits is a BIGINT."""

_LAST_SECOND: Final = 253_402_300_799
"""9999-12-31 23:59:59 UTC."""


@dataclass(frozen=True)
class TableUse:
    """One place where a query names a table.

    Args:
        relation: The name of the relation that stands for it in `SelectPlan.sql`.
        name: The table's name, with `$...` for a system table.
        snapshot_id: VERSION AS OF a number; None: not given.
        tag: VERSION AS OF a tag; None: not given.
        timestamp_ms: TIMESTAMP AS OF in milliseconds since the epoch; None: not given.
        options: The options of its scan, from a hint after its name.
        node: Its place in the tree.
    """

    relation: str
    name: Name
    snapshot_id: int | None
    tag: str | None
    timestamp_ms: int | None
    options: Mapping[str, str]
    node: exp.Table


@dataclass(frozen=True)
class SelectPlan:
    """A query for DuckDB, over relations that scans fill.

    Args:
        sql: The text in DuckDB's dialect.
        tables: The tables to register before it runs.
        files: The files to register before it runs.
        reads_once: Whether each relation is certainly read only once, so that it may be a stream.
        mentioned: All names in the query, casefolded; None: it may need any column (`*`).
        conditions: The parts of the WHERE that concern only one table, by relation.
        has_long_numbers: The text may contain a whole number beyond BIGINT.
    """

    sql: str
    tables: tuple[TableUse, ...]
    files: tuple[FileUse, ...]
    reads_once: bool
    mentioned: frozenset[str] | None
    conditions: dict[str, tuple[exp.Expr, ...]]
    has_long_numbers: bool


def plan_select(sql: str, own_catalog: str = "") -> SelectPlan:
    """Read a query.

    Args:
        sql: Its text.
        own_catalog: The name of the session's catalog; empty: it has none.

    Raises:
        InvalidArgument: It cannot be read, is more than one statement, names an impossible version, or a column that
            can be one of several tables.
    """
    readable = to_readable(sql)
    tree = _parse(readable.text)
    nodes = [
        node for node in tree.find_all(exp.Table) if isinstance(node.this, exp.Identifier) and not _is_common(node)
    ]
    functions = [node for node in tree.find_all(exp.Table) if not isinstance(node.this, exp.Identifier)]
    files = tuple(parse_file_use(node, f"lakelog_files_{number}") for number, node in enumerate(functions))
    options = _options(readable, tree, nodes)
    tables = tuple(
        _table_use(node, f"lakelog_{number}", options.get(id(node), {})) for number, node in enumerate(nodes)
    )
    mentioned = _mentioned(tree, nodes, files)
    names = name_tables(tree, [NamedNode(use.name, use.node) for use in tables], own_catalog)
    conditions = {use.relation: tuple(_conditions(use.node, use.node.alias or names[id(use.node)])) for use in tables}
    reads_once = isinstance(tree, exp.Select) and not list(
        tree.find_all(exp.Subquery, exp.With, exp.Pivot, exp.SetOperation)
    )
    reads_once = reads_once and len(list(tree.find_all(exp.Select))) == 1
    uses: tuple[TableUse | FileUse, ...] = (*tables, *files)
    for use in uses:
        alias = use.node.alias or (use.function if isinstance(use, FileUse) else names[id(use.node)])
        use.node.replace(
            exp.Table(
                this=exp.to_identifier(use.relation),
                alias=use.node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(alias, quoted=True)),
                joins=use.node.args.get("joins"),
                pivots=use.node.args.get("pivots"),
                sample=use.node.args.get("sample"),
            )
        )
    long_numbers = any(not each.is_string and len(each.name) > _BIGINT_DIGITS for each in tree.find_all(exp.Literal))
    return SelectPlan(tree.sql("duckdb"), tables, files, reads_once, mentioned, conditions, long_numbers)


def needed_columns(plan: SelectPlan, schema: pa.Schema) -> list[str] | None:
    """The columns of a table that a query may need; None: all. At least one, so that rows can be counted. Pure."""
    if plan.mentioned is None:
        return None
    named = [name for name in schema.names if name.casefold() in plan.mentioned]
    return named or [min(schema, key=lambda field: (pt.is_nested(field.type), field.type.num_buffers)).name]


def pushed_filter(plan: SelectPlan, use: TableUse, schema: pa.Schema, *, with_fields: bool = False) -> str | None:
    """The filter for the scan of a table; None: none. Pure.

    Args:
        plan: The query.
        use: The table's place in it.
        schema: The table's columns.
        with_fields: Also push conditions on fields of struct columns, `partition.dt = '2024-05-01'`.
    """
    fields = {field.name.casefold(): field for field in schema}
    if with_fields:
        structs = [field for field in schema if pt.is_struct(field.type)]
        fields |= {f"{each.name}.{inner.name}".casefold(): inner for each in structs for inner in list(each.type)}
    safe = [condition for condition in plan.conditions[use.relation] if _is_safe(condition, fields)]
    return " AND ".join(f"({_quoted(condition).sql('spark')})" for condition in safe) or None


def _parse(sql: str) -> exp.Query:
    try:
        trees = [tree for tree in sqlglot.parse(sql, read="spark") if tree is not None]
    except SqlglotError as error:
        details = getattr(error, "errors", None) or [{}]
        line, column = details[0].get("line"), details[0].get("col")
        place = f" in line {line} near character {column}" if line else ""
        what = str(details[0].get("description") or str(error).splitlines()[0]).rstrip(".")
        if "Required keyword" in what or "<Token" in what:
            # The message uses sqlglot's internal terms.
            what = "something is missing there"
        raise _invalid(f"It cannot be read{place}: {what}. Check its spelling.") from None
    except RecursionError:
        raise _invalid("It is nested too deep. Flatten it, or use WITH.") from None
    if len(trees) != 1:
        raise _invalid(f"It holds {len(trees)} statements. Run one at a time.")
    tree = trees[0]
    if not isinstance(tree, exp.Query):
        raise _invalid("It is no query. Write a SELECT.")
    return tree


def _options(readable: ReadableQuery, tree: exp.Query, nodes: list[exp.Table]) -> dict[int, Mapping[str, str]]:
    """The options of the tables' hints by the id of the table's node; every hint must belong to a table."""
    found: dict[int, int] = {}
    for node in nodes:
        alias = node.args.get("alias")
        for comments in (node.comments, node.this.comments, alias.comments if alias is not None else None):
            number = marked_hint(comments)
            if number is not None and number < len(readable.hints):
                found[number] = id(node)
    for number in range(len(readable.hints)):
        if number not in found:
            readable.fail_misplaced(number)
    return {node_id: readable.hints[number] for number, node_id in found.items()}


def _is_common(node: exp.Table) -> bool:
    """Whether a name means a definition in WITH, and not a table.

    Inside a definition, its own name and the names of later definitions still mean tables.
    """
    if node.args.get("db") or node.args.get("version"):
        return False
    child: exp.Expr = node
    parent = node.parent
    while parent is not None:
        if isinstance(parent, exp.With):
            names = [each.alias.casefold() for each in parent.expressions]
            place = next(i for i, each in enumerate(parent.expressions) if each is child)
            visible = names if parent.args.get("recursive") else names[:place]
        else:
            common = parent.args.get("with_")
            visible = (
                [] if common is None or common is child else [each.alias.casefold() for each in common.expressions]
            )
        if node.name.casefold() in visible:
            return True
        child, parent = parent, parent.parent
    return False


def _table_use(node: exp.Table, relation: str, options: Mapping[str, str]) -> TableUse:
    snapshot_id = tag = timestamp_ms = None
    version = node.args.get("version")
    if version is not None:
        value = version.expression
        if version.args.get("kind") != "AS OF" or value is None:
            raise _invalid("Other versions are written VERSION AS OF 3 or TIMESTAMP AS OF '2024-05-01 12:00:00'.")
        if version.name.upper() == "VERSION":
            snapshot_id, tag = _version(value)
        else:
            timestamp_ms = _timestamp_ms(value)
    return TableUse(
        relation, Name(node.db or None, node.name, node.catalog or None), snapshot_id, tag, timestamp_ms, options, node
    )


def _version(value: exp.Expr) -> tuple[int | None, str | None]:
    """A snapshot's id, or a tag."""
    text = value.name if isinstance(value, exp.Literal) else ""
    if text.isascii() and text.isdigit() and 0 < int(text) < 2**63:
        return int(text), None
    if value.is_string and not find_tag_problem(text):
        return None, text
    raise _invalid(
        f"VERSION AS OF {value.sql('spark')[:80]} is no snapshot: give its id, a number from 1, or its tag in quotes, "
        "as in VERSION AS OF 'release-1'."
    )


def _timestamp_ms(value: exp.Expr) -> int:
    if isinstance(value, exp.Literal) and value.name.isascii() and value.name.isdigit():
        # As Spark casts a number to a timestamp.
        seconds = int(value.name)
        if seconds > _LAST_SECOND:
            raise _invalid(
                f"TIMESTAMP AS OF {value.name[:40]} is after the year 9999: a number counts seconds since "
                "1970-01-01 UTC, not milliseconds."
            )
        return seconds * 1000
    literal = value.this if isinstance(value, exp.Cast) else value
    if not isinstance(literal, exp.Literal) or not literal.is_string:
        raise _invalid(
            "TIMESTAMP AS OF takes a text, as in TIMESTAMP AS OF '2024-05-01 12:00:00' (without a zone it is UTC), or "
            "seconds since 1970-01-01 UTC."
        )
    try:
        return parse_timestamp(literal.name) // 1000
    except ValueError as error:
        raise _invalid(f"TIMESTAMP AS OF: {error}.") from None


def _mentioned(tree: exp.Expr, tables: list[exp.Table], files: Sequence[FileUse]) -> frozenset[str] | None:
    for star in tree.find_all(exp.Star):
        if not isinstance(star.parent, exp.Count):
            return None
    if any(join.args.get("method") == "NATURAL" for join in tree.find_all(exp.Join)):
        return None
    aliases = {(node.alias or node.name).casefold() for node in tables}
    aliases |= {(use.node.alias or use.function).casefold() for use in files}
    for column in tree.find_all(exp.Column):
        # `SELECT t FROM t` is a whole row.
        if not column.table and column.name.casefold() in aliases:
            return None
    if any(call.name.casefold() == "columns" for call in tree.find_all(exp.Anonymous)):
        return None
    return frozenset(identifier.name.casefold() for identifier in tree.find_all(exp.Identifier))


def _conditions(node: exp.Table, name: str) -> Iterator[exp.Expr]:
    """Conditions of the WHERE that a row of this table must fulfil to be in the result of its SELECT."""
    parent = node.parent
    join = parent if isinstance(parent, exp.Join) else None
    select = parent.parent if parent is not None else None
    if not isinstance(select, exp.Select) or not isinstance(parent, exp.From | exp.Join) or node.args.get("pivots"):
        return
    joins = select.args.get("joins") or []
    if any(_side(each) not in _KEEPS_LEFT for each in joins) or node.args.get("joins"):
        return
    if join is not None and _side(join) not in ("", "INNER", "CROSS"):
        return
    where = select.args.get("where")
    if where is None or select.args.get("laterals"):
        return
    alias = name.casefold()
    alone = not joins
    # With no other table around, what stands before a column can only be a struct.
    only = alone and select.parent is None
    condition = where.this.unnest()
    for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
        part = part.unnest()
        columns = list(part.find_all(exp.Column))
        if part.find(exp.Query, exp.Subquery) or not columns:
            continue
        if all(column.table.casefold() == alias or only or (alone and not column.table) for column in columns):
            yield _without_alias(part, alias)


def _without_alias(condition: exp.Expr, alias: str) -> exp.Expr:
    """The condition with bare names of the table's columns; what still stands before a name is a struct."""
    copy = condition.copy()
    for column in copy.find_all(exp.Column):
        if column.table.casefold() == alias:
            column.set("table", None)
    return copy


def _side(join: exp.Join) -> str:
    kind = str(join.args.get("kind") or "").upper()
    side = str(join.args.get("side") or "").upper()
    return side if side else kind


def _is_safe(condition: exp.Expr, fields: dict[str, pa.Field]) -> bool:
    """Whether DuckDB and lakelog certainly agree on a condition."""
    if isinstance(condition, exp.And | exp.Or):
        return all(_is_safe(part.unnest(), fields) for part in condition.flatten())
    if isinstance(condition, exp.Not):
        inner = condition.this.unnest()
        return isinstance(inner, exp.Is | exp.In) and _is_safe(inner, fields)
    if isinstance(condition, exp.Is):
        return _field(condition.this, fields) is not None and isinstance(condition.expression, exp.Null)
    if isinstance(condition, _COMPARISONS):
        left, right = condition.this, condition.expression
        column, constant = (left, right) if isinstance(left, exp.Column) else (right, left)
        return _agree(_field(column, fields), [constant])
    if isinstance(condition, exp.Between):
        return _agree(_field(condition.this, fields), [condition.args["low"], condition.args["high"]])
    if isinstance(condition, exp.In) and condition.expressions and not condition.args.get("query"):
        return _agree(_field(condition.this, fields), condition.expressions)
    return False


def _agree(field: pa.Field | None, constants: list[exp.Expr]) -> bool:
    if field is None:
        return False
    return all(_is_constant_of(constant, field.type) for constant in constants)


def _is_constant_of(constant: exp.Expr, data_type: pa.DataType) -> bool:
    if isinstance(constant, exp.Neg):
        constant = constant.this
        if not isinstance(constant, exp.Literal) or constant.is_string:
            return False
    if isinstance(constant, exp.Cast):
        # DATE '...' and TIMESTAMP '...'.
        literal = constant.this
        if not isinstance(literal, exp.Literal) or not literal.is_string or not pt.is_date(data_type):
            return False
        return constant.to.this == exp.DataType.Type.DATE and _is_plain_time(literal.name, data_type)
    if not isinstance(constant, exp.Literal):
        return False
    if constant.is_string:
        if pt.is_string(data_type):
            return _PLAIN_TEXT.fullmatch(constant.name) is not None
        return (pt.is_date(data_type) or pt.is_timestamp(data_type)) and _is_plain_time(constant.name, data_type)
    if pt.is_integer(data_type) or pt.is_decimal(data_type):
        return constant.name.isdigit() and len(constant.name) <= 18
    # DuckDB converts a decimal to a DOUBLE as we do, but compares a FLOAT with the nearest FLOAT.
    return bool(pt.is_float64(data_type)) and len(constant.name) <= 15


def _is_plain_time(text: str, data_type: pa.DataType) -> bool:
    """Whether a text is a day, or for a timestamp also a time in UTC, in the one form that all SQL reads alike."""
    match = _PLAIN_TIME.fullmatch(text)
    return match is not None and (match[1] is None or not pt.is_date(data_type))


def _field(column: exp.Expr, fields: dict[str, pa.Field]) -> pa.Field | None:
    if not isinstance(column, exp.Column) or column.args.get("db") or isinstance(column.this, exp.Star):
        return None
    name = f"{column.table}.{column.name}" if column.table else column.name
    return fields.get(name.casefold())


def _quoted(condition: exp.Expr) -> exp.Expr:
    copy = condition.copy()
    for name in copy.find_all(exp.Identifier):
        name.set("quoted", True)
    return copy


def _invalid(explanation: str) -> InvalidArgument:
    return InvalidArgument(f"The query cannot be run: {explanation}", reason="SQL_SYNTAX")
