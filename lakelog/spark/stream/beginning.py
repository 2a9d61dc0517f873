"""Where a stream of Spark begins."""

from __future__ import annotations

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.tables.table import TableInfo
from lakelog.log.opening import open_table_log
from lakelog.options.declared.streams import STREAM_TIMESTAMP_MILLIS
from lakelog.options.values import StreamOptions
from lakelog.reads.log.start import LogAccess, begin_by_log, find_logged_before, place_by_log
from lakelog.reads.stream_start import StreamStart, find_start
from lakelog.spark.stream.read_options import StreamReadOptions


def find_beginning(metastore: Metastore, table: TableInfo, read_options: StreamReadOptions) -> StreamStart:
    """Finds where a stream without a checkpoint begins: by its table's log, if it reads the log. Blocks.

    Raises:
        LakelogError: As of `find_start`; or the stream requires the log, and the brokers refuse.
    """
    start = find_start(metastore, table, read_options.options)
    if not read_options.reads_log(table):
        return start
    return place_by_log(LogAccess(metastore, open_table_log), table, start, read_options.options, _begin)


def _begin(access: LogAccess, table: TableInfo, start: StreamStart, options: StreamOptions) -> StreamStart:
    if options.mode != "from-timestamp":
        return begin_by_log(access, table, start, options)
    since_ms = options.get(STREAM_TIMESTAMP_MILLIS)
    assert since_ms is not None, "the options were checked"
    before = find_logged_before(access.metastore, table.table_uuid, since_ms, access.open_log)
    if before is None or before.first_id is None:
        # Without a place in the log, the times of commits decide.
        return start
    (kept,) = access.metastore.list_latest([table.table_uuid])
    # An offset is a snapshot, so the beginning is fixed now; expired changes cannot be shown.
    return StreamStart(max(min(start.after, before.snapshot_id), kept.earliest_change_id - 1, 0))
