"""Which tables are shown before their commits, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakelog.format.table import TableInfo
from lakelog.options.table_options import CHANGELOG_PRODUCER
from lakelog.options.values import TableOptions
from lakelog.storage.read_counts import ReadCounts
from lakelog.streams.early_keyed_table import KeyedEarlyTable
from lakelog.streams.early_table import AppendEarlyTable
from lakelog.streams.table import StreamTable, StreamView

if TYPE_CHECKING:
    from lakelog.catalog import Catalog


def open_early_table(
    catalog: Catalog, table: TableInfo, view: StreamView, counts: ReadCounts, *, insists: bool
) -> StreamTable:
    """What shows a table whose log is `eventual`.

    With the producers `input` and `full-compaction` streams show something else than the difference that each commit
    makes, which nobody knows before it.

    Args:
        catalog: Where the table is.
        table: The table.
        view: What to show.
        counts: Told of what is read.
        insists: The log was asked for.
    """
    if view.columns == ():
        return StreamTable(catalog, table, view, counts)
    if not table.schema.primary_key:
        return AppendEarlyTable(catalog, table, view, counts, insists=insists)
    if TableOptions(table.options).get(CHANGELOG_PRODUCER) in ("none", "lookup"):
        return KeyedEarlyTable(catalog, table, view, counts, insists=insists)
    return StreamTable(catalog, table, view, counts)
