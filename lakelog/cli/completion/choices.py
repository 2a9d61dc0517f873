"""What can stand for an argument or an option: chosen by its placeholder in the help, and by its name.

So a command gets completions by calling its table DATABASE.TABLE, and needs no line of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import click
from click.shell_completion import CompletionItem

from lakelog.cli.completion.live_names import LiveNames
from lakelog.cli.completion.shells import OPEN

Choices = list[CompletionItem[str]]

_FULL_NAMES_OF: Final = 20
"""So many databases are looked into at once; of more only the names are shown until one is typed."""
_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9_.$]*\Z")
_OPTION_KEY: Final = re.compile(r"\b(?:SET|OPTIONS|TBLPROPERTIES)\s*\((?:[^()]*,)?\s*'(?P<key>[^'=,]*)\Z", re.I)
_SNAPSHOT_OPTIONS: Final = frozenset({"snapshot", "after", "until", "to", "if_snapshot", "if_unchanged"})


def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> Choices:
    """The completions of a parameter; empty if nothing is known of it."""
    path = context.command_path.partition(" ")[2]
    if (path, parameter.name) in _NEW:
        return []
    find: Callable[[_Typed], Choices] | None
    if parameter.metavar == "N":
        find = _snapshots if parameter.name in _SNAPSHOT_OPTIONS else None
    else:
        find = _BY_METAVAR.get(parameter.metavar or "") or _BY_NAME.get((parameter.metavar, parameter.name))
    return [] if find is None else find(_Typed(context, incomplete))


class _Typed:
    """What is typed so far.

    Args:
        context: Of the command, with the values of the words before.
        incomplete: The word that is to be completed, without quotes.
    """

    def __init__(self, context: click.Context, incomplete: str) -> None:
        self.incomplete = incomplete
        self.names = LiveNames(context.obj.connect_arguments())
        self._context = context

    @property
    def command(self) -> str:
        """The words of the command, without `lakelog`."""
        return self._context.command_path.partition(" ")[2]

    @property
    def table(self) -> str:
        """The table that is named before; empty: none."""
        given = self._context.params.get("name") or self._context.params.get("names") or ""
        return given if isinstance(given, str) else given[0]

    def pick(self, values: Iterable[str], before: str = "") -> Choices:
        """Those values that begin with what is typed after `before`."""
        typed = self.incomplete[len(before) :]
        return [CompletionItem(before + value) for value in values if value.startswith(typed)]


def _databases(typed: _Typed) -> Choices:
    return typed.pick(typed.names.databases())


def _tables(typed: _Typed) -> Choices:
    return _name_tables(typed, "")


def _name_tables(typed: _Typed, before: str) -> Choices:
    database, dot, _ = typed.incomplete[len(before) :].partition(".")
    if dot:
        return typed.pick((f"{database}.{name}" for name in typed.names.tables(database)), before)
    databases = [name for name in typed.names.databases() if name.startswith(database)]
    if len(databases) > _FULL_NAMES_OF:
        return [CompletionItem(f"{before}{name}.", type=OPEN) for name in databases]
    return typed.pick((f"{name}.{table}" for name in databases for table in typed.names.tables(name)), before)


def _databases_and_tables(typed: _Typed) -> Choices:
    return [*([] if "." in typed.incomplete else _databases(typed)), *_tables(typed)]


def _columns(typed: _Typed) -> Choices:
    before, comma, _ = typed.incomplete.rpartition(",")
    chosen = {name.strip() for name in before.split(",")}
    left = [name for name in typed.names.columns(typed.table) if name not in chosen] if typed.table else []
    return typed.pick(left, before + comma)


def _condition(typed: _Typed) -> Choices:
    match = _IDENTIFIER.search(typed.incomplete)
    before = typed.incomplete[: match.start()] if match else typed.incomplete
    # Not inside a text, which is no name of a column.
    if not typed.table or before.count("'") % 2:
        return []
    return typed.pick(typed.names.columns(typed.table), before)


def _partition(typed: _Typed) -> Choices:
    before, comma, _ = typed.incomplete.rpartition(",")
    found = typed.pick(typed.names.partition_columns(typed.table) if typed.table else [], before + comma)
    return [CompletionItem(f"{item.value}=", type=OPEN) for item in found]


def _statement(typed: _Typed) -> Choices:
    """The names of tables at the end of an SQL statement, also of system tables, and keys of options in SET (...)."""
    key = _OPTION_KEY.search(typed.incomplete)
    if key:
        return typed.pick(_option_keys(typed), typed.incomplete[: key.start("key")])
    match = _IDENTIFIER.search(typed.incomplete)
    before = typed.incomplete[: match.start()] if match else typed.incomplete
    word = typed.incomplete[len(before) :]
    if not word:
        return []
    from lakelog.system_tables.registry import MARK, OF_CATALOGS, OF_TABLES, SYSTEM_DATABASE

    table, mark, _ = word.partition(MARK)
    if mark:
        return typed.pick((f"{table}{MARK}{name}" for name in OF_TABLES), before)
    system = typed.pick((f"{SYSTEM_DATABASE}.{name}" for name in OF_CATALOGS), before)
    return [*_name_tables(typed, before), *system]


def _consumers(typed: _Typed) -> Choices:
    return typed.pick(typed.names.consumers(typed.table)) if typed.table else []


def _tags(typed: _Typed) -> Choices:
    return typed.pick(typed.names.tags(typed.table)) if typed.table else []


def _snapshots(typed: _Typed) -> Choices:
    return typed.pick(typed.names.snapshots(typed.table)) if typed.table else []


def _states(typed: _Typed) -> Choices:
    return [*_tags(typed), *_snapshots(typed)]


def _jobs(typed: _Typed) -> Choices:
    return typed.pick(typed.names.jobs())


def _pipelines(typed: _Typed) -> Choices:
    return typed.pick(typed.names.pipelines())


def _option_scope(typed: _Typed) -> Sequence[object]:
    from lakelog.options.option import Scope
    from lakelog.options.registry import list_options

    return list_options(Scope.STREAM if typed.command == "tail" else Scope.TABLE)


def _option_keys(typed: _Typed) -> list[str]:
    from lakelog.options.option import Option

    return [option.key for option in _option_scope(typed) if isinstance(option, Option)]


def _settings(typed: _Typed) -> Choices:
    """`KEY=` of all options, or `KEY=VALUE` of one whose values are words."""
    from lakelog.options.option import Option
    from lakelog.options.value_types import Choice, Flag

    key, equals, _ = typed.incomplete.partition("=")
    if not equals:
        return [CompletionItem(f"{item.value}=", type=OPEN) for item in typed.pick(_option_keys(typed))]
    values: Sequence[str] = ()
    for option in _option_scope(typed):
        if isinstance(option, Option) and option.key == key:
            kind = option.type
            values = kind.values if isinstance(kind, Choice) else ("true", "false") if isinstance(kind, Flag) else ()
    return typed.pick(values, f"{key}=")


def _keys(typed: _Typed) -> Choices:
    return typed.pick(typed.names.given_options(typed.table) if typed.table else _option_keys(typed))


def _catalogs(typed: _Typed) -> Choices:
    from lakelog.client.connection.catalog_file import read_catalogs
    from lakelog.errors import LakelogError

    try:
        return typed.pick(sorted(read_catalogs(os.environ.get("LAKELOG_CATALOGS") or os.devnull)))
    except LakelogError:
        return []


def _files(typed: _Typed) -> Choices:
    return [CompletionItem(typed.incomplete, type="file")]


def _service_words(typed: _Typed) -> Choices:
    """The commands of a service, as its help lists them."""
    from lakelog.cli.services import SERVICES

    words = SERVICES.get(typed.command, "").rpartition(": ")[2].rstrip(".").split(", ")
    return typed.pick(word for word in words if word.isidentifier())


_NEW: Final = frozenset({("database create", "name"), ("table create", "name"), ("tags create", "tag")})
"""What gets a name that nothing has yet."""
_BY_METAVAR: Final[dict[str, Callable[[_Typed], Choices]]] = {
    **dict.fromkeys(("DATABASE.TABLE", "DATABASE.TABLE...", "[DATABASE.TABLE]..."), _tables),
    **dict.fromkeys(("DATABASE[.TABLE]", "[DATABASE[.TABLE]]"), _databases_and_tables),
    **dict.fromkeys(("FILE", "PATH", "PATH...", "DIR", "DIR|FILE"), _files),
    **dict.fromkeys(("KEY=VALUE", "KEY=VALUE..."), _settings),
    "COLUMNS": _columns,
    "CONDITION": _condition,
    "COLUMN=VALUE[,...]": _partition,
    "TAG": _tags,
    "N|TAG": _states,
    "JOB": _jobs,
    "KEY...": _keys,
}
_BY_NAME: Final[dict[tuple[str | None, str | None], Callable[[_Typed], Choices]]] = {
    ("SQL", "condition"): _condition,
    ("SQL", "where"): _condition,
    ("SQL", "texts"): _statement,
    ("NAME", "database"): _databases,
    ("NAME", "_catalog_name"): _catalogs,
    ("ID", "consumer"): _consumers,
    (None, "database"): _databases,
    (None, "name"): _databases,
    (None, "consumer"): _consumers,
    (None, "tag"): _tags,
    (None, "pipeline"): _pipelines,
    (None, "arguments"): _service_words,
}
"""For placeholders that say little, and arguments without one."""
