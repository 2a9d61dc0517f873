"""Which tables are shown before their commits, and how."""

from __future__ import annotations

from lakelog.context import Context
from lakelog.format.tables.table import TableInfo
from lakelog.options.declared.tables import CHANGELOG_PRODUCER
from lakelog.options.values import TableOptions
from lakelog.reads.streams.table import StreamTable, StreamView
from lakelog.reads.streams.uncommitted.keyed_table import KeyedUncommittedTable
from lakelog.reads.streams.uncommitted.table import AppendUncommittedTable
from lakelog.storage.parquet.read_counts import ReadCounts


def open_uncommitted_table(
    context: Context, table: TableInfo, view: StreamView, counts: ReadCounts, *, requires_log: bool
) -> StreamTable:
    """Returns what shows a table whose log is `eventual`.

    With the producers `input` and `full-compaction`, streams show something other than the difference of each commit,
    which is unknown before the commit.

    Args:
        context: The metastore, stores, caches and clock.
        table: The table.
        view: What to show.
        counts: Counts what is read.
        requires_log: Whether the user requested the log.
    """
    if view.columns == ():
        return StreamTable(context, table, view, counts)
    if not table.schema.primary_key:
        return AppendUncommittedTable(context, table, view, counts, requires_log=requires_log)
    if TableOptions(table.options).get(CHANGELOG_PRODUCER) in ("none", "lookup"):
        return KeyedUncommittedTable(context, table, view, counts, requires_log=requires_log)
    return StreamTable(context, table, view, counts)
