"""Rows for people: what a terminal has no room for is cut, what goes to a pipe or file never is."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from lakelog.cli.commands.rows.statement_runner import StatementRunner
from lakelog.cli.commands.rows.statements import split_statements
from lakelog.cli.invocation import Invocation
from lakelog.cli.output.output_format import OutputFormat
from lakelog.cli.output.printer import Printer
from lakelog.cli.output.row_table import RowTable, _cells
from lakelog.sql import SqlResult


def printed(width: int | None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.delenv("COLUMNS", raising=False)
    out = io.StringIO()
    table = RowTable(Printer(OutputFormat.TABLE, out, io.StringIO(), width))
    rows = {
        "id": [1, 2],
        "text": ["a" * 5000, "b"],
        "raw": [b"\xff" * 300, b""],
        "list": [["c" * 400], []],
        "end": [3, 4],
    }
    table.add(pa.RecordBatch.from_pydict(rows))
    table.flush()
    return out.getvalue().splitlines()


def test_nothing_is_cut_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    titles, first, second = printed(None, monkeypatch)
    assert first.split() == ["1", "a" * 5000, "0x" + "ff" * 300, '["' + "c" * 400 + '"]', "3"]
    # A long value pushes its own line only.
    assert max(len(titles), len(second)) < 1000


def test_a_terminal_gets_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(80, monkeypatch)
    assert len(lines) == 3
    assert max(len(line) for line in lines) <= 80


def test_show_create_table_prints_a_script() -> None:
    statement = "CREATE TABLE shop.orders (\n  id BIGINT NOT NULL,\n  " + "x" * 300 + " STRING COMMENT 'a;b'\n)"
    session: Any = SimpleNamespace(run=lambda _: SqlResult(rows=pa.table({"statement": [statement]})))
    out = io.StringIO()
    invocation = Invocation(make_printer=lambda output: Printer(output, out, io.StringIO()))
    runner = StatementRunner(invocation, session, None)
    runner.run("SHOW CREATE TABLE shop.orders")
    runner.run("SHOW CREATE TABLE shop.orders")
    assert split_statements(out.getvalue()) == ([statement, statement], "")


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        (pa.array([0, None], pa.int32()).cast(pa.date32()), ["1970-01-01", ""]),
        (pa.array([2**31 - 1, None, 0], pa.int32()).cast(pa.date32()), ["2147483647", "", "1970-01-01"]),
        (pa.array([2**63 - 1, None], pa.int64()).view(pa.timestamp("us", "UTC")), ["9223372036854775807 µs", ""]),
        (pa.array([253402300800000000], pa.int64()).view(pa.timestamp("us", "UTC")), ["10000-01-01T00:00:00Z"]),
        (pa.array([11_248_737, -12_687_429], pa.int32()).view(pa.date32()), ["32767-12-31", "-12687429 days"]),
    ],
)
def test_dates_beyond_the_years_of_python_are_shown(column: pa.Array, texts: list[str]) -> None:
    cells = [cell.text for cell in _cells(column, None, cut=True)]
    assert len(cells) == len(texts)
    assert all(text in cell for cell, text in zip(cells, texts, strict=True))
