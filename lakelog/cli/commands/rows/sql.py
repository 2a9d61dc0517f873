"""`lakelog sql`: statements from the command line, files, the standard input or a prompt."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from lakelog.cli.commands.rows.statement_runner import TABLE_LIMIT, StatementRunner
from lakelog.cli.commands.rows.statements import split_statements
from lakelog.cli.input.arguments import takes_limit
from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.errors import InvalidArgument, NotFound


@click.command(
    cls=LakelogCommand,
    example=(
        "lakelog sql",
        'lakelog sql -e "SELECT item, sum(price) FROM shop.orders GROUP BY item"',
        "lakelog sql -d shop -f tables.sql",
        'lakelog sql -e "SELECT * FROM shop.orders VERSION AS OF 3" --output json',
        "lakelog sql -e 'SELECT bucket, runs, due FROM shop.orders$buckets'",
    ),
)
@click.option("-e", "--execute", "texts", multiple=True, metavar="SQL", help="Statements to run; repeatable.")
@click.option(
    "-f", "--file", "files", multiple=True, metavar="FILE", help="Files of statements, run before those of -e."
)
@click.option("-d", "--database", metavar="NAME", help="The database for table names without one.")
@takes_limit(f"Show at most so many rows a statement; 0: all.  [default: {TABLE_LIMIT} in tables, all for programs]")
@pass_invocation
def sql(
    invocation: Invocation, texts: tuple[str, ...], files: tuple[str, ...], database: str | None, limit: int | None
) -> None:
    """Run SQL statements.

    Without -e and -f they come from the standard input; on a terminal you type them at a prompt with a history. The
    first statement that fails ends the command, except at the prompt. With --output json or jsonl, each row is an
    object on its own line, and so is the result of an INSERT; statements without a result print nothing.
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
    runner.end()


def _statements(scripts: Iterable[str]) -> Iterator[str]:
    for script in scripts:
        statements, rest = split_statements(script)
        yield from statements
        # The last statement needs no semicolon; the parser reports one that is not closed.
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
