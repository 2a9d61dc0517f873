"""Statements as they are read, and what cannot be read."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.sql import parse_statement
from lakelog.sql.statements import (
    AlterOptions,
    ChangedTable,
    CreateDatabase,
    CreateTable,
    CreateTableAs,
    Delete,
    DescribeTable,
    DropDatabase,
    DropTable,
    Insert,
    Merge,
    Name,
    Query,
    ShowCreateTable,
    ShowDatabases,
    ShowTables,
    Statement,
    Truncate,
    Update,
    UseDatabase,
    Values,
)
from lakelog.writes.row_changes.clauses import ColumnDefault, when_matched, when_not_matched, when_not_matched_by_source


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CREATE DATABASE shop", CreateDatabase("shop")),
        ("create schema if not exists `Shop` comment 'it''s ours';", CreateDatabase("Shop", True, "it's ours")),
        ("DROP DATABASE shop", DropDatabase("shop")),
        ("DROP SCHEMA IF EXISTS shop CASCADE", DropDatabase("shop", True, True)),
        ("DROP DATABASE shop RESTRICT", DropDatabase("shop")),
        ("SHOW DATABASES", ShowDatabases()),
        ("show schemas ;", ShowDatabases()),
        ("SHOW TABLES", ShowTables()),
        ("SHOW TABLES IN shop", ShowTables("shop")),
        ("SHOW TABLES FROM shop -- all of them", ShowTables("shop")),
        ("USE shop", UseDatabase("shop")),
        ("USE DATABASE shop", UseDatabase("shop")),
        ("USE database", UseDatabase("database")),
        ("DROP TABLE shop.orders", DropTable(Name("shop", "orders"))),
        ("DROP TABLE IF EXISTS orders", DropTable(Name(None, "orders"), True)),
        ("DESCRIBE shop.orders", DescribeTable(Name("shop", "orders"))),
        ("DESC TABLE orders", DescribeTable(Name(None, "orders"))),
        ("DESCRIBE table", DescribeTable(Name(None, "table"))),
        ("SHOW CREATE TABLE shop.orders", ShowCreateTable(Name("shop", "orders"))),
        (
            "ALTER TABLE shop.orders SET ('write-buffer-size' = '64 mb', 'ignore-delete' = 'true')",
            AlterOptions(Name("shop", "orders"), {"write-buffer-size": "64 mb", "ignore-delete": "true"}),
        ),
        ("ALTER TABLE orders SET TBLPROPERTIES ('a' = 'b')", AlterOptions(Name(None, "orders"), {"a": "b"})),
        ("ALTER TABLE orders RESET ('a', 'b')", AlterOptions(Name(None, "orders"), {}, ("a", "b"))),
        ("ALTER TABLE orders UNSET TBLPROPERTIES ('a')", AlterOptions(Name(None, "orders"), {}, ("a",))),
        ("SELECT 1", Query("SELECT 1")),
        (" WITH a AS (SELECT 1) SELECT * FROM a", Query(" WITH a AS (SELECT 1) SELECT * FROM a")),
    ],
)
def test_statements(sql: str, expected: Statement) -> None:
    assert parse_statement(sql) == expected


def test_create_table() -> None:
    statement = parse_statement(
        """
        CREATE TABLE IF NOT EXISTS shop.orders (
          id BIGINT COMMENT 'the key',
          dt STRING NOT NULL,
          `tot``al` DECIMAL(10, 2),
          tags ARRAY<STRING NOT NULL>,
          attributes MAP<STRING, STRUCT<a: INT NOT NULL, b: ARRAY<ARRAY<DOUBLE>>>>,
          primary TIMESTAMP WITHOUT TIME ZONE COMMENT 'a column, whatever it is called',
          PRIMARY KEY (ID, dt) NOT ENFORCED
        )
        COMMENT 'all orders'
        PARTITIONED BY (DT)
        WITH ('bucket' = '4', "file.compression" = 'lz4');
        """
    )
    assert isinstance(statement, CreateTable)
    assert statement.name == Name("shop", "orders")
    inner = pa.struct(
        [
            pa.field("a", pa.int32(), False),
            pa.field("b", pa.list_(pa.field("element", pa.list_(pa.field("element", pa.float64()))))),
        ]
    )
    expected = pa.schema(
        [
            pa.field("id", pa.int64(), False, {"comment": "the key"}),
            pa.field("dt", pa.string(), False),
            pa.field("tot`al", pa.decimal128(10, 2)),
            pa.field("tags", pa.list_(pa.field("element", pa.string(), False))),
            pa.field("attributes", pa.map_(pa.string(), inner)),
            pa.field("primary", pa.timestamp("us"), True, {"comment": "a column, whatever it is called"}),
        ]
    )
    assert statement.schema.equals(expected, check_metadata=True)
    assert statement.primary_key == ("id", "dt")
    assert statement.partition_by == ("dt",)
    assert statement.options == {"bucket": "4", "file.compression": "lz4"}
    assert statement.comment == "all orders"
    assert statement.if_not_exists


def test_a_key_can_stand_with_its_column() -> None:
    statement = parse_statement("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED COMMENT 'k', v STRING NULL)")
    assert isinstance(statement, CreateTable)
    assert statement.primary_key == ("id",)
    assert not statement.schema.field("id").nullable
    assert statement.schema.field("v").nullable


def test_keys_may_stand_among_the_options() -> None:
    statement = parse_statement(
        "CREATE TABLE t (ID INT, day DATE, v INT) USING lakelog "
        "TBLPROPERTIES ('primary-key' = 'day, id', 'partition' = 'day', 'bucket' = '2')"
    )
    assert isinstance(statement, CreateTable)
    assert (statement.primary_key, statement.partition_by) == (("day", "ID"), ("day",))
    assert statement.options == {"bucket": "2"}
    assert [field.nullable for field in statement.schema] == [False, False, True]


def test_a_key_of_a_table_from_a_query_stands_as_that_of_others_or_first() -> None:
    rest = "PARTITIONED BY (dt) AS SELECT id, dt FROM u"
    first = parse_statement(f"CREATE TABLE t PRIMARY KEY (id, dt) {rest}")
    assert isinstance(first, CreateTableAs)
    assert first.primary_key == ("id", "dt")
    assert parse_statement(f"CREATE TABLE t (PRIMARY KEY (id, dt) NOT ENFORCED) {rest}") == first


def test_inserts() -> None:
    statement = parse_statement("INSERT INTO shop.orders (id, v) VALUES (1, 'a'), (-2, NULL)")
    assert isinstance(statement, Insert)
    assert isinstance(statement.rows, Values)
    assert (statement.name, statement.columns, statement.overwrite) == (Name("shop", "orders"), ("id", "v"), False)
    assert [[value.value for value in row] for row in statement.rows.rows] == [["1", "a"], ["-2", ""]]
    overwrite = parse_statement("INSERT OVERWRITE TABLE t PARTITION (dt = 'x') VALUES (1)")
    assert isinstance(overwrite, Insert)
    assert overwrite.overwrite
    assert [(name, value.value) for name, value in overwrite.partition] == [("dt", "x")]
    select = parse_statement("INSERT INTO t (a) SELECT b FROM u")
    assert isinstance(select, Insert)
    assert select.rows == Query("SELECT b FROM u")


@pytest.mark.parametrize(
    ("sql", "place", "parts"),
    [
        ("", 1, ["empty", "CREATE TABLE"]),
        ("CREATE", 7, ["DATABASE or a TABLE"]),
        ("CREATE VIEW v AS SELECT 1", 8, ["DATABASE or a TABLE", "use WITH"]),
        ("CREATE OR REPLACE TABLE t (id INT)", 8, ["DROP TABLE first"]),
        ("CREATE TEMPORARY TABLE t (id INT)", 8, ["leave TEMPORARY out"]),
        ("CREATE DATABASE a b", 19, ["ends here"]),
        ("CREATE DATABASE 'a'", 17, ["name of a database is expected"]),
        ("SHOW PARTITIONS t", 6, ["SHOW TABLES", "$partitions"]),
        ("SHOW COLUMNS IN t", 6, ["DESCRIBE"]),
        ("SHOW DATABASES; SHOW TABLES", 17, ["one statement at a time"]),
        ("DROP TABLE a.b.c.d", 17, ["three parts"]),
        ("ALTER TABLE t FOO", 15, ["ADD, DROP, RENAME or ALTER COLUMN", "SET"]),
        ("ALTER TABLE t SET (a = 'b')", 20, ["key of an option is written in single quotes"]),
        ("ALTER TABLE t SET ('a' = 4)", 26, ["value of an option is written in single quotes"]),
        ("ALTER TABLE t SET ('a' = 'b', 'a' = 'c')", 31, ["'a' is given twice"]),
        ("DESCRIBE EXTENDED t", 10, ["leave this word out"]),
        ("DELETE t WHERE id = 1", 8, ["'FROM' is expected"]),
        ("DELETE FROM t WHERE", 20, ["A condition is expected"]),
        ("DELETE FROM t USING u WHERE t.id = u.id", 15, ["MERGE INTO"]),
        ("DELETE FROM t WHERE id = 1; SELECT 1", 29, ["one statement at a time"]),
        ("UPDATE t", 9, ["'SET' is expected"]),
        ("UPDATE t SET a", 15, ["'=' is expected"]),
        ("UPDATE t SET a =", 17, ["A value is expected"]),
        ("UPDATE t SET a = 1, a = 2", 21, ["has a value already"]),
        ("UPDATE t SET a.b = 1", 14, ["whole columns"]),
        ("UPDATE t SET a = 1 FROM u", 20, ["MERGE INTO"]),
        ("MERGE t", 7, ["'INTO' is expected"]),
        ("MERGE INTO t USING (SELECT 1) ON a = b WHEN MATCHED THEN DELETE", 31, ["needs a name"]),
        ("MERGE INTO t USING u ON t.a = u.a", 34, ["needs a WHEN"]),
        ("MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN INSERT *", 53, ["UPDATE SET or DELETE"]),
        ("MERGE INTO t USING u ON t.a = u.a WHEN MATCHED DELETE", 48, ["'THEN' is expected"]),
        ("MERGE INTO t USING u ON t.a = u.a WHEN NOT MATCHED THEN INSERT (a) VALUES (1, 2)", 75, ["2 values for 1"]),
        ("TRUNCATE t", 10, ["TRUNCATE TABLE orders"]),
        ("TRUNCATE TABLE t PARTITION (d = 1)", 18, ["DELETE FROM"]),
        ("CALL compact('t')", 13, ["Procedures are in the schema sys", "CALL sys.compact(table =>"]),
        ("CALL system.compact('t')", 6, ["not in 'system'"]),
        ("CALL sys.compact", 17, ["written in parentheses"]),
        ("CALL sys.compact(table => 't' 'u')", 31, ["separated by commas"]),
        ("CALL sys.compact(table => 't', 'u')", 32, ["all need names"]),
        ("CALL sys.compact('t') AND MORE", 23, ["CALL ends here"]),
        ("FROBNICATE", 1, ["no such statement", "SELECT"]),
        ("CREATE TABLE t", 15, ["Columns in parentheses are expected", "AS SELECT"]),
        ("CREATE TABLE t LIKE u", 16, ["SHOW CREATE TABLE"]),
        ("CREATE TABLE t AS VALUES (1)", 19, ["A SELECT is expected"]),
        ("CREATE TABLE t WITH ('a' = 'b') PRIMARY KEY (a) AS SELECT 1 AS a", 33, ["PRIMARY KEY comes before it"]),
        ("CREATE TABLE t (PRIMARY KEY (a))", 33, ["at least one column"]),
        ("CREATE TABLE t ()", 17, ["name of a column"]),
        ("CREATE TABLE t (id)", 19, ["type of column 'id'"]),
        ("CREATE TABLE t (id WIDE)", 20, ["Column 'id'", "'WIDE'"]),
        ("CREATE TABLE t (id DECIMAL(50, 2))", 20, ["Column 'id'", "DECIMAL(50,2)"]),
        ("CREATE TABLE t (id TIME)", 20, ["Column 'id'", "no type TIME", "BIGINT microseconds"]),
        ("CREATE TABLE t (id MULTISET<INT>)", 20, ["Column 'id'", "MAP<T, INT>"]),
        ("CREATE TABLE t (id STRUCT<a: INT COMMENT 'x'>)", 20, ["character 15", "only whole columns"]),
        ("CREATE TABLE t (id ROW<a INT 'x', b INT>)", 20, ["character 11", "only whole columns"]),
        ("CREATE TABLE /*+ OPTIONS('a' = 'b') */ t (id INT)", 14, ["Hints are possible only"]),
        ("CREATE TABLE t (id INT CHECK (id > 5))", 24, ["The column ends here", "NOT NULL"]),
        ("CREATE TABLE t (id INT DEFAULT 'x')", 32, ["no value for column 'id' of type INT"]),
        ("CREATE TABLE t (id INT, UNIQUE (id))", 25, ["no other constraints are possible"]),
        ("CREATE TABLE t (id INT, CONSTRAINT pk PRIMARY KEY (id))", 25, ["Leave CONSTRAINT and the name out"]),
        ("CREATE TABLE t (id INT, PRIMARY KEY (id), PRIMARY KEY (id))", 43, ["a primary key already"]),
        ("CREATE TABLE t (id INT PRIMARY KEY, PRIMARY KEY (id))", 37, ["a primary key already"]),
        ("CREATE TABLE t (id INT) WITH ('a' = 'b') TBLPROPERTIES ('c' = 'd')", 42, ["all options in one list"]),
        ("CREATE TABLE t (id INT PRIMARY KEY) WITH ('primary-key' = 'id')", 64, ["PRIMARY KEY says already"]),
        ("CREATE TABLE t (d INT) PARTITIONED BY (d) WITH ('partition' = 'd')", 67, ["PARTITIONED BY says already"]),
        ("CREATE TABLE t (id INT) WITH ('primary-key' = 'id,')", 53, ["has an empty name"]),
        ("CREATE TABLE t (id INT) USING parquet", 25, ["Leave USING out"]),
        ("CREATE TABLE t (id INT) LOCATION 's3://x'", 25, ["metastore chooses"]),
        ("CREATE TABLE t (id INT) PARTITIONED BY (dt STRING)", 44, ["without types"]),
        ("CREATE TABLE t (id INT) PARTITIONED BY (days(ts))", 45, ["without types or functions"]),
        ("CREATE TABLE t (id INT) COMMENT 'a' COMMENT 'b'", 37, ["there already"]),
        ("CREATE TABLE t (id INT) AS SELECT 1", 25, ["INSERT INTO"]),
        ("INSERT t VALUES (1)", 8, ["INTO or OVERWRITE"]),
        ("INSERT INTO t VALUES 1", 22, ["is written in parentheses"]),
        ("INSERT INTO t VALUES (1", 24, ["')' is expected"]),
        ("INSERT OVERWRITE t PARTITION (dt) VALUES (1)", 33, ["has a value"]),
        ("INSERT INTO t SET a = 1", 15, ["VALUES (...)"]),
        ("INSERT INTO t VALUES ('a)", 23, ["not closed"]),
    ],
)
def test_what_cannot_be_read(sql: str, place: int, parts: list[str]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_statement(sql)
    for part in parts:
        assert part in caught.value.message
    assert caught.value.metadata["position"] == str(place), caught.value.message


def test_an_unknown_statement_gets_the_list_of_statements() -> None:
    with pytest.raises(InvalidArgument, match=r"no such statement\. Statements are .*SHOW DATABASES"):
        parse_statement("LOCK TABLES")


def test_changes_of_rows_are_read_with_their_expressions() -> None:
    table = ChangedTable(Name("shop", "t"), "x")
    assert parse_statement("DELETE FROM shop.t AS x WHERE x.a IN (1, 2);") == Delete(table, "x.a IN (1, 2)")
    assert parse_statement("DELETE FROM shop.t x") == Delete(table)
    case = "CASE WHEN a > 1 THEN 2 ELSE f(a, b) END"
    assert parse_statement(f"UPDATE t SET t.a = {case}, `b` = DEFAULT WHERE c") == Update(
        ChangedTable(Name(None, "t")), {"a": case, "b": ColumnDefault()}, "c"
    )
    assert parse_statement("TRUNCATE TABLE shop.t") == Truncate(Name("shop", "t"))


def test_merge_is_read_clause_by_clause() -> None:
    merge = parse_statement(
        "MERGE INTO t /*+ OPTIONS('if-snapshot' = '3') */ AS a "
        "USING (SELECT (1) AS id FROM u /*+ OPTIONS('x' = 'y') */) AS b "
        "ON a.id = b.id AND CASE WHEN a.v THEN b.v END WHEN MATCHED AND a.v > (1) THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED BY TARGET THEN INSERT (id, v) VALUES (b.id, coalesce(b.v, 1)) "
        "WHEN NOT MATCHED BY SOURCE AND a.v = 'WHEN' THEN UPDATE SET v = 1, w = 2"
    )
    assert merge == Merge(
        ChangedTable(Name(None, "t"), "a", {"if-snapshot": "3"}),
        Query("SELECT (1) AS id FROM u /*+ OPTIONS('x' = 'y') */"),
        ("b",),
        "a.id = b.id AND CASE WHEN a.v THEN b.v END",
        (
            when_matched("a.v > (1)").delete(),
            when_matched().update_all(),
            when_not_matched().insert({"id": "b.id", "v": "coalesce(b.v, 1)"}),
            when_not_matched_by_source("a.v = 'WHEN'").update({"v": "1", "w": "2"}),
        ),
    )
    plain = parse_statement("MERGE INTO t USING web.shop.u ON t.a = u.a WHEN NOT MATCHED THEN INSERT *")
    assert isinstance(plain, Merge)
    assert plain.source == Query("SELECT * FROM web.shop.u")
    assert plain.source_names == ("u", "web.shop.u")


def test_alter_table_if_exists_has_its_reason() -> None:
    with pytest.raises(InvalidArgument, match=r"ALTER TABLE always needs an existing table\. Leave IF EXISTS out"):
        parse_statement("ALTER TABLE IF EXISTS t SET ('a' = 'b')")


def test_places_of_long_statements_have_lines() -> None:
    with pytest.raises(InvalidArgument, match=r"in line 3 at character 6, before 'WIDE"):
        parse_statement("CREATE TABLE t (\n  a INT,\n  id WIDE\n)")
