"""A table's changes as a DataFrame."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from lakelog.arguments import check_flag, parse_table_name
from lakelog.errors import NotFound
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.reads.change_plan import check_range, check_raw
from lakelog.reads.change_range import find_begin
from lakelog.reads.complete_changes import DEFAULT_TIMEOUT_S, check_timeout
from lakelog.reads.reading import check_columns
from lakelog.spark.installation import installation_of
from lakelog.spark.source.options import SourceOptions
from lakelog.spark.stream.batch import RAW_MARK, RangeReadOptions
from lakelog.storage.scan.file_scan import SNAPSHOT_ID_COLUMN


def changes(
    spark: SparkSession,
    name: str,
    after: int | None = None,
    until: int | None = None,
    *,
    columns: Sequence[str] | None = None,
    filter: str | None = None,  # noqa: A002
    raw: bool = False,
    timeout: float = DEFAULT_TIMEOUT_S,
) -> DataFrame:
    """Returns what the snapshots after `after`, up to and including `until`, changed.

    The rows are those of `lakelog.Table.changes`. Each task reads some buckets; the rows of a bucket come in the order
    of the snapshots.

    Args:
        spark: A session in which lakelog is installed.
        name: `database.table`.
        after: Excluded; 0: from the first snapshot on, which is an error once that has expired. None: all that is
            retained.
        until: Included; None: the newest one now.
        columns: Names of the table's columns to return; None: all. `_row_kind` and `_snapshot_id` follow them, unless
            they are named.
        filter: An SQL condition with lakelog's meaning, in UTC; it tests each row of a change separately.
        raw: Return rows as they were written instead: the last row per key of each commit, deletes with the values that
            they carried.
        timeout: How many seconds to wait for changelogs that a compactor still has to make (`lookup-wait`).

    Raises:
        InvalidArgument: An argument is not possible; named, with the remedy.
        NotFound: There is no such table or snapshot.
        SnapshotExpired: A snapshot of the range has expired.
        Unavailable: A snapshot still waited for a compactor at the end of the time; named.
    """
    check_range(after, until)
    check_flag(raw, "raw")
    timeout_s = check_timeout(timeout)
    metastore = installation_of(spark).metastore
    table = metastore.get_table(parse_table_name(name))
    if raw:
        check_raw(table, "raw=True")
    if after is None:
        after = find_begin(metastore, table, until, raw=raw)
    last = table.latest_snapshot_id if until is None else until
    if after > last:
        raise NotFound(
            f"Snapshot {after} of {name} does not exist: its newest snapshot is {last}. Give that or an older one, or "
            "stream the table to wait for it.",
            reason="SNAPSHOT_NOT_FOUND",
            metadata={"snapshot_id": str(after), "latest": str(last)},
        )
    own = (ROW_KIND_COLUMN, SNAPSHOT_ID_COLUMN)
    names = check_columns(columns, table.schema, name, own)
    returned = (*names, *(each for each in own if each not in names))
    read = [each for each in names if each not in own]
    if names and not read:
        # At least one column must be read for rows to appear; it is not returned.
        read = table.schema.arrow.names[:1]
    options = {
        "table": name,
        "columns": json.dumps(read),
        "incremental-between": f"{after},{last}",
        "metadata-columns": ",".join(own),
    }
    options |= {} if filter is None else {"filter": filter}
    if raw:
        options[RAW_MARK] = "true"
    elif table.schema.primary_key:
        options["incremental-between-scan-mode"] = "changelog"
    # Checked here first, since errors of a data source come out as errors of Spark.
    read_options = RangeReadOptions.of(metastore, SourceOptions.of(options))
    assert read_options is not None, "it is a read of changes"
    read_options.plan(metastore, timeout_s, "give after={} or more, or read the whole table by read_table")
    rows = spark.read.format("lakelog").options(**options).load()
    return rows.select(*["`" + each.replace("`", "``") + "`" for each in returned])
