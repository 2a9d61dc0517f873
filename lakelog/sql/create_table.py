"""CREATE TABLE, read and written: `parse_create_table` reads what `to_create_sql` writes as the same table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

import pyarrow as pa

from lakelog.errors import InvalidArgument
from lakelog.format.filter.parameters import to_constant_text
from lakelog.format.tables.table import TableName
from lakelog.format.types.defaults import WRITE_DEFAULT_KEY, to_default_text, write_default
from lakelog.format.types.schema import TableSchema
from lakelog.format.types.sql_types import from_sql_type, to_sql_type
from lakelog.options.registry import renew_values
from lakelog.sql.statements import CreateTable, CreateTableAs, Name, Query
from lakelog.sql.values import to_value
from lakelog.sql.word_reader import WordReader

_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NOT_COLUMNS: Final = frozenset({"PRIMARY", "CONSTRAINT", "UNIQUE", "WATERMARK", "FOREIGN", "CHECK"})
_NO_CONSTRAINTS: Final = (
    "Columns have NOT NULL, DEFAULT and COMMENT, and a table a PRIMARY KEY; no other constraints are possible."
)


def parse_create_table(reader: WordReader) -> CreateTable | CreateTableAs:
    """Read what follows CREATE TABLE: columns, keys, options, and perhaps AS with a query. Pure.

    Raises:
        InvalidArgument: Shows the place.
    """
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.take_name()
    if reader.peek().word == "LIKE":
        reader.fail("Columns are expected. SHOW CREATE TABLE shows those of a table; or use AS SELECT.")
    if reader.peek().word != "(":
        return _parse_as_query(reader, name, if_not_exists)
    reader.expect("(", then="The columns are written in parentheses.")
    fields: list[pa.Field] = []
    primary_key: tuple[str, ...] = ()
    while True:
        start = reader.peek()
        if start.word == "PRIMARY" and reader.peek_words(3)[1:] == ("KEY", "("):
            reader.take()
            reader.take()
            key = reader.take_identifiers("the key's columns")
            reader.accept("NOT", "ENFORCED")
        else:
            field, is_key = _take_column(reader)
            fields.append(field)
            key = (field.name,) if is_key else ()
        if key and primary_key:
            reader.fail("There is a primary key already. Name all of its columns in one PRIMARY KEY (...).", start)
        primary_key = primary_key or key
        if not reader.accept(","):
            break
    reader.expect(")", then="Columns are separated by commas.")
    if not fields:
        if reader.peek().word in _BEFORE_QUERY:
            # The query gives the columns; the parentheses hold the key.
            return _parse_as_query(reader, name, if_not_exists, primary_key)
        reader.fail("A table needs at least one column.")
    declared = {field.name.casefold(): field.name for field in fields}
    partition_by, options, comment = _take_clauses(reader)
    primary_key = _merge_keys(reader, options, "primary-key", "PRIMARY KEY", primary_key)
    partition_by = _merge_keys(reader, options, "partition", "PARTITIONED BY", partition_by)
    primary_key, partition_by = (
        tuple(declared.get(column.casefold(), column) for column in columns) for columns in (primary_key, partition_by)
    )
    # The key's columns are always NOT NULL, written or not.
    fields = [field.with_nullable(field.nullable and field.name not in primary_key) for field in fields]
    reader.expect_end("CREATE TABLE")
    return CreateTable(name, pa.schema(fields), primary_key, partition_by, options, comment, if_not_exists)


def _parse_as_query(
    reader: WordReader, name: Name, if_not_exists: bool, primary_key: tuple[str, ...] = ()
) -> CreateTableAs:
    if reader.peek().word not in _BEFORE_QUERY:
        reader.fail("Columns in parentheses are expected, or keys and options, and then AS SELECT.")
    if not primary_key and reader.accept("PRIMARY", "KEY"):
        primary_key = reader.take_identifiers("the key's columns")
        reader.accept("NOT", "ENFORCED")
    partition_by, options, comment = _take_clauses(reader, ends_with_query=True)
    primary_key = _merge_keys(reader, options, "primary-key", "PRIMARY KEY", primary_key)
    partition_by = _merge_keys(reader, options, "partition", "PARTITIONED BY", partition_by)
    reader.expect("AS", then="The query follows AS and gives the columns. PRIMARY KEY comes before it.")
    if reader.peek().word not in ("SELECT", "WITH", "FROM", "("):
        reader.fail("A SELECT is expected.")
    query = Query(reader.rest_as_query())
    return CreateTableAs(name, query, primary_key, partition_by, options, comment, if_not_exists)


def take_options(reader: WordReader) -> dict[str, str]:
    """Read `('key' = 'value', ...)`. Pure.

    Raises:
        InvalidArgument: The text cannot be read, or a key occurs twice; shows the place.
    """
    reader.expect("(", then="Options are written ('key' = 'value', ...).")
    options: dict[str, str] = {}
    while True:
        token = reader.peek()
        key = reader.take_text("The key of an option")
        if key in options:
            reader.fail(f"Option '{key}' is given twice. Give it once.", token)
        reader.expect("=", then="Options are written ('key' = 'value', ...).")
        options[key] = reader.take_text("The value of an option")
        if not reader.accept(","):
            break
    reader.expect(")", then="Options are separated by commas.")
    return options


def to_create_sql(
    name: TableName, schema: TableSchema, *, options: Mapping[str, str] | None = None, comment: str = ""
) -> str:
    """Write the statement that makes a table like this one. Pure.

    Args:
        name: The table's name.
        schema: Its columns and keys; the comments of columns are in their metadata under `comment`.
        options: The options by key; the statement lists them sorted by key.
        comment: The table's comment.

    Returns:
        Several lines without a semicolon. Read again, they give the same columns, keys, options and comments.
    """
    lines = [_column_text(field) for field in schema.arrow]
    if schema.primary_key:
        lines.append(f"PRIMARY KEY ({_names_text(schema.primary_key)}) NOT ENFORCED")
    parts = [f"CREATE TABLE {quote_name(name.database)}.{quote_name(name.name)} (\n  " + ",\n  ".join(lines) + "\n)"]
    if comment:
        parts.append(f"COMMENT {quote_text(comment)}")
    if schema.partition_by:
        parts.append(f"PARTITIONED BY ({_names_text(schema.partition_by)})")
    if options:
        pairs = [f"{quote_text(key)} = {quote_text(text)}" for key, text in renew_values(options).items()]
        parts.append("WITH (\n  " + ",\n  ".join(pairs) + "\n)")
    return "\n".join(parts)


def quote_name(name: str) -> str:
    """A name in SQL: in back-quotes unless it is a plain word."""
    if _PLAIN_NAME.fullmatch(name) and name.upper() not in _NOT_COLUMNS:
        return name
    return "`" + name.replace("`", "``") + "`"


def quote_text(text: str) -> str:
    """A text as a literal of SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _take_column(reader: WordReader) -> tuple[pa.Field, bool]:
    words = reader.peek_words(3)
    if words[0] == "CONSTRAINT" and words[2] in _NOT_COLUMNS:
        reader.fail("Constraints have no names. Leave CONSTRAINT and the name out.")
    if words[0] in _NOT_COLUMNS and words[1] in ("KEY", "(", "FOR"):
        reader.fail(f"{_NO_CONSTRAINTS} Put a column of this name in `back-quotes`.")
    name = reader.take_identifier("a column")
    text, start = reader.take_type()
    if not text:
        reader.fail(f"The type of column '{name}' is expected.")
    try:
        data_type = from_sql_type(text)
    except InvalidArgument as error:
        reader.source.fail(start, f"Column '{name}': {error.message}")
    nullable, comment, is_key, default = True, "", False, None
    while True:
        if reader.accept("NOT", "NULL"):
            nullable = False
        elif reader.accept("COMMENT"):
            comment = reader.take_text("A comment")
        elif reader.accept("DEFAULT"):
            default = to_value(reader.source, reader.take_value(), pa.field(name, data_type))
        elif reader.accept("PRIMARY", "KEY"):
            is_key = True
            reader.accept("NOT", "ENFORCED")
        elif not reader.accept("NULL"):
            break
    if reader.peek().word not in (",", ")"):
        reader.fail(f"The column ends here. {_NO_CONSTRAINTS}")
    metadata = {b"comment": comment.encode()} if comment else {}
    if default is not None:
        metadata[WRITE_DEFAULT_KEY] = to_default_text(pa.scalar(default, data_type), pa.field(name, data_type))
    return pa.field(name, data_type, nullable, metadata), is_key


def _take_clauses(reader: WordReader, *, ends_with_query: bool = False) -> tuple[tuple[str, ...], dict[str, str], str]:
    partition_by: tuple[str, ...] = ()
    options: dict[str, str] = {}
    comment = ""
    seen: set[str] = set()
    while True:
        word = reader.peek().word
        clause = "options" if word in _OPTION_WORDS else word
        if clause in seen:
            reader.fail(
                f"{word} is there already. Write it once." if clause == word else "Write all options in one list."
            )
        seen.add(clause)
        if reader.accept("COMMENT"):
            comment = reader.take_text("A comment")
        elif reader.accept("PARTITIONED"):
            reader.expect("BY", then="Partition columns are written PARTITIONED BY (a, b).")
            partition_by = _take_partition_columns(reader)
        elif clause == "options":
            reader.take()
            options = take_options(reader)
        elif reader.accept("USING", "LAKELOG"):
            # Spark's users write this for every table that is not Parquet by default.
            pass
        elif word in _REFUSED_CLAUSES and not (ends_with_query and word == "AS"):
            reader.fail(_REFUSED_CLAUSES[word])
        else:
            return partition_by, options, comment


def _merge_keys(
    reader: WordReader, options: dict[str, str], key: str, clause: str, columns: tuple[str, ...]
) -> tuple[str, ...]:
    """Columns of a key from its clause, or from the option that Paimon's Spark tables use, which is then removed."""
    text = options.pop(key, None)
    if text is None:
        return columns
    if columns:
        reader.fail(f"Option '{key}' says what {clause} says already. Leave the option out.")
    names = tuple(part.strip() for part in text.split(","))
    if not all(names):
        reader.fail(f"Option '{key}' = '{text:.80}' has an empty name. Write names with commas, or {clause} (...).")
    return names


def _take_partition_columns(reader: WordReader) -> tuple[str, ...]:
    if reader.peek().word == "(" and reader.peek_words(3)[2] not in (",", ")"):
        reader.take()
        reader.take()
        reader.fail("PARTITIONED BY takes names of columns that are declared above, without types or functions.")
    return reader.take_identifiers("partition columns")


_BEFORE_QUERY: Final = frozenset(
    {"PRIMARY", "COMMENT", "PARTITIONED", "USING", "WITH", "TBLPROPERTIES", "OPTIONS", "AS"}
)
_OPTION_WORDS: Final = frozenset({"WITH", "TBLPROPERTIES", "OPTIONS"})
_REFUSED_CLAUSES: Final = {
    "USING": "Every table is a lakelog table. Leave USING out.",
    "LOCATION": "The metastore chooses where a table's files are. Leave LOCATION out.",
    "AS": "The query gives the columns: leave them out, as in CREATE TABLE t PRIMARY KEY (a) AS SELECT. Or fill the "
    "table by INSERT INTO.",
    "CLUSTERED": "Buckets are options: WITH ('bucket' = '4', 'bucket-key' = 'a,b').",
    "STORED": "Data files are always Parquet. Leave STORED out.",
    "ENGINE": "Every table is a lakelog table. Leave ENGINE out.",
}


def _column_text(field: pa.Field) -> str:
    text = f"{quote_name(field.name)} {to_sql_type(field.type)}" + ("" if field.nullable else " NOT NULL")
    default = write_default(field)
    if default is not None:
        value = default.as_py()
        shown = str(value) if isinstance(value, Decimal) else to_constant_text(value, field.name)
        text += f" DEFAULT {shown}"
    comment = (field.metadata or {}).get(b"comment")
    return f"{text} COMMENT {quote_text(comment.decode())}" if comment else text


def _names_text(names: tuple[str, ...]) -> str:
    return ", ".join(quote_name(name) for name in names)
