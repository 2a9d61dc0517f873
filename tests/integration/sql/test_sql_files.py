"""Files as tables of a query, and tables made of queries."""

from __future__ import annotations

import datetime as dt
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from lakelog.errors import AlreadyExists, InvalidArgument, LakelogError, NotFound
from lakelog.sdk.tables.writes import TableWrites
from lakelog.sql import SqlSession
from lakelog.sql.query.file_functions import open_files
from lakelog.sql.query.query import plan_select
from lakelog.storage.objects.stores import LocationStores
from tests.integration.sql.orders import rows


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    (folder / "more").mkdir(parents=True)
    (folder / "a.csv").write_text('id,day,note\n1,2024-01-01,\n2,2024-01-02,""\n')
    (folder / "b.csv").write_text("id,day,note\n3,2024-01-03,NA\n")
    (folder / "other").mkdir()
    (folder / "other" / "d.csv").write_text("id,Note\n4,x\n")
    (folder / "other" / "bad.csv").write_text("id,day,note\nfour,2024-01-04,\n")
    (folder / "c.jsonl").write_text('{"id": 7, "tags": ["x", "y"]}\n{"id": 8, "tags": null}\n')
    for number, name in enumerate(["more/p1.parquet", "more/p2.parquet"]):
        ids = pa.array(range(1000 * number, 1000 * (number + 1)), pa.int64())
        pq.write_table(pa.table({"id": ids, "v": pa.nulls(1000, pa.string())}), folder / name, row_group_size=100)
    (folder / "more" / "_SUCCESS").touch()
    return folder


def tables(session: SqlSession) -> list[Any]:
    return [name for (name,) in rows(session, "SHOW TABLES")]


def test_files_are_read_as_tables(session: SqlSession, files: Path) -> None:
    read = f"read_csv('{files}/*.csv')"
    assert rows(session, f"SELECT id, day, note FROM {read} ORDER BY id") == [
        (1, dt.date(2024, 1, 1), None),
        (2, dt.date(2024, 1, 2), ""),
        (3, dt.date(2024, 1, 3), "NA"),
    ]
    assert rows(session, f"SELECT count(*), max(id) FROM read_parquet('{files}/more')") == [(2000, 1999)]
    assert rows(session, f"SELECT id, tags[0] FROM read_json('{files}/c.jsonl') ORDER BY id") == [(7, "x"), (8, None)]
    both = f"read_parquet(array('{files}/more/p1.parquet', '{files}/more/p2.parquet'))"
    assert rows(session, f"SELECT p.id FROM {both} AS p JOIN {read} c ON p.id = c.id WHERE c.id > 1 ORDER BY 1") == [
        (2,),
        (3,),
    ]
    assert rows(session, f"WITH c AS (SELECT * FROM {read}) SELECT count(*) FROM c JOIN c d ON c.id = d.id") == [(3,)]


def test_options_of_csv(session: SqlSession, files: Path) -> None:
    (files / "semicolons.csv").write_text("1;x\n2;y\n")
    read = f"read_csv('{files}/semicolons.csv', delim => ';', header => false)"
    assert rows(session, f"SELECT f0, f1 FROM {read} ORDER BY 1") == [(1, "x"), (2, "y")]
    texts = f"read_csv('{files}/a.csv', all_varchar = true)"
    assert rows(session, f"SELECT id, day FROM {texts} ORDER BY 1") == [("1", "2024-01-01"), ("2", "2024-01-02")]


@pytest.mark.parametrize(
    ("read", "reported"),
    [
        ("read_csv('{}/none.csv')", "There is no file {}/none.csv."),
        ("read_csv('{}/*.orc')", "No file matches {}/*.orc."),
        ("read_parquet('{}/a.csv')", "read_parquet cannot read {}/a.csv: "),
        (
            "read_parket('{}/a.csv')",
            "is nothing that a query can read. Read from tables, or by read_parquet, read_csv, read_json",
        ),
        ("read_csv('{}/a.csv', sep => ';')", "does not take sep"),
        ("read_csv('{}/a.csv', delim => ';;')", "delim is ';;', but takes one character in quotes"),
        ("read_csv(id)", "takes a path in quotes"),
        ("read_parquet('http://host/x')", "http://host/x cannot be read: give a path of this machine, or s3://"),
        (
            "read_csv(array('{}/a.csv', '{}/other/d.csv'))",
            "{}/other/d.csv has other columns than {}/a.csv: it leaves out day, note and has besides Note.",
        ),
    ],
)
def test_files_that_cannot_be_read(session: SqlSession, files: Path, read: str, reported: str) -> None:
    with pytest.raises(LakelogError) as failed:
        session.execute(f"SELECT * FROM {read.replace('{}', str(files))}")
    assert reported.replace("{}", str(files)) in failed.value.message
    assert isinstance(failed.value, InvalidArgument | NotFound)


def test_a_value_after_the_beginning_names_its_file(session: SqlSession, files: Path) -> None:
    bad = files / "other" / "bad.csv"
    with pytest.raises(InvalidArgument) as failed:
        session.execute(f"SELECT sum(id) FROM read_csv(array('{files}/?.csv', '{bad}'))")
    assert f"read_csv cannot read {bad}: " in failed.value.message
    assert "'four'" in failed.value.message
    assert "all_varchar => true" in failed.value.message


def test_only_what_is_needed_of_parquet_is_read(session: SqlSession, files: Path) -> None:
    """A damaged column that the query does not name, and row groups that its condition rules out, are not met."""
    path = files / "more" / "p1.parquet"
    data = bytearray(path.read_bytes())
    group = pq.ParquetFile(path).metadata.row_group(0)
    for place in (group.column(0).dictionary_page_offset, group.column(0).data_page_offset):
        data[place : place + 16] = b"\xff" * 16
    path.write_bytes(data)
    with pytest.raises(InvalidArgument, match=r"p1\.parquet"):
        session.execute(f"SELECT sum(id) FROM read_parquet('{path}')")
    assert rows(session, f"SELECT count(*) FROM read_parquet('{path}') WHERE id >= 900") == [(100,)]
    assert rows(session, f"SELECT count(v) FROM read_parquet('{path}')") == [(0,)]


@pytest.mark.parametrize("function", ["read_parquet", "read_csv"])
def test_little_is_read_ahead(tmp_path: Path, function: str) -> None:
    rows = pa.table(
        {"id": pa.array(range(200_000), pa.int64()), "text": pa.repeat("forty characters of text" * 2, 200_000)}
    )
    for number in range(6):
        if function == "read_csv":
            pa_csv.write_csv(rows, tmp_path / f"{number}.csv")
        else:
            pq.write_table(rows, tmp_path / f"{number}.parquet", use_dictionary=False, row_group_size=50_000)
    (use,) = plan_select(f"SELECT * FROM {function}('{tmp_path}')").files
    dataset = open_files(use, LocationStores()).dataset
    before = pa.total_allocated_bytes()
    reader = dataset.scanner(columns=["id", "text"]).to_reader()
    held = []
    for _ in range(3):
        assert reader.read_next_batch().num_rows
        # What is read ahead is there by then.
        time.sleep(0.1)
        held.append(pa.total_allocated_bytes() - before)
    assert max(held) < rows.nbytes * 3, f"{max(held)} bytes, of {6 * rows.nbytes}"


def test_insert_from_files(session: SqlSession, files: Path) -> None:
    session.execute("CREATE TABLE notes (id BIGINT PRIMARY KEY, day DATE, note STRING)")
    session.execute(f"INSERT INTO notes SELECT id, day, note FROM read_csv('{files}/*.csv')")
    session.execute(f"INSERT INTO notes SELECT id, NULL, v FROM read_parquet('{files}/more/p1.parquet') WHERE id = 9")
    assert rows(session, "SELECT id, note FROM notes ORDER BY id") == [(1, None), (2, ""), (3, "NA"), (9, None)]


def test_a_table_is_made_of_a_query(session: SqlSession, files: Path) -> None:
    made = session.execute(f"CREATE TABLE notes AS SELECT * FROM read_csv('{files}/*.csv')")
    assert (made.message, made.table, made.snapshot_id) == (
        "Table shop.notes created, snapshot 1 written.",
        "shop.notes",
        1,
    )
    assert rows(session, "DESCRIBE notes") == [
        ("id", "BIGINT", True, None, None, None, None),
        ("day", "DATE", True, None, None, None, None),
        ("note", "STRING", True, None, None, None, None),
    ]
    session.execute(
        "CREATE TABLE keyed PRIMARY KEY (DAY, id) PARTITIONED BY (day) COMMENT 'all' WITH ('bucket' = '2') "
        "AS SELECT id, day, count(*) AS n FROM notes GROUP BY id, day"
    )
    keyed = session.catalog.table("shop.keyed")
    assert (keyed.primary_key, keyed.partition_by, keyed.options["bucket"], keyed.comment) == (
        ("day", "id"),
        ("day",),
        "2",
        "all",
    )
    assert rows(session, "SELECT id, n FROM keyed ORDER BY id") == [(1, 1), (2, 1), (3, 1)]
    assert session.execute("CREATE TABLE none AS SELECT id FROM notes WHERE id > 9").message == (
        "Table shop.none created, the query gave no rows."
    )
    assert rows(session, "SELECT count(*) FROM none") == [(0,)]


def test_a_table_that_is_there_is_left_alone(session: SqlSession) -> None:
    session.execute("CREATE TABLE t AS SELECT 1 AS a")
    with pytest.raises(AlreadyExists, match=r"INSERT INTO shop\.t"):
        session.execute("CREATE TABLE t AS SELECT 2 AS a")
    again = session.execute("CREATE TABLE IF NOT EXISTS t AS SELECT nonsense FROM nowhere")
    assert (again.message, again.snapshot_id) == ("Table shop.t exists already; nothing was written to it.", None)
    assert rows(session, "SELECT a FROM t") == [(1,)]


@pytest.mark.parametrize(
    ("sql", "reported"),
    [
        ("CREATE TABLE t AS SELECT nonsense FROM read_csv('{}/a.csv')", "nonsense"),
        ("CREATE TABLE t AS SELECT id FROM read_csv(array('{}/a.csv', '{}/other/bad.csv'))", "'four'"),
        ("CREATE TABLE t AS SELECT 1 AS a, 2 AS A", "has the column 'a' more than once. Name each once, by AS"),
        ("CREATE TABLE t PRIMARY KEY (b) AS SELECT 1 AS a", "The query has no column 'b'; its columns are a."),
        ("CREATE TABLE t PRIMARY KEY (a) AS SELECT CAST(NULL AS INT) AS a", "NOT NULL"),
        ("CREATE TABLE t WITH ('buckets' = '4') AS SELECT 1 AS a", "buckets"),
        ("CREATE TABLE t (a INT) AS SELECT 1", "The query gives the columns: leave them out"),
        ("CREATE TABLE t PARTITIONED BY (a)", "'AS' is expected"),
        ("CREATE TABLE t AS INSERT", "A SELECT is expected"),
        ("CREATE TABLE t", "Columns in parentheses are expected, or keys and options, and then AS SELECT"),
    ],
)
def test_what_fails_leaves_no_table(session: SqlSession, files: Path, sql: str, reported: str) -> None:
    with pytest.raises(InvalidArgument) as failed:
        session.execute(sql.replace("{}", str(files)))
    assert reported in failed.value.message
    assert tables(session) == []


def test_a_write_that_fails_in_the_middle_leaves_no_table(session: SqlSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: TableWrites, data: Any, **more: Any) -> None:
        next(iter(data))
        raise InvalidArgument("The disk is full.")

    monkeypatch.setattr(TableWrites, "append", failing)
    with pytest.raises(InvalidArgument, match="disk is full"):
        session.execute("CREATE TABLE t AS SELECT 1 AS a")
    assert tables(session) == []
