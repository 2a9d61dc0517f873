"""Conditions of DELETE and UPDATE that a filter of a scan cannot say: DuckDB tests the rows, with subqueries and all.

The condition is the WHERE of a query over the table. Its other tables are read once, into tables of DuckDB; the rows of
the table itself are registered portion by portion, so that they take no more memory than in other changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lakelog.sql.create_table import quote_name
from lakelog.sql.named_tables import NamedTables
from lakelog.sql.query.duckdb_query import import_duckdb, lock, register_files, register_tables, to_own_error
from lakelog.sql.query.query import TableUse, needed_columns, plan_select, pushed_filter
from lakelog.sql.statements import ChangedTable
from lakelog.writes.row_changes.key_join import Indices
from lakelog.writes.row_changes.selection import FindRows

if TYPE_CHECKING:
    from lakelog.sdk.tables.table import Table


class QueriedRows:
    """The rows of a table that fulfil a condition; a `RowSelection`.

    Args:
        names: Finds the tables of subqueries.
        changed: The table, as the statement names it.
        table: The same table.
        where: The condition.

    Raises:
        InvalidArgument: The condition cannot be read.
    """

    def __init__(self, names: NamedTables, changed: ChangedTable, table: Table, where: str) -> None:
        self._names = names
        self._schema = table.schema
        # No column has this name: it is longer than all others.
        self._place = "_" * (1 + max(map(len, self._schema.names)))
        alias = "" if changed.alias is None else f" AS {quote_name(changed.alias)}"
        # In parentheses the condition cannot go on as LIMIT or UNION; on lines of its own a comment ends in it.
        self._rest = f"FROM {'.'.join(map(quote_name, str(changed.name).split('.')))}{alias} WHERE (\n{where}\n)"
        self._plan = plan_select(f"SELECT {self._place} {self._rest}", names.catalog.name)

    @property
    def query(self) -> str:
        """A query that reads what the condition does, to be explained."""
        return f"SELECT 1 {self._rest}"

    def filter(self, schema: pa.Schema) -> str | None:
        """See `RowSelection`: the parts of the condition that a scan can apply."""
        return pushed_filter(self._plan, self._plan.tables[0], schema)

    def columns(self, schema: pa.Schema) -> Sequence[str]:
        """See `RowSelection`."""
        return needed_columns(self._plan, schema) or schema.names

    @contextmanager
    def open(self, read: dict[str, int]) -> Iterator[FindRows]:
        """See `RowSelection`."""
        duckdb = import_duckdb()
        plan, failures = self._plan, list[BaseException]()
        own, *others = plan.tables
        columns = {str(own.name): self._schema.names}
        with duckdb.connect(":memory:") as connection:

            def find(rows: pa.Table) -> Indices:
                connection.register(own.relation, rows.append_column(self._place, pa.array(np.arange(rows.num_rows))))
                try:
                    found = connection.sql(plan.sql).to_arrow_table().column(0)
                except duckdb.Error as error:
                    raise to_own_error(error, failures, columns, files) from error
                finally:
                    connection.unregister(own.relation)
                return np.sort(found.to_numpy())

            try:
                connection.execute("SET TimeZone = 'UTC'")
                files = register_files(self._names, plan, connection, columns)
                for uses, snapshots in self._by_catalog(others, read):
                    columns |= register_tables(
                        self._names, plan, uses, connection, failures, snapshots, reads_once=False
                    )
                lock(connection)
            except duckdb.Error as error:
                raise to_own_error(error, failures, columns) from error
            # Mistakes are errors also where the table has no rows.
            find(self._schema.empty_table().select(list(self.columns(self._schema))))
            yield find

    def _by_catalog(
        self, uses: Sequence[TableUse], read: dict[str, int]
    ) -> Iterator[tuple[Sequence[TableUse], dict[str, int]]]:
        """The tables of the changed one's catalog, on which its commit can rely, and those of others."""
        home = self._names.find_catalog(self._plan.tables[0].name)
        near = [use for use in uses if self._names.find_catalog(use.name) is home]
        yield near, read
        yield [use for use in uses if use not in near], {}
