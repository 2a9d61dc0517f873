"""Sample rows of tables that did not change, for each caller: an open page does not read files at each update.

Rows belong to the catalog of the caller for whom they were read, and go with it. A page asks for its table before it
asks for these, so a caller whose grant was taken back gets none.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary

from lakelog.format.tables.table import TableInfo
from lakelog.sdk.catalog import Catalog

from ...page import Listing

MOST_TABLES: Final = 8
"""Of a caller; those that it looked at longest ago are forgotten first."""

MOST_BYTES: Final = 512 * 1024
"""Of the rows of a table, in Arrow; larger ones are read again. With 64 callers these are 256 MiB at most."""

_Read: TypeAlias = OrderedDict[str, tuple[TableInfo, Listing]]


@dataclass
class SampleCache:
    """The rows that were read last, by caller and table. Thread-safe."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _read: WeakKeyDictionary[Catalog, _Read] = field(default_factory=WeakKeyDictionary)

    def find(self, catalog: Catalog, table: TableInfo) -> Listing | None:
        """The rows that this caller's catalog read while the table was exactly so: its snapshot, columns and options.

        Args:
            catalog: The caller's.
            table: The table as it is now.
        """
        with self._lock:
            read = self._read.get(catalog, OrderedDict())
            at, rows = read.get(table.table_uuid, (None, None))
            if at != table:
                return None
            read.move_to_end(table.table_uuid)
            return rows

    def put(self, catalog: Catalog, table: TableInfo, rows: Listing, size_bytes: int) -> None:
        """Notes what was read, unless it is large.

        Args:
            catalog: The caller's.
            table: The table as it was before its rows were read.
            rows: The rows.
            size_bytes: Their size in Arrow.
        """
        if size_bytes > MOST_BYTES:
            return
        with self._lock:
            read = self._read.setdefault(catalog, OrderedDict())
            read[table.table_uuid] = (table, rows)
            read.move_to_end(table.table_uuid)
            while len(read) > MOST_TABLES:
                read.popitem(last=False)
