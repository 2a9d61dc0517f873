"""The grammar of ALTER TABLE for columns, as Spark, Flink and Postgres write it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from lakelog.errors import InvalidArgument
from lakelog.format.filter.syntax import Syntax
from lakelog.format.filter.tokens import Source
from lakelog.format.types.column_changes import (
    AddColumn,
    AllowNull,
    ColumnChange,
    CommentColumn,
    DropColumn,
    MoveColumn,
    RenameColumn,
    SetDefault,
    WidenColumn,
)
from lakelog.format.types.evolution import find_field, to_path
from lakelog.format.types.schema import TableSchema
from lakelog.format.types.sql_types import from_sql_type
from lakelog.sql.values import to_value
from lakelog.sql.word_reader import WordReader

COLUMN_WORDS: Final = frozenset({"ADD", "DROP", "RENAME", "ALTER", "CHANGE", "MODIFY"})
"""The words with which a change of columns begins."""

_ALTERED: Final = (
    "ALTER COLUMN is followed by TYPE a wider type, DROP NOT NULL, COMMENT 'text', SET DEFAULT a value, DROP DEFAULT, "
    "FIRST or AFTER another column."
)


def parse_column_changes(reader: WordReader) -> tuple[ColumnChange, ...]:
    """Reads the clauses of an ALTER TABLE, separated by commas, from ADD, DROP, RENAME or ALTER on.

    A default that `SetDefault` has is a `Syntax`: `resolve_defaults` gives it the column's type.

    Raises:
        InvalidArgument: They cannot be read; shows the place.
    """
    changes = _parse_clause(reader)
    while reader.accept(","):
        changes += _parse_clause(reader)
    return tuple(changes)


def parse_clauses(texts: Sequence[str], schema: TableSchema) -> tuple[ColumnChange, ...]:
    """Reads clauses of ALTER TABLE that are given one by one, for a table of this schema.

    Raises:
        InvalidArgument: One cannot be read; shows the place.
    """
    changes: list[ColumnChange] = []
    for text in texts:
        reader = WordReader(text)
        found = parse_column_changes(reader)
        reader.expect_end("The change")
        changes += resolve_defaults(reader.source, found, schema)
    return tuple(changes)


def resolve_defaults(source: Source, changes: Sequence[ColumnChange], schema: TableSchema) -> tuple[ColumnChange, ...]:
    """The changes with the defaults of columns that are there already as values of the columns' types.

    Raises:
        InvalidArgument: There is no such column, or the value does not fit it; shows the place.
    """
    return tuple(
        SetDefault(change.column, _to_scalar(source, change.default, find_field(schema.arrow, to_path(change.column))))
        if isinstance(change, SetDefault) and isinstance(change.default, Syntax)
        else change
        for change in changes
    )


def _parse_clause(reader: WordReader) -> list[ColumnChange]:
    word = reader.peek().word
    parse = _CLAUSES.get(word)
    if parse is None:
        reader.fail(
            "ALTER TABLE is followed by ADD, DROP, RENAME or ALTER COLUMN; or, for options alone, by SET ('key' = "
            "'value') or RESET ('key'), in a shell lakelog table options set or unset."
        )
    reader.take()
    return parse(reader)


def _parse_add(reader: WordReader) -> list[ColumnChange]:
    if not reader.accept("COLUMNS"):
        reader.accept("COLUMN")
    if reader.peek_words(3) == ("IF", "NOT", "EXISTS"):
        reader.fail("ADD COLUMN always adds one. Leave IF NOT EXISTS out; DESCRIBE shows the columns there are.")
    words = reader.peek_words(3)
    if words[0] in _CONSTRAINTS and (words[1] in ("KEY", "(") or words[2] in _CONSTRAINTS):
        reader.fail("A table's keys stay as they are, and there are no other constraints.")
    return _parse_list(reader, _parse_added)


def _parse_added(reader: WordReader) -> ColumnChange:
    path = _take_path(reader)
    data_type = _take_type(reader, path)
    nullable, comment, default = True, "", None
    first, after = False, None
    while True:
        if reader.accept("NOT", "NULL"):
            nullable = False
        elif reader.accept("COMMENT"):
            comment = reader.take_text("A comment")
        elif reader.accept("DEFAULT"):
            default = _to_scalar(reader.source, reader.take_value(), pa.field(path[-1], data_type))
        elif reader.accept("FIRST"):
            first = True
        elif reader.accept("AFTER"):
            after = reader.take_identifier("a column")
        elif not reader.accept("NULL"):
            break
    return AddColumn(path, data_type, nullable, comment, default, first, after)


def _parse_drop(reader: WordReader) -> list[ColumnChange]:
    if not reader.accept("COLUMNS"):
        reader.accept("COLUMN")
    if reader.peek_words(2) == ("IF", "EXISTS"):
        reader.fail("DROP COLUMN always needs an existing column. Leave IF EXISTS out.")
    if reader.peek_words(2) == ("PRIMARY", "KEY"):
        reader.fail("A table keeps its primary key. Make another table, and fill it by INSERT INTO ... SELECT.")
    return _parse_list(reader, lambda each: DropColumn(_take_path(each)))


def _parse_rename(reader: WordReader) -> list[ColumnChange]:
    if reader.peek().word == "TO":
        reader.fail("Tables keep their names; columns are renamed: RENAME COLUMN a TO b.")
    reader.accept("COLUMN")
    path = _take_path(reader)
    reader.expect("TO", then="A column is renamed by RENAME COLUMN a TO b.")
    return [RenameColumn(path, reader.take_identifier("a column"))]


def _parse_alter(reader: WordReader) -> list[ColumnChange]:
    reader.accept("COLUMN")
    path = _take_path(reader)
    changes: list[ColumnChange] = []
    while True:
        if reader.accept("TYPE") or reader.accept("SET", "DATA", "TYPE"):
            changes.append(WidenColumn(path, _take_type(reader, path)))
        elif reader.accept("DROP", "NOT", "NULL"):
            changes.append(AllowNull(path))
        elif reader.accept("COMMENT"):
            changes.append(CommentColumn(path, reader.take_text("A comment")))
        elif reader.accept("SET", "DEFAULT"):
            changes.append(SetDefault(path, reader.take_value()))
        elif reader.accept("DROP", "DEFAULT"):
            changes.append(SetDefault(path, None))
        elif reader.accept("FIRST"):
            changes.append(MoveColumn(path, first=True))
        elif reader.accept("AFTER"):
            changes.append(MoveColumn(path, after=reader.take_identifier("a column")))
        elif reader.peek_words(3) == ("SET", "NOT", "NULL"):
            reader.fail("A column that may hold NULL stays so: rows that are there could have NULL.")
        elif changes:
            return changes
        else:
            reader.fail(_ALTERED)


def _parse_change(reader: WordReader) -> list[ColumnChange]:
    reader.fail("Write RENAME COLUMN a TO b for a new name, and ALTER COLUMN a TYPE ... for a wider type.")


def _parse_list(reader: WordReader, parse: Callable[[WordReader], ColumnChange]) -> list[ColumnChange]:
    """One item, or several in parentheses; Spark's ADD COLUMNS also takes them without."""
    if not reader.accept("("):
        return [parse(reader)]
    changes = [parse(reader)]
    while reader.accept(","):
        changes.append(parse(reader))
    reader.expect(")", then="Columns are separated by commas.")
    return changes


def _take_path(reader: WordReader) -> tuple[str, ...]:
    parts = [reader.take_identifier("a column")]
    while reader.accept("."):
        parts.append(reader.take_identifier("a field"))
    return tuple(parts)


def _take_type(reader: WordReader, path: tuple[str, ...]) -> pa.DataType:
    text, start = reader.take_type()
    if not text:
        reader.fail(f"The type of column '{'.'.join(path)}' is expected.")
    try:
        return from_sql_type(text)
    except InvalidArgument as error:
        reader.source.fail(start, f"Column '{'.'.join(path)}': {error.message}")


def _to_scalar(source: Source, syntax: Syntax, field: pa.Field) -> Any:
    value = to_value(source, syntax, field.with_nullable(True))
    return None if value is None else pa.scalar(value, field.type)


_CONSTRAINTS: Final = frozenset({"PRIMARY", "UNIQUE", "CONSTRAINT", "CHECK", "FOREIGN"})
_CLAUSES: Final[dict[str, Callable[[WordReader], list[ColumnChange]]]] = {
    "ADD": _parse_add,
    "DROP": _parse_drop,
    "RENAME": _parse_rename,
    "ALTER": _parse_alter,
    "CHANGE": _parse_change,
    "MODIFY": _parse_change,
}
