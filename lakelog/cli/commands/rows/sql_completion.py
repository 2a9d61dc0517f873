"""The names that the tabulator completes at the prompt for SQL: those that the metastore has now."""

from __future__ import annotations

import re
import readline
from collections.abc import Callable, Iterator
from typing import Final, Protocol

_DELIMITERS: Final = " \t\n,;()=<>'\"+-*/"
"""Where a word begins: not after a dot, since `shop.orders` is one."""

_INDENT: Final = "    "

_NAMED: Final = re.compile(r"(?i)\b(?:FROM|JOIN|INTO|UPDATE|TABLE|DESCRIBE)\s+(\w+(?:\.\w+)?)")
"""A table in a statement."""

_PLAIN: Final = re.compile(r"\w+\Z")

_MOST_TABLES: Final = 4
"""The columns of so many tables of a statement are looked up."""


class Names(Protocol):
    """The names that there are; nothing where the metastore does not answer in time."""

    def databases(self) -> list[str]:
        """All databases."""
        ...

    def tables(self, database: str) -> list[str]:
        """The tables of a database."""
        ...

    def columns(self, table: str) -> list[str]:
        """The columns of a table."""
        ...


def complete_word(names: Names, database: str | None, statement: str, word: str) -> list[str]:
    """What a word of a statement may become.

    Args:
        names: Finds names.
        database: The current one; None: none.
        statement: All that is typed of the statement.
        word: Its end.
    """
    from lakelog.system_tables.registry import MARK, OF_CATALOGS, OF_TABLES, SYSTEM_DATABASE

    table, mark, _ = word.partition(MARK)
    before, dot, _ = word.partition(".")
    if mark:
        found = [f"{table}{MARK}{kind}" for kind in OF_TABLES]
    elif dot:
        own = OF_CATALOGS if before.lower() == SYSTEM_DATABASE else names.tables(before)
        found = [f"{before}.{name}" for name in own if _PLAIN.match(name)]
    else:
        own = names.tables(database) if database else []
        others = [f"{name}." for name in (*names.databases(), SYSTEM_DATABASE) if _PLAIN.match(name)]
        found = [*_list_columns(names, database, statement), *filter(_PLAIN.match, own), *others]
    # A name may be that of a column of two tables.
    return [each for each in dict.fromkeys(found) if each.startswith(word)]


def _list_columns(names: Names, database: str | None, statement: str) -> Iterator[str]:
    for table in list(dict.fromkeys(_NAMED.findall(statement)))[:_MOST_TABLES]:
        if "." in table or database:
            yield from filter(_PLAIN.match, names.columns(table if "." in table else f"{database}.{table}"))


class Completer:
    """What readline asks for the completions of a word, one after the other.

    Args:
        make_names: Makes names that have half a second from then on.
        find_database: Returns the current database.
    """

    def __init__(self, make_names: Callable[[], Names], find_database: Callable[[], str | None]) -> None:
        self._make_names = make_names
        self._find_database = find_database
        self._found: list[str] = []
        self.typed = ""
        """The lines of the statement before this one."""

    def install(self) -> None:
        """Lets the tabulator ask this."""
        readline.set_completer(self)
        readline.set_completer_delims(_DELIMITERS)
        readline.parse_and_bind("tab: complete")

    def __call__(self, word: str, number: int) -> str | None:
        """The completion of a number, from 0; None: there are no more."""
        if number == 0:
            line = readline.get_line_buffer()
            # At the beginning of a line it indents, also in a text that is pasted.
            self._found = self._find(line, word) if line.strip() else [_INDENT]
        return self._found[number] if number < len(self._found) else None

    def _find(self, line: str, word: str) -> list[str]:
        return complete_word(self._make_names(), self._find_database(), f"{self.typed}{line}", word)
