"""The prompt for SQL statements."""

from __future__ import annotations

import contextlib
import os
import readline
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

import lakelog
from lakelog.cli.commands.rows.sql_completion import Completer
from lakelog.cli.commands.rows.statement_runner import StatementRunner
from lakelog.cli.commands.rows.statements import split_statements
from lakelog.cli.completion.live_names import LiveNames
from lakelog.cli.failures import describe_error
from lakelog.cli.invocation import Invocation
from lakelog.cli.output.output_format import OutputFormat
from lakelog.errors import LakelogError

_PROMPT: Final = "lakelog> "
_CONTINUED: Final = "    ...> "
_LEAVE: Final = frozenset({"exit", "quit", "\\q"})
_HELP: Final = frozenset({"help", "\\h", "?"})
_HISTORY_LENGTH: Final = 2000
_EXAMPLES: Final = """\
Statements end with a semicolon and may have many lines. For instance:
  SHOW DATABASES;  USE shop;  SHOW TABLES LIKE 'ord%';  DESCRIBE orders;  SHOW CREATE TABLE orders;
  SELECT item, price FROM orders WHERE price < 5;
  SELECT * FROM orders VERSION AS OF 3;
  SELECT * FROM orders$snapshots;  SELECT * FROM orders$files WHERE rows < 100;  SELECT * FROM sys.tables;
  INSERT INTO orders VALUES (1, 'tea', 3.50);
  CREATE TABLE notes AS SELECT * FROM read_csv('notes.csv');
  EXPLAIN SELECT item FROM orders WHERE price < 5;
The tabulator completes names of databases, tables and columns.
Ctrl-C drops what is typed, Ctrl-D or exit leaves."""


class Prompt:
    """Reads statements from the terminal until the user leaves it."""

    def __init__(self, invocation: Invocation, runner: StatementRunner) -> None:
        self._invocation = invocation
        self._runner = runner

    def run(self) -> None:
        """Prompts, runs statements and shows errors; returns when the user leaves."""
        printer = self._invocation.printer
        where = f"lakelog {lakelog.__version__} at {self._invocation.address}"
        printer.note(f"{where}. A semicolon ends a statement, help shows some, Ctrl-D leaves.")
        completer = Completer(
            lambda: LiveNames(self._invocation.connect_arguments()), lambda: self._runner.session.database
        )
        completer.install()
        with _history():
            typed = ""
            while True:
                completer.typed = typed
                try:
                    line = input(_CONTINUED if typed else _PROMPT)
                except KeyboardInterrupt:
                    click.echo(err=True)
                    typed = ""
                    continue
                except EOFError:
                    click.echo(err=True)
                    return
                word = line.strip().rstrip(";").lower()
                if not typed and word in _LEAVE:
                    return
                if not typed and word in _HELP:
                    printer.note(_EXAMPLES)
                    continue
                statements, rest = split_statements(f"{typed}{line}\n")
                typed = rest + "\n" if rest.strip() else ""
                self._run_all(statements)

    def _run_all(self, statements: list[str]) -> None:
        """Runs statements up to the first that fails or is interrupted."""
        for statement in statements:
            try:
                self._runner.run(statement)
            except LakelogError as error:
                click.echo(describe_error(error, OutputFormat.TABLE), err=True)
                return
            except KeyboardInterrupt:
                click.echo("\nInterrupted.", err=True)
                return


@contextlib.contextmanager
def _history() -> Iterator[None]:
    """Line editing with the lines of earlier calls; a failure to store the history is no error."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    file = state / "lakelog" / "sql_history"
    readline.set_history_length(_HISTORY_LENGTH)
    with contextlib.suppress(OSError):
        readline.read_history_file(file)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            # Created before it is filled, so that other users never read it.
            file.touch(mode=0o600)
            readline.write_history_file(file)
