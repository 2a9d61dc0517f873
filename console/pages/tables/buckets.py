"""The buckets of a table by how much a read merges in them: which of them needs a compaction."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from lakelog.format.compaction.settings import to_compaction_settings
from lakelog.sdk.tables.table import Table

from ..page import PAGE_ROWS, Column, Listing, table_address
from .partitions import to_condition, to_words
from .rows import to_rows

_BUCKETS: Final = (
    Column("bucket", "Bucket", "count"),
    Column("partition", "Partition", "code"),
    Column("runs", "Sorted runs", "count", "what a read merges: each file of level 0, and each higher level"),
    Column("state", "Reads", "state"),
    Column("files", "Files", "count"),
    Column("rows", "Rows", "count"),
    Column("bytes", "Size", "bytes"),
    Column("deletes", "Deletes", "count", "rows that delete, or that no read shows"),
    Column("due", "Compaction", hint="the one that is due or runs now"),
)
_READ: Final = [column.key for column in _BUCKETS if column.key != "state"]
_TOO_MANY: Final = "too many"


def list_buckets(table: Table, bucket: int | None) -> Listing:
    """The buckets of a table with a primary key, those with the most sorted runs first.

    Args:
        table: The table.
        bucket: Only this one; None: all.
    """
    most = to_compaction_settings(table.options, has_primary_key=True).compaction_trigger
    condition = None if bucket is None else f"bucket = {bucket}"
    found = table.system_table("buckets").scan(_READ, condition).to_arrow()
    ordered = found.sort_by([("runs", "descending"), ("bytes", "descending")])
    rows = [_show(table, row, most) for row in to_rows(ordered.slice(0, PAGE_ROWS))]
    columns = _BUCKETS if table.partition_by else [each for each in _BUCKETS if each.key != "partition"]
    note = f"More than {most} sorted runs (`num-sorted-run.compaction-trigger`) are too many: reads merge them all."
    if any(row["state"] == _TOO_MANY for row in rows):
        note += f" This helps: `lakelog table compact {table.name}`."
    if found.num_rows > len(rows):
        note += f" These are {len(rows)} of {found.num_rows:,} buckets, those with the most runs."
    return Listing("buckets", "Buckets", columns, rows, note=note)


def _show(table: Table, row: dict[str, Any], most: int) -> dict[str, Any]:
    where = urlencode({"where": to_condition(row["partition"], row["bucket"])})
    return {
        **row,
        "partition": to_words(row["partition"]),
        "state": _TOO_MANY if row["runs"] > most else "ok",
        "_links": {"bucket": f"{table_address(table.name, 'files')}?{where}"},
    }
