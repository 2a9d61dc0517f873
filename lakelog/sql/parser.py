"""The grammar of statements: one SQL text becomes a value of `statements`. Pure.

Queries are recognised here, and sqlglot reads them later (`query`). All other statements are read here word by word, so
that each error shows its place and no word is ignored silently.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from lakelog.format.filter.syntax import Syntax
from lakelog.sql.alter_columns import parse_column_changes
from lakelog.sql.call_syntax import parse_call
from lakelog.sql.create_table import parse_create_table, take_options
from lakelog.sql.dialect import read_options
from lakelog.sql.grant_syntax import parse_grant, parse_revoke, parse_show_grants
from lakelog.sql.row_changes.syntax import parse_delete, parse_merge, parse_truncate, parse_update
from lakelog.sql.statements import (
    AlterColumns,
    AlterOptions,
    CreateDatabase,
    CreateTableAs,
    Delete,
    DescribeTable,
    DropDatabase,
    DropTable,
    Explain,
    Insert,
    Merge,
    Query,
    ShowCreateTable,
    ShowDatabases,
    ShowTables,
    Statement,
    Update,
    UseDatabase,
    Values,
)
from lakelog.sql.word_reader import WordReader

_SUPPORTED: Final = (
    "CREATE DATABASE, DROP DATABASE, SHOW DATABASES, SHOW TABLES, USE, CREATE TABLE, DROP TABLE, ALTER TABLE ... SET, "
    "ALTER TABLE ... RESET, ALTER TABLE ... ADD, DROP, RENAME and ALTER COLUMN, COMMENT ON TABLE, DESCRIBE, "
    "SHOW CREATE TABLE, INSERT INTO, INSERT OVERWRITE, DELETE FROM, UPDATE, MERGE INTO, TRUNCATE TABLE, EXPLAIN, CALL, "
    "GRANT, REVOKE, SHOW GRANTS and SELECT"
)
_NOT_CREATED: Final = {
    "OR": " Nothing is replaced by it: DROP TABLE first, or empty the table by INSERT OVERWRITE.",
    "VIEW": " There are no views in this version: use WITH in the query.",
    "TEMPORARY": " Tables stay until DROP TABLE; leave TEMPORARY out.",
    "TEMP": " Tables stay until DROP TABLE; leave TEMP out.",
    "EXTERNAL": " The metastore chooses where files are; leave EXTERNAL out.",
}
_SHOWN: Final = {
    "PARTITIONS": " Partitions are rows of a system table: SELECT * FROM orders$partitions.",
    "COLUMNS": " DESCRIBE shows the columns of a table.",
    "TBLPROPERTIES": " Options are rows of a system table: SELECT * FROM orders$options.",
}


def parse_statement(sql: str) -> Statement:
    """Read one statement; a semicolon may end it.

    Raises:
        InvalidArgument: It cannot be read; shows the place, and says what is expected or supported.
    """
    reader = WordReader(sql)
    first = reader.peek()
    if first.kind == "end":
        reader.fail("It is empty. " + f"There are {_SUPPORTED}.")
    if first.word in ("SELECT", "WITH", "(", "VALUES", "FROM"):
        return Query(sql)
    parse = _STATEMENTS.get(first.word)
    if parse is None:
        reader.fail(f"There is no such statement. Statements are {_SUPPORTED}.")
    reader.take()
    return parse(reader)


def _parse_create(reader: WordReader) -> Statement:
    if reader.accept("TABLE"):
        return parse_create_table(reader)
    if not (reader.accept("DATABASE") or reader.accept("SCHEMA")):
        reader.fail(f"CREATE makes a DATABASE or a TABLE.{_NOT_CREATED.get(reader.peek().word, '')}")
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = _take_database(reader)
    comment = reader.take_text("A comment") if reader.accept("COMMENT") else ""
    reader.expect_end("CREATE DATABASE")
    return CreateDatabase(name, if_not_exists, comment)


def _parse_drop(reader: WordReader) -> Statement:
    if reader.accept("TABLE"):
        if_exists = reader.accept("IF", "EXISTS")
        name = reader.take_name()
        reader.expect_end("DROP TABLE")
        return DropTable(name, if_exists)
    if not (reader.accept("DATABASE") or reader.accept("SCHEMA")):
        reader.fail("DROP removes a DATABASE or a TABLE.")
    if_exists = reader.accept("IF", "EXISTS")
    database = _take_database(reader)
    cascade = reader.accept("CASCADE")
    if not cascade:
        reader.accept("RESTRICT")
    reader.expect_end("DROP DATABASE")
    return DropDatabase(database, if_exists, cascade)


def _parse_show(reader: WordReader) -> Statement:
    if reader.accept("DATABASES") or reader.accept("SCHEMAS"):
        pattern = _take_pattern(reader)
        reader.expect_end("SHOW DATABASES")
        return ShowDatabases(pattern)
    if reader.accept("CREATE", "TABLE"):
        name = reader.take_name()
        reader.expect_end("SHOW CREATE TABLE")
        return ShowCreateTable(name)
    if reader.accept("GRANTS"):
        return parse_show_grants(reader)
    if not reader.accept("TABLES"):
        reader.fail(
            "There are SHOW DATABASES, SHOW TABLES, SHOW CREATE TABLE and SHOW GRANTS."
            f"{_SHOWN.get(reader.peek().word, '')}"
        )
    database = None
    if reader.accept("IN") or reader.accept("FROM"):
        database = _take_database(reader)
    pattern = _take_pattern(reader)
    reader.expect_end("SHOW TABLES")
    return ShowTables(database, pattern)


def _take_database(reader: WordReader) -> str:
    place = reader.peek()
    name = reader.take_identifier("a database")
    if reader.peek().word == ".":
        reader.fail(
            "A database's name has one part, and this statement works in the session's own catalog. If "
            f"'{name[:80]}' is another catalog, connect to it (lakelog --catalog {name[:80]}, or "
            f"catalog.catalog('{name[:80]}')).",
            place,
        )
    return name


def _take_pattern(reader: WordReader) -> str | None:
    if reader.accept("LIKE"):
        return reader.take_text("A pattern such as 'ord%'")
    return None


def _parse_explain(reader: WordReader) -> Statement:
    if reader.peek().word in ("ANALYZE", "EXTENDED", "FORMATTED", "CODEGEN", "COST"):
        reader.fail("EXPLAIN shows what would be done and runs nothing. Leave this word out.")
    start = reader.peek()
    # Blanks replace EXPLAIN, so that errors show their place in the original text.
    before = re.sub(r"[^\n]", " ", reader.source.text[: start.start])
    statement = None if start.kind == "end" else parse_statement(before + reader.rest_as_query())
    if not isinstance(statement, Query | Insert | CreateTableAs | Delete | Update | Merge):
        reader.fail(
            "EXPLAIN is followed by SELECT, INSERT, DELETE, UPDATE, MERGE or CREATE TABLE ... AS SELECT.", start
        )
    return Explain(statement)


def _parse_use(reader: WordReader) -> Statement:
    if reader.peek_words(2)[0] in ("DATABASE", "SCHEMA") and reader.peek_words(2)[1] not in ("", ";"):
        reader.take()
    name = _take_database(reader)
    reader.expect_end("USE")
    return UseDatabase(name)


def _parse_alter(reader: WordReader) -> Statement:
    reader.expect("TABLE", then="Only tables can be altered.")
    if reader.peek_words(2) == ("IF", "EXISTS"):
        reader.fail("ALTER TABLE always needs an existing table. Leave IF EXISTS out.")
    name = reader.take_name()
    if reader.accept("SET"):
        reader.accept("TBLPROPERTIES")
        options = take_options(reader)
        reader.expect_end("ALTER TABLE ... SET")
        return AlterOptions(name, set=options)
    if not (reader.accept("RESET") or reader.accept("UNSET", "TBLPROPERTIES")):
        changes = parse_column_changes(reader)
        reader.expect_end("ALTER TABLE")
        return AlterColumns(name, changes, source=reader.source)
    reader.expect("(", then="RESET takes keys in parentheses, as in RESET ('file.compression').")
    keys = [reader.take_text("The key of an option")]
    while reader.accept(","):
        keys.append(reader.take_text("The key of an option"))
    reader.expect(")", then="Keys are separated by commas.")
    reader.expect_end("ALTER TABLE ... RESET")
    return AlterOptions(name, unset=tuple(keys))


def _parse_comment(reader: WordReader) -> Statement:
    reader.expect("ON", then="A table's comment is set by COMMENT ON TABLE shop.orders IS 'text'.")
    if not reader.accept("TABLE"):
        reader.fail(
            "COMMENT ON is followed by TABLE. A column's comment is set by ALTER TABLE ... ALTER COLUMN ... COMMENT."
        )
    name = reader.take_name()
    reader.expect("IS", then="The comment follows IS.")
    comment = "" if reader.accept("NULL") else reader.take_text("A comment")
    reader.expect_end("COMMENT ON TABLE")
    return AlterColumns(name, comment=comment)


def _parse_describe(reader: WordReader) -> Statement:
    if reader.peek().word == "TABLE" and reader.peek_words(2)[1] not in ("", ";", "."):
        reader.take()
    if reader.peek().word in ("EXTENDED", "FORMATTED") and reader.peek_words(2)[1] not in ("", ";", "."):
        reader.fail("DESCRIBE always shows everything; leave this word out.")
    name = reader.take_name()
    reader.expect_end("DESCRIBE")
    return DescribeTable(name)


def _parse_insert(reader: WordReader) -> Statement:
    overwrite = reader.accept("OVERWRITE")
    if not overwrite and not reader.accept("INTO"):
        reader.fail("INSERT is followed by INTO or OVERWRITE.")
    reader.accept("TABLE")
    name = reader.take_name()
    hint = reader.accept_hint()
    options = {} if hint is None else read_options(hint, reader.source)
    partition = _take_partition(reader)
    has_columns = reader.peek().word == "(" and reader.peek_words(2)[1] not in ("SELECT", "WITH", "(")
    columns = reader.take_identifiers("columns") if has_columns else ()
    if reader.peek().word in ("SELECT", "WITH", "FROM", "("):
        return Insert(name, Query(reader.rest_as_query()), columns, overwrite, partition, reader.source, options)
    reader.expect("VALUES", then="INSERT takes VALUES (...), (...), or a SELECT.")
    rows = [_take_row(reader)]
    while reader.accept(","):
        rows.append(_take_row(reader))
    reader.expect_end("INSERT")
    return Insert(name, Values(reader.source, tuple(rows)), columns, overwrite, partition, reader.source, options)


def _take_partition(reader: WordReader) -> tuple[tuple[str, Syntax], ...]:
    if not reader.accept("PARTITION"):
        return ()
    reader.expect("(", then="PARTITION is written PARTITION (column = value).")
    values: list[tuple[str, Syntax]] = []
    while True:
        column = reader.take_identifier("a partition column")
        reader.expect("=", then="Each column of PARTITION has a value. Leave out those that the rows decide.")
        if column in dict(values):
            reader.fail(f"Column '{column}' has a value already.")
        values.append((column, reader.take_value()))
        if not reader.accept(","):
            break
    reader.expect(")", then="PARTITION is written PARTITION (column = value).")
    return tuple(values)


def _take_row(reader: WordReader) -> tuple[Syntax, ...]:
    reader.expect("(", then="Each row of VALUES is written in parentheses.")
    values = [_take_row_value(reader)]
    while reader.accept(","):
        values.append(_take_row_value(reader))
    reader.expect(")", then="Values of a row are separated by commas.")
    return tuple(values)


def _take_row_value(reader: WordReader) -> Syntax:
    word = reader.peek()
    if word.word == "DEFAULT" and reader.peek_words(2)[1] in (",", ")"):
        reader.take()
        return Syntax("default", word.start, word.end)
    return reader.take_value()


_STATEMENTS: Final[dict[str, Callable[[WordReader], Statement]]] = {
    "CREATE": _parse_create,
    "DROP": _parse_drop,
    "SHOW": _parse_show,
    "USE": _parse_use,
    "ALTER": _parse_alter,
    "DESCRIBE": _parse_describe,
    "DESC": _parse_describe,
    "INSERT": _parse_insert,
    "COMMENT": _parse_comment,
    "DELETE": parse_delete,
    "UPDATE": parse_update,
    "MERGE": parse_merge,
    "TRUNCATE": parse_truncate,
    "CALL": parse_call,
    "GRANT": parse_grant,
    "REVOKE": parse_revoke,
    "EXPLAIN": _parse_explain,
}
STATEMENT_WORDS: Final = frozenset(_STATEMENTS)
"""The first words of all statements except queries."""
