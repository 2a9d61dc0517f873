"""Runs SQL statements and prints their results."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakelog.cli.invocation import Invocation
from lakelog.cli.output.row_output import RowPrinter, print_table
from lakelog.cli.output.text import clean_text, plural

if TYPE_CHECKING:
    from lakelog.sql import SqlSession

TABLE_LIMIT: Final = 1000
"""The rows of one statement that people see unless they request more."""


class StatementRunner:
    """Runs statements one after the other and prints their results.

    Args:
        invocation: Has the printer.
        session: Keeps the current database.
        limit: The most rows for each statement, 0 for all; None: the default of the output.
    """

    def __init__(self, invocation: Invocation, session: SqlSession, limit: int | None) -> None:
        self._invocation = invocation
        self.session = session
        self._rows = RowPrinter(invocation.printer)
        default = 0 if invocation.printer.for_programs else TABLE_LIMIT
        self._limit = default if limit is None else limit
        self._has_printed = False

    def run(self, text: str) -> None:
        """Runs one statement; prints rows while it reads them. Raises the session's errors."""
        from lakelog.sql import parse_statement
        from lakelog.sql.query.duckdb_query import run_query
        from lakelog.sql.statements import Query, ShowCreateTable

        began_s = time.monotonic()
        statement = parse_statement(text)
        printer = self._invocation.printer
        row_count: int | None = None
        if isinstance(statement, Query):
            rows = run_query(self.session, statement.sql)
            row_count = self._print(rows.schema, rows)
        else:
            result = self.session.run(statement)
            if isinstance(statement, ShowCreateTable) and result.rows is not None and not printer.for_programs:
                self._print_script(result.rows.column(0)[0].as_py())
            elif result.rows is not None:
                row_count = self._print(result.rows.schema, result.rows.to_batches())
            elif result.table is not None and printer.for_programs:
                written = {"table": result.table, "snapshot_id": result.snapshot_id}
                written |= {} if result.changed is None else dataclasses.asdict(result.changed)
                printer.element(written)
                self._has_printed = True
            else:
                printer.say(result.message)
        if printer.is_terminal:
            rows = "" if row_count is None else f"{plural(row_count, 'row')}, "
            printer.note(f"{rows}{time.monotonic() - began_s:.2f} s")

    def _print_script(self, statement: str) -> None:
        """Prints a statement in a form that `lakelog sql -f` reads from a file."""
        printer = self._invocation.printer
        if printer.is_terminal:
            statement = "\n".join(clean_text(line) for line in statement.split("\n"))
        with printer.paging():
            printer.raw(statement + ";\n")

    def end(self) -> None:
        """Prints what stands for no rows of all statements together."""
        if not self._has_printed:
            self._rows.end()

    def _print(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Prints rows and returns how many."""
        if not self._invocation.printer.for_programs:
            return print_table(self._invocation, batches, self._limit, empty="No rows.")
        self._rows.begin(schema)
        for batch in _first_rows(batches, self._limit):
            self._rows.print(batch)
        return self._rows.row_count


def _first_rows(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches:
        yield batch.slice(0, left) if limit else batch
        left -= batch.num_rows
        if limit and left <= 0:
            return
