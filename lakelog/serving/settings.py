"""Settings of a service, each declared once: as a field of a frozen dataclass.

A field declares its arguments, their variables and help texts, and how its value is read. The command line's parser,
its help text and the settings object come from these declarations. An argument wins over its variable.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lakelog.config import CATALOG_VARIABLE, CATALOGS_VARIABLE, TARGET_VARIABLE, read_connect_settings
from lakelog.format.tables.table import TableName
from lakelog.serving.arguments import Argument, OneLineParser, Values, refusal
from lakelog.serving.logging_setup import LEVELS

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

S = TypeVar("S", bound="DataclassInstance")

_ARGUMENTS: Final = "arguments"
_READ: Final = "read"
_AsWritten: Final = argparse.RawDescriptionHelpFormatter


def setting(read: Callable[[Values], object], *arguments: Argument, is_secret: bool = False) -> Any:
    """A field whose value `read` takes from the values of some arguments; `repr` omits it if it is secret."""
    return field(metadata={_ARGUMENTS: arguments, _READ: read}, repr=not is_secret)


def text(name: str, variable: str, what: str) -> Any:
    """A text, or None."""
    return setting(lambda values: values.text(name), Argument(name, variable, what))


def number(name: str, variable: str, what: str, default: float, first: float, last: float | None = None) -> Any:
    """A number from `first` to `last`, or of at least `first`."""
    return setting(lambda values: values.number(name, default, first, last), Argument(name, variable, what))


def whole(name: str, variable: str, what: str, default: int, first: int, last: int | None = None) -> Any:
    """A whole number; the part after a decimal point is cut off."""
    return setting(lambda values: int(values.number(name, default, first, last)), Argument(name, variable, what))


def port(name: str, variable: str, what: str) -> Any:
    """A port, 0 for a free one, or None."""
    return setting(lambda values: values.port(name), Argument(name, variable, what))


def choice(name: str, variable: str, what: str, default: str, choices: Sequence[str]) -> Any:
    """One of several words."""
    return setting(lambda values: values.choice(name, default, choices), Argument(name, variable, what))


def log_level(more: str = "") -> Any:
    """The level of the log: one of `LEVELS`; `more` ends the help text."""
    what = f"One of {', '.join(LEVELS)}; default info{more}."
    return choice("log-level", "LAKELOG_LOG_LEVEL", what, "info", LEVELS)


def switch(name: str, what: str, variable: str = "") -> Any:
    """True or False; without a variable only the argument makes it True."""
    return setting(lambda values: values.switch(name), Argument(name, variable, what, {"action": "store_true"}))


def target_setting(more: str = "") -> Any:
    """Where the metastore is, as text, or None; `more` ends the help text."""
    return setting(_read_target, _target(more))


def connect_settings() -> Any:
    """How to reach the metastore and files: the target, and the SDK's own variables."""
    return setting(lambda values: read_connect_settings(values.environment, target=_read_target(values)), _target())


def _target(more: str = "") -> Argument:
    what = (
        f"host:port of the metastore{more}. In its place {CATALOG_VARIABLE} can name a catalog of the file "
        f"{CATALOGS_VARIABLE}; the two variables together are refused."
    )
    return Argument("target", TARGET_VARIABLE, what)


def _read_target(values: Values) -> str | None:
    """The target. A variable of a deployment and one of a shell must not silently lead to different groups."""
    target, catalog = values.variable("target"), values.environment.get(CATALOG_VARIABLE)
    if target and catalog and not values.given("target"):
        raise refusal(
            f"{TARGET_VARIABLE}={target:.80} and {CATALOG_VARIABLE}={catalog:.80} are both set: unset one of them, or "
            "give --target."
        )
    return values.text("target")


def tables(variable: str, what: str) -> Any:
    """Names of tables, each once; empty: all tables."""
    return setting(lambda values: _to_tables(values.text("tables")), Argument("tables", variable, what))


def add_settings(
    parser: argparse.ArgumentParser,
    kind: type[DataclassInstance],
    *,
    only: Collection[str] | None = None,
    without: Collection[str] = (),
) -> None:
    """Adds the arguments of a settings class, in the order of its fields.

    Args:
        parser: Gets the arguments.
        kind: The class that declares them.
        only: The fields that the command has; None: all.
        without: The fields that the command does not have.
    """
    for name, metadata in _find_declared(kind).items():
        if name not in without and (only is None or name in only):
            for argument in metadata[_ARGUMENTS]:
                argument.add_to(parser)


def read_settings(kind: type[S], given: argparse.Namespace, environment: Mapping[str, str], **known: object) -> S:
    """Makes the settings object; fields in `known` are not read.

    Raises:
        InvalidArgument: A value is missing or not possible.
    """
    declared = _find_declared(kind)
    values = Values(vars(given), environment, [each for metadata in declared.values() for each in metadata[_ARGUMENTS]])
    read = {name: metadata[_READ](values) for name, metadata in declared.items() if name not in known}
    return kind(**known, **read)


def make_parser(program: str, description: str, epilog: str) -> OneLineParser:
    """A parser whose help text keeps the lines of description and epilog."""
    return OneLineParser(prog=program, description=description, epilog=epilog, formatter_class=_AsWritten)


def add_command(
    commands: argparse._SubParsersAction[OneLineParser], name: str, what: str, description: str, epilog: str
) -> OneLineParser:
    """Adds a command to the result of `add_subparsers`; `what` describes it in the program's own help text."""
    return commands.add_parser(name, help=what, description=description, epilog=epilog, formatter_class=_AsWritten)


def _find_declared(kind: type[DataclassInstance]) -> dict[str, Mapping[str, Any]]:
    return {each.name: each.metadata for each in fields(kind) if _READ in each.metadata}


def _to_tables(given: str | None) -> tuple[TableName, ...]:
    if given is None:
        return ()
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not names:
        # Not "all tables": an empty variable in a script would mean that.
        raise refusal(
            f"--tables={given!r} names no table: name some as database.table, or leave it out for all tables."
        )
    found = []
    for name in names:
        database, dot, table = name.partition(".")
        if not (database and dot and table) or "." in table:
            raise refusal(f"--tables {name}: name a table as database.table.")
        found.append(TableName(database, table))
    return tuple(dict.fromkeys(found))
