"""`lakelog sql`: statements from the command line, files, the standard input or a person."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import pyarrow as pa

from lakelog.cli.commands.rows.statements import split_statements
from lakelog.cli.input.arguments import takes_limit
from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.cli.output.row_output import print_json, print_table
from lakelog.cli.output.text import clean_text, plural
from lakelog.errors import InvalidArgument, NotFound

if TYPE_CHECKING:
    from lakelog.sql import SqlSession

TABLE_LIMIT: Final = 1000
"""Rows of one statement that people see unless they ask for more."""


@click.command(
    cls=LakelogCommand,
    example=(
        "lakelog sql",
        'lakelog sql -e "SELECT item, sum(price) FROM shop.orders GROUP BY item"',
        "lakelog sql -d shop -f tables.sql",
        'lakelog sql -e "SELECT * FROM shop.orders VERSION AS OF 3" --output json',
    ),
)
@click.option("-e", "--execute", "texts", multiple=True, metavar="SQL", help="Statements to run; may come often.")
@click.option(
    "-f", "--file", "files", multiple=True, metavar="FILE", help="Files of statements, run before those of -e."
)
@click.option("-d", "--database", metavar="NAME", help="The database of tables that are named without one.")
@takes_limit(f"At most so many rows a statement, 0 for all.  [default: {TABLE_LIMIT} in tables, all in JSON]")
@pass_invocation
def sql(
    invocation: Invocation, texts: tuple[str, ...], files: tuple[str, ...], database: str | None, limit: int | None
) -> None:
    """Run SQL statements.

    Without -e and -f they come from the standard input; on a terminal you are asked for them, with a history. The first
    one that fails ends the command, except when you type them. With --output json each row is an object on a line of
    its own, and so is what an INSERT wrote; statements that return nothing print nothing.
    """
    from lakelog.cli.commands.rows.sql_prompt import Prompt
    from lakelog.sql import SqlSession

    session = SqlSession(invocation.catalog)
    if database is not None:
        session.execute(f"USE `{database.replace('`', '``')}`")
    runner = StatementRunner(invocation, session, limit)
    if not texts and not files:
        if sys.stdin.isatty():
            Prompt(invocation, runner).run()
            return
        files = ("-",)
    for statement in _statements([*(_read(file) for file in files), *texts]):
        runner.run(statement)


class StatementRunner:
    """Runs statements one after the other and prints what comes of them.

    Args:
        invocation: Whose printer is used.
        session: Remembers the current database.
        limit: At most so many rows a statement, 0 for all; None: the default of the output.
    """

    def __init__(self, invocation: Invocation, session: SqlSession, limit: int | None) -> None:
        self._invocation = invocation
        self._session = session
        default = 0 if invocation.printer.is_json else TABLE_LIMIT
        self._limit = default if limit is None else limit

    def run(self, text: str) -> None:
        """Runs one statement; rows are printed while they are read. Raises what the session does."""
        from lakelog.sql import parse_statement
        from lakelog.sql.query.duckdb_query import run_query
        from lakelog.sql.statements import Query, ShowCreateTable

        began_s = time.monotonic()
        statement = parse_statement(text)
        printer = self._invocation.printer
        row_count: int | None = None
        if isinstance(statement, Query):
            row_count = self._print(run_query(self._session, statement.sql))
        else:
            result = self._session.run(statement)
            if isinstance(statement, ShowCreateTable) and result.rows is not None and not printer.is_json:
                self._print_script(result.rows.column(0)[0].as_py())
            elif result.rows is not None:
                row_count = self._print(result.rows.to_batches())
            elif result.table is not None and printer.is_json:
                written = {"table": result.table, "snapshot_id": result.snapshot_id}
                printer.raw(json.dumps(written, ensure_ascii=False) + "\n")
            else:
                printer.say(result.message)
        if printer.is_terminal:
            rows = "" if row_count is None else f"{plural(row_count, 'row')}, "
            printer.note(f"{rows}{time.monotonic() - began_s:.2f} s")

    def _print_script(self, statement: str) -> None:
        """Prints a statement as it is typed, so that it can be kept in a file for `lakelog sql -f`."""
        printer = self._invocation.printer
        if printer.is_terminal:
            statement = "\n".join(clean_text(line) for line in statement.split("\n"))
        printer.raw(statement + ";\n")

    def _print(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Prints rows and counts those that were printed."""
        if not self._invocation.printer.is_json:
            return print_table(self._invocation, batches, self._limit, empty="No rows.")
        row_count = 0
        for batch in _first_rows(batches, self._limit):
            print_json(self._invocation, batch)
            row_count += batch.num_rows
        return row_count


def _first_rows(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches:
        yield batch.slice(0, left) if limit else batch
        left -= batch.num_rows
        if limit and left <= 0:
            return


def _statements(scripts: Iterable[str]) -> Iterator[str]:
    for script in scripts:
        statements, rest = split_statements(script)
        yield from statements
        # The last one needs no semicolon; one that is not closed is told so when it is read.
        if rest.strip():
            yield rest


def _read(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode()
    except FileNotFoundError as error:
        raise NotFound(f"There is no file {file}.", reason="FILE_NOT_FOUND") from error
    except IsADirectoryError as error:
        raise InvalidArgument(f"{file} is a folder; give one file of statements.") from error
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{file} is no text in UTF-8: {error.reason} at byte {error.start}.") from error
