from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
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
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.sql.alter_columns import parse_clauses
from lakelog.sql.parser import parse_statement
from lakelog.sql.statements import AlterColumns, Name

SCHEMA = TableSchema(0, assign_field_ids(pa.schema([("id", pa.int64()), ("price", pa.decimal128(6, 2))])))

HALF = pa.scalar(Decimal("1.50"), pa.decimal128(6, 2))


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("ADD COLUMN note STRING", [AddColumn(("note",), pa.string())]),
        ("add note varchar(5) after id", [AddColumn(("note",), pa.string(), after="id")]),
        (
            "ADD COLUMNS (a INT NOT NULL DEFAULT 5 COMMENT 'five' FIRST, `b c`.d DATE DEFAULT DATE '2020-01-02')",
            [
                AddColumn(("a",), pa.int32(), False, "five", pa.scalar(5, pa.int32()), first=True),
                AddColumn(("b c", "d"), pa.date32(), default=pa.scalar(dt.date(2020, 1, 2))),
            ],
        ),
        ("ADD (a INT, b INT)", [AddColumn(("a",), pa.int32()), AddColumn(("b",), pa.int32())]),
        ("ADD COLUMN s STRUCT<first: INT, after: INT>", [
            AddColumn(("s",), pa.struct([("first", pa.int32()), ("after", pa.int32())])),
        ]),
        ("DROP COLUMN a.b", [DropColumn(("a", "b"))]),
        ("DROP COLUMNS (a, b)", [DropColumn(("a",)), DropColumn(("b",))]),
        ("RENAME COLUMN a.b TO c", [RenameColumn(("a", "b"), "c")]),
        ("RENAME a TO b", [RenameColumn(("a",), "b")]),
        ("ALTER COLUMN id TYPE BIGINT", [WidenColumn(("id",), pa.int64())]),
        (
            "ALTER id SET DATA TYPE BIGINT COMMENT 'x' AFTER price",
            [WidenColumn(("id",), pa.int64()), CommentColumn(("id",), "x"), MoveColumn(("id",), after="price")],
        ),
        ("ALTER COLUMN id DROP NOT NULL FIRST", [AllowNull(("id",)), MoveColumn(("id",), first=True)]),
        ("ALTER COLUMN price SET DEFAULT 1.5", [SetDefault(("price",), HALF)]),
        ("ALTER COLUMN price DROP DEFAULT", [SetDefault(("price",), None)]),
        ("ALTER COLUMN price SET DEFAULT NULL", [SetDefault(("price",), None)]),
        (
            "DROP a, ADD a INT, RENAME b TO c",
            [DropColumn(("a",)), AddColumn(("a",), pa.int32()), RenameColumn(("b",), "c")],
        ),
    ],
)  # fmt: skip
def test_clauses_of_all_dialects_are_read(text: str, changes: list[ColumnChange]) -> None:
    assert list(parse_clauses([text], SCHEMA)) == changes
    statement = parse_statement(f"ALTER TABLE shop.orders {text};")
    assert isinstance(statement, AlterColumns)
    assert statement.name == Name("shop", "orders")
    assert len(statement.changes) == len(changes)


@pytest.mark.parametrize(("text", "comment"), [("'why'", "why"), ("''", ""), ("NULL", "")])
def test_a_table_gets_a_comment(text: str, comment: str) -> None:
    assert parse_statement(f"COMMENT ON TABLE orders IS {text}") == AlterColumns(Name(None, "orders"), comment=comment)


@pytest.mark.parametrize(
    ("text", "position", "says"),
    [
        ("ADD COLUMN", 11, "name of a column"),
        ("ADD COLUMN a", 13, "type of column 'a' is expected"),
        ("ADD COLUMN a NOPE", 14, "'NOPE'"),
        ("ADD COLUMN a INT DEFAULT 'x'", 26, "no value for column 'a' of type INT"),
        ("ADD COLUMN IF NOT EXISTS a INT", 12, "Leave IF NOT EXISTS out"),
        ("ADD PRIMARY KEY (a)", 5, "keys stay as they are"),
        ("ADD CONSTRAINT c UNIQUE (a)", 5, "no other constraints"),
        ("DROP COLUMN IF EXISTS a", 13, "Leave IF EXISTS out"),
        ("DROP PRIMARY KEY", 6, "keeps its primary key"),
        ("RENAME TO b", 8, "Tables keep their names"),
        ("RENAME COLUMN a b", 17, "RENAME COLUMN a TO b"),
        ("FOO", 1, "in a shell lakelog table options set or unset"),
        ("ALTER COLUMN id", 16, "ALTER COLUMN is followed by TYPE"),
        ("ALTER COLUMN id SET NOT NULL", 17, "rows that are there could have NULL"),
        ("ALTER COLUMN nope SET DEFAULT 5", None, "There is no 'nope'"),
        ("CHANGE COLUMN a b INT", 8, "RENAME COLUMN a TO b"),
        ("ADD (a INT", 11, "separated by commas"),
    ],
)
def test_what_cannot_be_read_shows_its_place(text: str, position: int | None, says: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        parse_clauses([text], SCHEMA)
    assert says in error.value.message
    if position is not None:
        assert error.value.metadata["position"] == str(position)
