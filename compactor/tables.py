"""Which tables' jobs are done: those that were named, even if some are dropped while the service runs.

If a name does not exist at the start, it is most likely mistyped, so the service says so and ends. Later it was a table
that someone has dropped, which is no reason to neglect the others: it is left out until a table of that name is made
again.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import NotFound
from lakelog.format.tables.table import TableName
from lakelog.serving.logging_setup import Logger


class NamedTables:
    """Finds the named tables, repeatedly. For one thread.

    Args:
        metastore: Knows the tables.
        names: Their names; empty: all tables.
        log: Gets the names that were dropped and made again.
    """

    def __init__(self, metastore: Metastore, names: Sequence[TableName], log: Logger) -> None:
        self._metastore = metastore
        self._names = names
        self._log = log
        self._has_begun = False
        self._gone: frozenset[TableName] = frozenset()

    def find(self) -> list[str] | None:
        """The uuids of those that exist; empty: all tables; None: all named ones were dropped. Blocks.

        Raises:
            NotFound: The first time: some do not exist; the error names all of them.
        """
        found: list[str] = []
        gone: list[TableName] = []
        for name in self._names:
            try:
                found.append(self._metastore.get_table(name).table_uuid)
            except NotFound:
                gone.append(name)
        if gone and not self._has_begun:
            raise _missing(gone)
        self._has_begun = True
        self._report(frozenset(gone))
        return None if gone and not found else found

    def _report(self, gone: frozenset[TableName]) -> None:
        """Logs what has changed, once."""
        for name in sorted(gone - self._gone, key=str):
            self._log.warning("table was dropped and is left out, until one of its name is made", table=str(name))
        for name in sorted(self._gone - gone, key=str):
            self._log.info("table of this name was made again, its jobs are done", table=str(name))
        if len(gone) == len(self._names) > len(self._gone):
            self._log.warning("all tables of --tables were dropped, waiting for one of them to be made again")
        self._gone = gone


def _missing(names: Sequence[TableName]) -> NotFound:
    listed = ", ".join(map(str, names))
    do = "does" if len(names) == 1 else "do"
    return NotFound(
        f"--tables names {listed}, which {do} not exist. Mind upper and lower case; make what is missing first, or "
        "leave it out.",
        reason="TABLE_NOT_FOUND",
        metadata={"tables": listed},
    )
