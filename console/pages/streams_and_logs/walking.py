"""Tables by name, some at a time: a page never loads all of them to show the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import NotFound, PermissionDenied
from lakelog.format.tables.table import TableName

_REQUESTED_AT_ONCE: Final = 8

_In = TypeVar("_In")
_Out = TypeVar("_Out")


def list_table_names(metastore: Metastore, after: str = "") -> Iterator[TableName]:
    """The tables that the caller may see, by name.

    Args:
        metastore: Knows them.
        after: Only those after this `database.table`; empty: all.
    """
    first, _, after_table = after.partition(".")
    for database in metastore.list_databases():
        if database.name < first:
            continue
        try:
            names = metastore.list_tables(database.name)
        except NotFound:
            # It was dropped meanwhile.
            continue
        yield from (TableName(database.name, name) for name in names if database.name > first or name > after_table)


def load_each(load: Callable[[_In], _Out], items: Sequence[_In]) -> list[_Out | None]:
    """What is loaded for some items, in their order; several at once. None: it went, or may not be seen any more."""

    def load_one(item: _In) -> _Out | None:
        try:
            return load(item)
        except (NotFound, PermissionDenied):
            return None

    with ThreadPoolExecutor(_REQUESTED_AT_ONCE) as threads:
        return list(threads.map(load_one, items))
