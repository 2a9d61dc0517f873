"""One call of the command: the shared options, and the connection made from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from lakelog.cli.input.names import CompletedText
from lakelog.cli.interrupts import silent_interrupts
from lakelog.cli.output.output_format import OutputFormat
from lakelog.privacy.redaction import remember_secret

if TYPE_CHECKING:
    from lakelog.cli.output.printer import Printer
    from lakelog.client.connection.target import TlsFiles
    from lakelog.client.connection.tokens import Token
    from lakelog.client.metastore.metastore import Metastore
    from lakelog.config import ConnectSettings
    from lakelog.sdk.catalog import Catalog

DEFAULT_TARGET: Final = "localhost:7450"
"""The default address of `lakelog up`."""

_WITHOUT_CONNECTION: Final = frozenset({"_output", "_quiet", "_no_pager", "_verbose"})
"""The shared options that say nothing of a metastore."""


@dataclass
class Invocation:
    """The values of the shared options, before or after a command's name.

    Args:
        target: Host and port of the metastore.
        target_given: Whether the command line, and not the environment, has it.
        catalog_name: A catalog in the file LAKELOG_CATALOGS, instead of a target; empty: none.
        catalog_given: Whether the command line has it.
        token: Identifies the caller; None: the environment, or the entry of the catalog, may have one.
        token_file: A file that holds such a token, instead of `token`; None: the environment may name one.
        use_tls: Whether the connection is encrypted; each TLS file implies it.
        tls_ca: The path of the certificates to trust; None, as of the next two: as `token`.
        tls_cert: The path of the client's certificate chain.
        tls_key: The path of the client's private key.
        output: The format of the output.
        verbose: Whether an error shows its traceback.
        quiet: Whether notes and progress are left out.
        no_pager: Whether long output is printed as it is.
        open_catalog: Makes the connection; tests replace it.
        make_printer: Makes the printer; tests set a width with it.
    """

    target: str = DEFAULT_TARGET
    target_given: bool = False
    catalog_name: str = ""
    catalog_given: bool = False
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    use_tls: bool = False
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    output: OutputFormat = OutputFormat.TABLE
    verbose: bool = False
    quiet: bool = False
    no_pager: bool = False
    open_catalog: Callable[[Invocation], Catalog] = field(default=lambda invocation: _connect(invocation), repr=False)
    make_printer: Callable[[OutputFormat], Printer] = field(default=lambda output: _make_printer(output), repr=False)

    @cached_property
    def catalog(self) -> Catalog:
        """The catalog at the target; the first call makes the connection."""
        return self.open_catalog(self)

    @property
    def is_named(self) -> bool:
        """Whether a catalog's name leads to the metastore. The command line wins over the environment."""
        return bool(self.catalog_name) and (self.catalog_given or not self.target_given)

    @cached_property
    def settings(self) -> ConnectSettings:
        """How to reach the metastore, from the options, the environment and the file of catalogs."""
        from lakelog.config import read_connect_settings

        return read_connect_settings(os.environ, **self.connect_arguments())

    @property
    def address(self) -> str:
        """Host and port of the metastore."""
        return self.settings.target if self.is_named else self.target

    def connect_arguments(self) -> dict[str, Any]:
        """The arguments of `lakelog.connect`."""
        return {
            "target": self.target if self.target_given or not self.is_named else None,
            "catalog": self.catalog_name if self.is_named else None,
            "token": None if self.token_file else self.token,
            "token_file": self.token_file,
            "tls": True if self.use_tls else None,
            "tls_ca": self.tls_ca,
            "tls_cert": self.tls_cert,
            "tls_key": self.tls_key,
        }

    @property
    def tls(self) -> TlsFiles | None:
        """The files for TLS; None: plaintext."""
        return self.settings.tls_files

    @property
    def sign_in(self) -> Token | None:
        """What identifies the caller."""
        return self.settings.token

    @property
    def metastore(self) -> Metastore:
        """The catalog's own client of the metastore."""
        return self.catalog.metastore

    @cached_property
    def printer(self) -> Printer:
        """Prints in the requested format."""
        printer = self.make_printer(self.output)
        printer.quiet, printer.pages = self.quiet, not self.no_pager
        return printer

    def progress(self) -> AbstractContextManager[None]:
        """Shows how far long calls of the block are, if a person watches the standard error."""
        if not self.printer.shows_progress:
            return nullcontext()
        # Not above: most calls are not watched, or end before anything is shown.
        from lakelog.progress.terminal import show_on
        from lakelog.progress.tracking import shown_by

        return shown_by(show_on(self.printer.notes))

    def close(self) -> None:
        """Ends the connection if there is one."""
        if "catalog" in self.__dict__:
            self.catalog.close()


pass_invocation = click.make_pass_decorator(Invocation)


def _make_printer(output: OutputFormat) -> Printer:
    from lakelog.cli.output.printer import Printer

    return Printer(output)


def _connect(invocation: Invocation) -> Catalog:
    with silent_interrupts():
        import lakelog.client.grpc.metastore
        import lakelog.sdk.catalog
        from lakelog.without_pandas import leave_pandas_out

        leave_pandas_out()

    return lakelog.connect(**invocation.connect_arguments())


def _remember(name: str, convert: Callable[[Any], Any] = lambda value: value) -> Callable[..., Any]:
    """A callback that stores an option's value in the invocation, if the option was given."""

    def callback(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        if value is not None and value is not False:
            invocation = context.ensure_object(Invocation)
            is_given = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
            if name == "token":
                remember_secret(value)
            # As arguments of `connect` they would win over the entry of a catalog, which has its own.
            if is_given or name not in ("token", "tls_ca", "tls_cert", "tls_key"):
                setattr(invocation, name, convert(value))
            if name in ("target", "catalog_name"):
                setattr(invocation, f"{name.partition('_')[0]}_given", is_given)
        return value

    return callback


def shared_options(*, hidden: bool) -> list[click.Option]:
    """The options that every command takes: before its name or, hidden in its help, after it.

    Only the former read the environment, so that it does not replace a value that was given there.
    """

    def option(*names: str, name: str, environment: str | None = None, **settings: Any) -> click.Option:
        convert = settings.pop("convert", lambda value: value)
        if not settings.get("is_flag"):
            settings.setdefault("type", CompletedText())
        return click.Option(
            [*names, f"_{name}"],
            expose_value=False,
            hidden=hidden,
            envvar=None if hidden else environment,
            show_envvar=True,
            callback=_remember(name, convert),
            **settings,
        )

    return [
        option(
            "-t",
            "--target",
            name="target",
            environment="LAKELOG_TARGET",
            metavar="HOST:PORT",
            help=f"Where the metastore listens.  [default: {DEFAULT_TARGET}]",
        ),
        option(
            "--catalog",
            name="catalog_name",
            environment="LAKELOG_CATALOG",
            metavar="NAME",
            help="A catalog of the file LAKELOG_CATALOGS, instead of a target.",
        ),
        option("--token", name="token", environment="LAKELOG_TOKEN", metavar="TOKEN", help="Token to sign in with."),
        option(
            "--token-file",
            name="token_file",
            metavar="FILE",
            help="File with the token, read again when it changes.  [env var: LAKELOG_TOKEN_FILE]",
        ),
        option("--tls", name="use_tls", is_flag=True, help="Encrypt the connection."),
        option(
            "--tls-ca",
            name="tls_ca",
            environment="LAKELOG_TLS_CA",
            metavar="FILE",
            help="Certificates to trust; implies --tls.",
        ),
        option(
            "--tls-cert",
            name="tls_cert",
            environment="LAKELOG_TLS_CERT",
            metavar="FILE",
            help="The client's certificate, for mutual TLS.",
        ),
        option(
            "--tls-key",
            name="tls_key",
            environment="LAKELOG_TLS_KEY",
            metavar="FILE",
            help="The private key of --tls-cert.",
        ),
        option(
            "-o",
            "--output",
            name="output",
            environment="LAKELOG_OUTPUT",
            convert=OutputFormat,
            type=click.Choice([choice.value for choice in OutputFormat]),
            help="For people, or for programs.  [default: table]",
        ),
        option("-q", "--quiet", name="quiet", is_flag=True, help="Show no progress and no notes."),
        option("--no-pager", name="no_pager", is_flag=True, help="Print long output without a pager."),
        option("-v", "--verbose", name="verbose", is_flag=True, help="Show the traceback of an error."),
    ]


def complete_texts(command: click.Command) -> None:
    """Lets shells complete the texts of a command; parameters with types of their own do so by these."""
    for parameter in command.params:
        if parameter.type is click.STRING:
            parameter.type = CompletedText()


class LakelogCommand(click.Command):
    """A command that also takes the shared options after its name.

    Args:
        args: As in `click.Command`.
        example: Command lines to type, shown in the help.
        connects: Whether it connects to a metastore, and so takes the options for that.
        settings: As in `click.Command`.
    """

    def __init__(self, *args: Any, example: Sequence[str] = (), connects: bool = True, **settings: Any) -> None:
        super().__init__(*args, **settings)
        complete_texts(self)
        self.example = tuple(example)
        self._connects = connects
        self.params.extend(
            option for option in shared_options(hidden=True) if connects or option.name in _WITHOUT_CONNECTION
        )

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command, and shows how far its long calls are."""
        with ctx.ensure_object(Invocation).progress():
            return super().invoke(ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Shows the examples, and where the shared options are described."""
        super().format_epilog(ctx, formatter)
        if self.example:
            with formatter.section("Examples"):
                for line in self.example:
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")
        formatter.write_paragraph()
        if self._connects:
            formatter.write_text("Also: --target, --output json and the other options of `lakelog --help`.")
        else:
            formatter.write_text("Also: --output json, --quiet, and -v for tracebacks.")


class FileCommand(LakelogCommand):
    """A command whose `-o` names a file that it makes. The format of its output has its long name alone."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        for option in self.params:
            if option.name == "_output":
                option.opts.remove("-o")


class LakelogGroup(click.Group):
    """A group of such commands, in the order in which they were added."""

    command_class = LakelogCommand
    group_class = type

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order in which the commands were added."""
        return list(self.commands)
