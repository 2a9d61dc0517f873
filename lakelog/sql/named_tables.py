"""The tables that statements name, with a database or without one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from lakelog.arguments import check_text
from lakelog.errors import InvalidArgument, LakelogError, NotFound
from lakelog.sdk.catalog_tables import CatalogTables
from lakelog.sql.statements import Name
from lakelog.system_tables.registry import MARK, OF_CATALOGS, SYSTEM_DATABASE

if TYPE_CHECKING:
    from lakelog.sdk.system_table import SystemTable
    from lakelog.sdk.tables.table import Table


class NamedTables:
    """The tables of a catalog by their names in statements. For one thread.

    Args:
        catalog: Has the databases and tables, and knows other catalogs.
        database: The current database; None: names of tables need a database, until USE.
        is_kept: Whether further statements may follow; otherwise USE would have no effect and is refused.
    """

    def __init__(self, catalog: CatalogTables, database: str | None = None, *, is_kept: bool = True) -> None:
        if database is not None:
            check_text(database, "database", "shop")
        self.catalog: Final = catalog
        self.database = database
        self._is_kept = is_kept

    def table(self, name: Name) -> Table:
        """A table by its name, in any catalog; without a database the current one is used."""
        catalog = self.find_catalog(name)
        try:
            return catalog.table(self._two_parts(name))
        except NotFound as error:
            if catalog is self.catalog:
                raise
            raise NotFound(
                f"{error.message.rstrip('.')}. It is looked for in the catalog '{name.catalog}'.",
                reason=error.reason,
                metadata=error.metadata,
            ) from error

    def system_table(self, name: Name) -> SystemTable | None:
        """The system table of a name, in any catalog; None: it names no system table.

        Raises:
            NotFound: There is no such system table, or no such table; names the nearest ones.
        """
        base, mark, kind = name.table.partition(MARK)
        if mark:
            return self.table(Name(name.database, base, name.catalog)).system_table(kind)
        if (name.database or "").casefold() != SYSTEM_DATABASE:
            return None
        catalog = self.find_catalog(name)
        if name.table.casefold() not in OF_CATALOGS:
            with contextlib.suppress(NotFound):
                # A database may have this name.
                catalog.table(self._two_parts(name))
                return None
        return catalog.system_table(f"{SYSTEM_DATABASE}.{name.table}")

    def shown_name(self, name: Name, table: Table) -> str:
        """A table's name for people: with its catalog, if that is not the session's."""
        return table.name if self.find_catalog(name) is self.catalog else f"{name.catalog}.{table.name}"

    @contextlib.contextmanager
    def naming_databases(self, name: str) -> Iterator[None]:
        """Says so if a database does not exist, and its name is that of a catalog."""
        try:
            yield
        except NotFound as error:
            try:
                is_catalog = self.catalog.catalog(name) is not self.catalog
            except LakelogError:
                is_catalog = False
            if not is_catalog:
                raise
            raise NotFound(
                f"{error.message.rstrip('.')}. '{name}' is another catalog: connect to it (lakelog --catalog {name}, "
                f"or catalog.catalog('{name}')), or name its tables with three parts, as in {name}.shop.orders.",
                reason=error.reason,
                metadata=error.metadata,
            ) from error

    def find_catalog(self, name: Name) -> CatalogTables:
        """The catalog of a name; without one, the session's.

        Raises:
            InvalidArgument: There is no file of catalogs, or it cannot be used.
            NotFound: There is no such catalog.
        """
        return self.catalog if name.catalog is None else self.catalog.catalog(name.catalog)

    def full_name(self, name: Name) -> str:
        """`database.table`, in the session's catalog.

        Raises:
            InvalidArgument: The name has no database, and there is no current one, or it names another catalog.
        """
        if self.find_catalog(name) is not self.catalog:
            raise InvalidArgument(
                f"{name} is in another catalog than this session. Statements that make or drop tables, and grants, "
                f"work in the session's own: connect to '{name.catalog}' for them.",
                reason="OTHER_CATALOG",
                metadata={"field": "catalog"},
            )
        return self._two_parts(name)

    def _two_parts(self, name: Name) -> str:
        return f"{name.database or self._current_database(f'shop.{name.table}')}.{name.table}"

    def _current_database(self, example: str) -> str:
        """The current database.

        Raises:
            InvalidArgument: There is none; the message shows an example of a name with a database.
        """
        if self.database is None:
            other = "say USE shop first" if self._is_kept else "give database='shop' with the statement"
            raise InvalidArgument(
                f"There is no current database. Name one, for instance {example}, or {other}.", reason="NO_DATABASE"
            )
        return self.database
