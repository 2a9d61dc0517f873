"""The query page: it reads tables, and nothing else, for a bounded time, in bounded memory."""

from __future__ import annotations

import csv
import io
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from console.querying import running
from console.querying.worker import work
from lakelog.errors import Unavailable
from lakelog.sdk.catalog import Catalog
from tests.support.running_console import Answer, RunningConsole, running_console

FOREVER = "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t"


def ask(console: RunningConsole, sql: str, name: str = "root", more: str = "") -> Answer:
    return console.get(f"/query?sql={quote(sql)}{more}", name)


@pytest.fixture(scope="module")
def hasty(target: str) -> Iterator[RunningConsole]:
    """For statements that never end; on a busy machine any other may take a second."""
    with running_console(target, "--query-seconds", "1") as console:
        yield console


def test_rows_as_a_page_as_json_and_as_csv(console: RunningConsole) -> None:
    sql = "SELECT id, item AS `a b`, NULL AS n, 1.5 AS d FROM shop.orders WHERE id < 2 ORDER BY id"
    page = ask(console, sql)
    assert page.status == 200
    assert "2 rows in" in page.text
    assert "lakelog sql --execute" in page.text
    rows = ask(console, sql, more="&as=json&part=rows").json
    assert [row["id"] for row in rows] == [0, 1]
    assert (rows[0]["a b"], rows[0]["n"], rows[0]["d"]) == ("item 0", None, "1.5")
    found = ask(console, sql, more="&as=csv&part=rows")
    assert found.headers["content-type"].startswith("text/csv")
    assert found.headers["content-disposition"].startswith("attachment")
    assert list(csv.reader(io.StringIO(found.text)))[:2] == [["id", "a b", "n", "d"], ["0", "item 0", "", "1.5"]]


@pytest.mark.parametrize(
    "sql",
    ["SHOW DATABASES", "DESCRIBE shop.orders", "SHOW CREATE TABLE shop.orders", "EXPLAIN SELECT * FROM shop.orders"],
)
def test_other_statements_that_read(console: RunningConsole, sql: str) -> None:
    assert ask(console, sql, more="&as=json&part=rows").json


def test_the_database_of_plain_names(console: RunningConsole) -> None:
    assert ask(console, "SHOW TABLES", more="&database=shop&as=json&part=rows").json == [{"table": "orders"}]
    assert "no current database" in ask(console, "SELECT * FROM orders").text


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_parquet('/etc/passwd')",
        "SELECT * FROM read_json('/etc/passwd')",
        "WITH x AS (SELECT * FROM read_csv('/etc/passwd')) SELECT * FROM x",
        "SELECT (SELECT count(*) FROM read_csv('https://example.org/x.csv'))",
        "EXPLAIN SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_blob('/etc/passwd')",
        "SELECT * FROM `/etc/passwd`",
        "SELECT * FROM main.`/etc/passwd`",
        "SELECT * FROM glob('/etc/*')",
        "SELECT getenv('HOME')",
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM query('SELECT 1')",
        "COPY shop.orders TO '/tmp/x'",
        "COPY (SELECT 1) TO '/tmp/x'",
        "ATTACH '/tmp/x.db' AS x",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET memory_limit = '100GB'",
        "PRAGMA database_list",
        "SELECT 1; DROP TABLE shop.orders",
        "DROP TABLE shop.orders",
        "INSERT INTO shop.orders VALUES (1, 'x')",
        "DELETE FROM shop.orders",
        "TRUNCATE TABLE shop.orders",
        "CREATE TABLE shop.x AS SELECT 1 AS a",
        "ALTER TABLE shop.orders SET ('a' = 'b')",
        "EXPLAIN DELETE FROM shop.orders WHERE id = 1",
        "CALL sys.compact('shop.orders')",
        "GRANT owner ON shop TO stranger",
        "USE shop",
        "SELECT * FROM elsewhere.shop.orders",
        "nonsense",
        "SELECT '" + "x" * 8000 + "'",
    ],
)
def test_everything_else_is_refused(console: RunningConsole, catalog: Catalog, sql: str) -> None:
    before = catalog.table("shop.orders").info.latest_snapshot_id
    answer = ask(console, sql)
    assert answer.status == 400
    assert 'role="alert"' in answer.text
    assert "root:" not in answer.text
    assert ask(console, sql, more="&as=json").status == 400
    assert catalog.table("shop.orders").info.latest_snapshot_id == before


@pytest.mark.parametrize(
    "sql", ["SELECT * FROM {}", "SELECT 1 WHERE EXISTS (SELECT * FROM {})", "EXPLAIN SELECT * FROM {}"]
)
@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_files_that_could_be_read_are_not(console: RunningConsole, tmp_path: Path, kind: str, sql: str) -> None:
    file = tmp_path / f"private.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"a": ["zebra"]}), file)
    else:
        file.write_text("a\nzebra\n" if kind == "csv" else '{"a": "zebra"}\n')
    for place in (file, file.as_uri()):
        answer = ask(console, sql.format(f"read_{kind}('{place}')"))
        assert answer.status == 400
        assert "this page only reads tables" in answer.text
        assert "zebra" not in answer.text


def test_a_statement_sees_what_the_caller_may(console: RunningConsole) -> None:
    assert ask(console, "SELECT count(*) FROM shop.orders", "ann").status == 200
    refused = ask(console, "SELECT count(*) FROM other.secret", "ann")
    assert refused.status == 400
    assert 'role="alert"' in refused.text
    assert ask(console, "SELECT name FROM sys.tables", "stranger", "&as=json&part=rows").json == []


def test_more_rows_than_the_page_shows_are_left_out(target: str) -> None:
    with running_console(target, "--max-query-rows", "2") as console:
        assert "there are more" in ask(console, "SELECT * FROM shop.orders").text
        assert len(ask(console, "SELECT * FROM shop.orders", more="&as=json&part=rows").json) == 2


def list_workers() -> list[psutil.Process]:
    forkers = [each for each in psutil.Process().children() if "forkserver" in " ".join(each.cmdline())]
    return [child for forker in forkers for child in forker.children()]


def test_a_statement_that_takes_too_long_is_ended_with_all_that_it_holds(
    hasty: RunningConsole, console: RunningConsole
) -> None:
    # Other tests of this process fork services from a server of the same kind.
    others = set(list_workers())
    answer = ask(hasty, FOREVER)
    assert answer.status == 400
    assert "ended after 1 s" in answer.text
    assert not [each for each in {*list_workers()} - others if each.status() != psutil.STATUS_ZOMBIE]
    assert ask(console, "SELECT 1").status == 200, "its place is free again"


def test_a_statement_of_a_console_that_is_gone_ends_by_itself(catalog: Catalog) -> None:
    _, answers = running._processes.Pipe(duplex=False)
    process = running._processes.Process(target=work, args=(answers, catalog, FOREVER, None, 10, 0.1), daemon=True)
    process.start()
    try:
        process.join(20)
        assert process.exitcode == -signal.SIGALRM
    finally:
        process.kill()


def test_a_statement_ends_when_its_browser_leaves(console: RunningConsole) -> None:
    others = set(list_workers())
    for _ in range(running.AT_ONCE):
        with pytest.raises(TimeoutError):
            console.get(f"/query?sql={quote(FOREVER)}", timeout=0.5)
    wait_until(lambda: not [each for each in {*list_workers()} - others if each.status() != psutil.STATUS_ZOMBIE])
    assert ask(console, "SELECT 1").status == 200, "its place is free"


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 10
    while not is_true():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def test_a_statement_ends_with_its_console(catalog: Catalog) -> None:
    ours, theirs = running._processes.Pipe(duplex=False)
    process = running._processes.Process(target=work, args=(theirs, catalog, FOREVER, None, 10, 60.0), daemon=True)
    process.start()
    theirs.close()
    ours.recv()
    assert process.is_alive()
    ours.close()
    process.join(10)
    assert process.exitcode == 1


def test_a_process_that_did_not_begin_is_no_matter_of_memory() -> None:
    ours, theirs = running._processes.Pipe(duplex=False)
    theirs.close()
    with ours, pytest.raises(Unavailable, match="did not start"):
        running._await_start(ours, threading.Event())


def test_a_statement_that_takes_too_much_memory_is_ended(console: RunningConsole) -> None:
    # Texts of a gigabyte each, which DuckDB's own limit does not count.
    answer = ask(console, "SELECT length(repeat('x', 900000000) || repeat('y', 900000000) || repeat('z', 900000000))")
    assert answer.status == 400
    assert 'role="alert"' in answer.text
    assert ask(console, "SELECT 1").status == 200


def test_huge_values_are_cut_and_do_not_fill_the_console(console: RunningConsole) -> None:
    answer = ask(console, "SELECT repeat('x', 1000000) AS v FROM shop.orders a, shop.orders b, shop.orders c")
    assert answer.status == 200
    assert "there are more" in answer.text
    assert len(answer.text) < 200_000


def test_too_many_statements_at_once_are_refused(console: RunningConsole) -> None:
    for number in range(running.AT_ONCE):
        assert running._places.take(f"another {number}")
    try:
        answer = ask(console, "SELECT 1")
        assert "run here already" in answer.text
        assert ask(console, "SELECT 1", more="&as=json").status == 429
    finally:
        for number in range(running.AT_ONCE):
            running._places.give_back(f"another {number}")


def test_one_caller_does_not_take_all_places(console: RunningConsole) -> None:
    def run_forever() -> None:
        with pytest.raises(TimeoutError):
            console.get(f"/query?sql={quote(FOREVER)}", timeout=3)

    threads = [threading.Thread(target=run_forever) for _ in range(running.AT_ONCE - 1)]
    for thread in threads:
        thread.start()
    wait_until(lambda: running._places.count == running.AT_ONCE - 1)
    assert ask(console, "SELECT 1", more="&as=json").status == 429
    assert ask(console, "SELECT 1", "viewer", more="&as=json").status == 200
    for thread in threads:
        thread.join()
    wait_until(lambda: running._places.count == 0)


def test_strangers_run_nothing(console: RunningConsole) -> None:
    for sql in ("SELECT 1", FOREVER):
        answer = console.get(f"/query?sql={quote(sql)}", None)
        assert (answer.status, answer.headers["location"].partition("?")[0]) == (303, "/sign-in")
        assert console.get(f"/query?sql={quote(sql)}&as=json", None).status == 401
    assert console.get("/query?sql=SELECT+1&as=json", "viewer").status == 200, "the control"


def test_hostile_values_and_names_are_text(console: RunningConsole, catalog: Catalog) -> None:
    bad = "<script>alert(1)</script>"
    turned = "\u202eevil"
    answer = ask(console, f"SELECT '{bad}' AS `{bad}`, 'javascript:alert(1)' AS `_links`, 1 AS `{turned}`")
    assert answer.status == 200
    assert bad not in answer.text
    assert "&lt;script&gt;" in answer.text
    assert 'href="javascript' not in answer.text
    assert turned not in answer.text.partition("<table>")[2].partition("</table>")[0]


def test_times_and_numbers_without_a_python_value(console: RunningConsole) -> None:
    sql = "SELECT CAST('NaN' AS DOUBLE) AS a, TIMESTAMP '2020-01-01 00:00:00' AS t, 99999999999999999999 AS h"
    (row,) = ask(console, sql, more="&as=json&part=rows").json
    assert row["a"] == "NaN"
    assert pa.scalar(int(row["h"]) % 10).as_py() == 9
