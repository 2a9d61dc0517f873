"""The tables that statements name, with a database or without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakelog.arguments import check_text
from lakelog.errors import InvalidArgument
from lakelog.sql.statements import Name

if TYPE_CHECKING:
    from lakelog.sdk.catalog_tables import CatalogTables
    from lakelog.sdk.tables.table import Table


class NamedTables:
    """The tables of a catalog, by their names in statements. For one thread.

    Args:
        catalog: Where databases and tables are.
        database: The current database; None: names of tables must have theirs, until USE.
        is_kept: Whether further statements may come; if not, USE would change nothing and is refused.
    """

    def __init__(self, catalog: CatalogTables, database: str | None = None, *, is_kept: bool = True) -> None:
        if database is not None:
            check_text(database, "database", "shop")
        self.catalog: Final = catalog
        self.database = database
        self._is_kept = is_kept

    def table(self, name: Name) -> Table:
        """A table by its name; without a database it is looked up in the current one."""
        return self.catalog.table(self.full_name(name))

    def full_name(self, name: Name) -> str:
        """`database.table`.

        Raises:
            InvalidArgument: There is neither a database in the name nor a current one.
        """
        return f"{name.database or self._current_database(f'shop.{name.table}')}.{name.table}"

    def _current_database(self, example: str) -> str:
        """The current database.

        Raises:
            InvalidArgument: There is none; shows an example of how to name one.
        """
        if self.database is None:
            other = "say USE shop first" if self._is_kept else "give database='shop' with the statement"
            raise InvalidArgument(
                f"There is no current database. Name one, for instance {example}, or {other}.", reason="NO_DATABASE"
            )
        return self.database
