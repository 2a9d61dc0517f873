"""DELETE, UPDATE, MERGE and TRUNCATE. Pure; expressions in them are read later, when the table is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakelog.sql.create_table import quote_name
from lakelog.sql.dialect import read_options
from lakelog.sql.statements import ChangedTable, Delete, Merge, Query, Truncate, Update
from lakelog.sql.word_reader import WordReader
from lakelog.writes.row_changes.clauses import (
    Clause,
    ColumnDefault,
    when_matched,
    when_not_matched,
    when_not_matched_by_source,
)

_MERGE: Final = (
    "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) "
    "VALUES (s.id, s.v)"
)


def parse_delete(reader: WordReader) -> Delete:
    """Reads what follows DELETE.

    Raises:
        InvalidArgument: It cannot be read; shows the place.
    """
    reader.expect("FROM", then="It is written DELETE FROM orders WHERE id = 5.")
    table = _take_table(reader, "WHERE", "USING")
    if reader.peek().word == "USING":
        reader.fail("DELETE has no USING. Write MERGE INTO ... USING ... WHEN MATCHED THEN DELETE.")
    where = _take_where(reader)
    reader.expect_end("DELETE")
    return Delete(table, where)


def parse_update(reader: WordReader) -> Update:
    """Reads what follows UPDATE; errors as of `parse_delete`."""
    table = _take_table(reader, "SET")
    reader.expect("SET", then="It is written UPDATE orders SET price = price * 2 WHERE id = 5.")
    values = _take_assignments(reader, table, "WHERE", "FROM")
    if reader.peek().word == "FROM":
        reader.fail("UPDATE has no FROM. Write MERGE INTO ... USING ... WHEN MATCHED THEN UPDATE SET ....")
    where = _take_where(reader)
    reader.expect_end("UPDATE")
    return Update(table, values, where)


def parse_merge(reader: WordReader) -> Merge:
    """Reads what follows MERGE; errors as of `parse_delete`."""
    reader.expect("INTO", then=f"It is written {_MERGE}.")
    table = _take_table(reader, "USING")
    reader.expect("USING", then=f"It is written {_MERGE}.")
    source, names = _take_source(reader)
    reader.expect("ON", then=f"It is written {_MERGE}.")
    on = reader.take_expression("A condition", "WHEN")
    clauses: list[Clause] = []
    while reader.accept("WHEN"):
        clauses.append(_take_clause(reader, table))
    if not clauses:
        reader.fail(f"MERGE needs a WHEN: {_MERGE}.")
    reader.expect_end("MERGE")
    return Merge(table, source, names, on, tuple(clauses))


def parse_truncate(reader: WordReader) -> Truncate:
    """Reads what follows TRUNCATE; errors as of `parse_delete`."""
    reader.expect("TABLE", then="It is written TRUNCATE TABLE orders.")
    name = reader.take_name()
    if reader.peek().word == "PARTITION":
        reader.fail("TRUNCATE empties a whole table. Write DELETE FROM ... WHERE with the partition's values.")
    reader.expect_end("TRUNCATE")
    return Truncate(name)


def _take_table(reader: WordReader, *following: str) -> ChangedTable:
    name = reader.take_name()
    hint = reader.accept_hint()
    options: Mapping[str, str] = {} if hint is None else read_options(hint, reader.source)
    return ChangedTable(name, reader.take_alias(*following), options)


def _take_where(reader: WordReader) -> str | None:
    return reader.take_expression("A condition") if reader.accept("WHERE") else None


def _take_source(reader: WordReader) -> tuple[Query, tuple[str, ...]]:
    if reader.peek().word == "(":
        query = reader.take_parenthesised("The source of a MERGE is a table, or a query in parentheses.")
        alias = reader.take_alias("ON")
        if alias is None:
            reader.fail("The query needs a name for the conditions: USING (SELECT ...) AS source ON ....")
        if reader.peek().word == "(":
            columns = ", ".join(quote_name(each) for each in reader.take_identifiers("the columns of the source"))
            query = f"SELECT * FROM (\n{query}\n) AS {quote_name(alias)}({columns})"
        return Query(query), (alias,)
    start = reader.peek().start
    name = reader.take_name()
    text = reader.source.text[start : reader.previous_end]
    alias = reader.take_alias("ON")
    return Query(f"SELECT * FROM {text}"), (alias,) if alias is not None else (name.table, str(name))


def _take_clause(reader: WordReader, table: ChangedTable) -> Clause:
    if reader.accept("MATCHED"):
        matched = when_matched(_take_condition(reader))
        if reader.accept("DELETE"):
            return matched.delete()
        reader.expect("UPDATE", "SET", then="After WHEN MATCHED THEN stands UPDATE SET or DELETE.")
        return matched.update_all() if reader.accept("*") else matched.update(_take_assignments(reader, table, "WHEN"))
    reader.expect("NOT", "MATCHED", then="There are WHEN MATCHED, WHEN NOT MATCHED and WHEN NOT MATCHED BY SOURCE.")
    if reader.accept("BY", "SOURCE"):
        left = when_not_matched_by_source(_take_condition(reader))
        if reader.accept("DELETE"):
            return left.delete()
        reader.expect("UPDATE", "SET", then="After WHEN NOT MATCHED BY SOURCE THEN stands UPDATE SET or DELETE.")
        return left.update(_take_assignments(reader, table, "WHEN"))
    reader.accept("BY", "TARGET")
    new = when_not_matched(_take_condition(reader))
    reader.expect("INSERT", then="After WHEN NOT MATCHED THEN stands INSERT.")
    if reader.accept("*"):
        return new.insert_all()
    columns = reader.take_identifiers("the columns to insert")
    reader.expect("VALUES", then="INSERT of a MERGE is written INSERT (id, v) VALUES (s.id, s.v), or INSERT *.")
    start = reader.peek()
    reader.expect("(", then="VALUES are written in parentheses.")
    values = [_to_value(reader.take_expression("A value", ","))]
    while reader.accept(","):
        values.append(_to_value(reader.take_expression("A value", ",")))
    reader.expect(")", then="Values are separated by commas.")
    if len(values) != len(columns):
        reader.fail(f"There are {len(values)} values for {len(columns)} columns. Give one for each.", start)
    if len(set(columns)) < len(columns):
        reader.fail("A column is named twice. Name each once.", start)
    return new.insert(dict(zip(columns, values, strict=True)))


def _take_condition(reader: WordReader) -> str | None:
    condition = reader.take_expression("A condition", "THEN") if reader.accept("AND") else None
    reader.expect("THEN", then="It is followed by UPDATE, DELETE or INSERT.")
    return condition


def _take_assignments(reader: WordReader, table: ChangedTable, *until: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    while True:
        place = reader.peek()
        column = reader.take_identifier("a column")
        own = (table.alias or table.name.table).casefold()
        if reader.peek().word == "." and column.casefold() == own:
            reader.take()
            column = reader.take_identifier("a column")
        if reader.peek().word == ".":
            reader.fail("Only whole columns are set. Give the whole struct: named_struct('a', 1, ...).", place)
        if column in values:
            reader.fail(f"Column '{column}' has a value already.", place)
        reader.expect("=", then="It is written SET column = value.")
        values[column] = _to_value(reader.take_expression("A value", ",", *until))
        if not reader.accept(","):
            return values


def _to_value(text: str) -> str | ColumnDefault:
    return ColumnDefault() if text.upper() == "DEFAULT" else text
