"""What two snapshots of a table differ in: counts, files, columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.sdk.tables.table import Table

from ...page import PAGE_ROWS, Column, Listing, PageRequest, table_address
from ..rows import to_rows
from .found_snapshots import find_snapshot, load_snapshots
from .history import load_versions
from .schema_changes import list_changes

MOST_FILES: Final = 20_000
"""Lists of more live files are not compared: that takes seconds."""

_COUNTS: Final = (
    ("rows", "Stored rows"),
    ("files", "Files"),
    ("bytes", "Size in bytes"),
    ("schema_id", "Schema"),
    ("watermark", "Watermark in ms"),
)
_DIFFERENCES: Final = (
    Column("what", "What"),
    Column("before", "Before", "count"),
    Column("after", "After", "count"),
    Column("difference", "Difference", "change"),
)
_FILES: Final = (
    Column("path", "File", "ids"),
    Column("change", "Change"),
    Column("rows", "Rows", "count"),
    Column("bytes", "Size", "bytes"),
    Column("level", "Level", "count"),
    Column("bucket", "Bucket", "count"),
)
_WRITERS: Final = (
    Column("id", "Snapshot", "count"),
    Column("committed_at", "Committed", "time"),
    Column("writer", "Writer", "ids"),
    Column("kind", "Kind", hint="COMPACT changes no row"),
    Column("added_rows", "Added rows", "count"),
    Column("properties", "Properties", "json", "what the writer noted with it"),
)


def compare(request: PageRequest, table: Table, before: int, after: int) -> dict[str, Any]:
    """The parts of a page with the differences.

    Raises:
        SnapshotExpired, NotFound: One of them is not there.
    """
    found = load_snapshots(table, before, after)
    old, new = (find_snapshot(request, table, found, each) for each in (before, after))
    versions = load_versions(table)
    parts: dict[str, Any] = {
        "differences": list_differences(old, new),
        "changes": list_changes(
            versions.get(old["schema_id"], []), versions.get(new["schema_id"], []), "Both have the same columns."
        ),
    }
    if before != after:
        parts["writers"] = _list_writers(table, min(before, after), max(before, after))
    if max(old["files"], new["files"]) <= MOST_FILES:
        parts["files"] = _list_files(table, before, after)
    return parts


def list_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Listing:
    """The counts of two rows of `$snapshots` side by side."""
    rows = []
    for key, title in _COUNTS:
        before, after = old[key], new[key]
        if (before, after) != (None, None):
            difference = None if before is None or after is None else after - before
            rows.append({"what": title, "before": before, "after": after, "difference": difference})
    return Listing("differences", "Differences", _DIFFERENCES, rows)


def _list_writers(table: Table, after: int, until: int) -> Listing:
    """Who wrote the snapshots after one, up to and including another one; the newest first."""
    least = max(after, until - PAGE_ROWS)
    found = table.system_table("snapshots").scan(
        [column.key for column in _WRITERS], "id > :after AND id <= :until", params={"after": least, "until": until}
    )
    rows = [
        {**row, "_links": {"id": table_address(table.name, f"snapshots/{row['id']}")}}
        for row in reversed(to_rows(found.to_arrow()))
    ]
    note = f"The newest {PAGE_ROWS} of {until - after:,}." if least > after else ""
    return Listing("writers", "Who wrote it", _WRITERS, rows, note=note)


def _list_files(table: Table, before: int, after: int) -> Listing:
    columns = ["path", "rows", "bytes", "level", "bucket"]
    old, new = (table.system_table("files").scan(columns, snapshot_id=each).to_arrow() for each in (before, after))
    added, removed = _without(new, old), _without(old, new)
    rows = [
        {**row, "change": change}
        for change, part in (("added", added), ("removed", removed))
        for row in to_rows(part.slice(0, PAGE_ROWS // 2))
    ]
    note = f"{added.num_rows:,} added, {removed.num_rows:,} removed, {old.num_rows - removed.num_rows:,} in both."
    if added.num_rows + removed.num_rows > len(rows):
        note += f" At most {PAGE_ROWS // 2} of each are shown."
    return Listing("files", "Differences of the files", _FILES, rows, "Both have the same files.", note=note)


def _without(files: pa.Table, others: pa.Table) -> pa.Table:
    return files.filter(pc.invert(pc.is_in(files.column("path"), value_set=others.column("path").combine_chunks())))
