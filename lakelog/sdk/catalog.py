"""The catalog: databases, tables, transactions over them, and SQL."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from lakelog.annotations import Parameters
from lakelog.client.connection.reader_target import ReaderTarget
from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import Clock
from lakelog.context import make_context
from lakelog.log.opening import LogOpener, open_table_log
from lakelog.sdk.catalog_tables import CatalogTables
from lakelog.sdk.grants import Grants
from lakelog.storage.objects.stores import Stores
from lakelog.writes.write_state import WriteState

if TYPE_CHECKING:
    from lakelog.sql import SqlResult


class Catalog(CatalogTables):
    """Databases and tables of one metastore. `lakelog.connect` makes it; threads may share it.

    Args:
        metastore: Where snapshots and names are kept.
        stores: Where the files are.
        clock: For the pauses between repetitions of a commit with an unknown outcome.
        rng: A random number in [0, 1), for the jitter of these pauses.
        writer_epochs: The epochs of the writer names that this catalog has taken; see `register_writer`.
        cache_folder: For local copies of data files; None: a folder for temporary files.
        reader: Which reader services read for subscriptions. Without targets: none, unless a subscription names one.
        open_log: Opens the brokers of a table's log by its options. In another process the catalog opens those that the
            options name.
        name: Its name in the file of catalogs; empty: it has none.
        connect: Connects to another catalog by its name; None: there are no others.
    """

    def __init__(
        self,
        metastore: Metastore,
        stores: Stores,
        *,
        clock: Clock | None = None,
        rng: Callable[[], float] = random.random,
        writer_epochs: Mapping[str, int] | None = None,
        cache_folder: str | None = None,
        reader: ReaderTarget | None = None,
        open_log: LogOpener = open_table_log,
        name: str = "",
        connect: Callable[[str], Catalog] | None = None,
    ) -> None:
        context = make_context(
            metastore, stores, clock=clock, rng=rng, cache_folder=cache_folder, reader=reader, open_log=open_log
        )
        super().__init__(context, WriteState(context, writer_epochs), name, connect)

    @property
    def grants(self) -> Grants:
        """What other callers may do with databases and tables."""
        return Grants(self.metastore)

    def sql(self, statement: str, *, database: str | None = None, params: Parameters | None = None) -> SqlResult:
        """Runs one SQL statement; `lakelog.sql.SqlSession` runs several, with a current database that USE changes.

        Args:
            statement: CREATE, DROP, SHOW, DESCRIBE, ALTER TABLE ... SET or RESET, INSERT, UPDATE, DELETE, MERGE,
                TRUNCATE, or a SELECT, which DuckDB runs over scans (extra `lakelog[sql]`).
            database: Database of tables that are named without one; None: each table must be named with its database.
            params: Values of the statement's `:name` parameters, for instance `{"id": 5}`; a list for IN.

        Returns:
            `.rows`, a pyarrow table, if the statement returns rows; else `.message`.

        Raises:
            InvalidArgument: The statement cannot be read or does not fit; shows the place, or names table and column.
            NotFound: A database, table or snapshot does not exist.
        """
        from lakelog.sql import SqlSession

        return SqlSession(self, database, is_kept=False).execute(statement, params)
