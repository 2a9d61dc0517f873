"""Rows of a table to look at: few, of bounded size, and by themselves only where that costs little."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from lakelog.cli.output.text import format_bytes, plural
from lakelog.errors import InvalidArgument, LakelogError, NotFound
from lakelog.format.tables.snapshot import Snapshot
from lakelog.reads.scan import Scan
from lakelog.sdk.tables.table import Table

from ...page import Listing, PageRequest
from ..rows import to_value_columns, to_value_rows
from .cache import SampleCache

_MOST_ROWS: Final = 20
_MOST_COLUMNS: Final = 40
_MOST_BYTES: Final = 4 << 20
"""Of the rows in memory: then the page ends, with the rows that it has."""
_MOST_S: Final = 10.0

_CHEAP_FILES: Final = 200
_CHEAP_BYTES: Final = 64 << 20
"""Rows of tables with more files or bytes are shown when somebody asks."""

_MOST_SEARCHED_BYTES: Final = 1 << 30
"""A filter that matches nothing reads all that it leaves, and a page must end."""

_cache: Final = SampleCache()


@dataclass(frozen=True)
class Sample:
    """Rows, or why there are none.

    Args:
        rows: The rows; None: they were not read.
        filter: The condition as it was typed.
        problem: What is wrong with the condition, or why the rows cannot be read.
        is_asked: Whether the rows were asked for by the address.
    """

    rows: Listing | None
    filter: str
    problem: str = ""
    is_asked: bool = False


def load_sample(request: PageRequest, table: Table, newest: Snapshot | None) -> Sample:
    """Some rows of the newest snapshot.

    Raises:
        NotFound: The table was dropped.
    """
    condition = request.query.get("filter", "").strip()
    is_asked = bool(condition) or "rows" in request.query
    if newest is None or not (is_asked or _is_cheap(newest)):
        return Sample(None, condition, is_asked=is_asked)
    try:
        return Sample(_find_or_read(request, table, condition, is_asked), condition, is_asked=is_asked)
    except NotFound:
        raise
    except LakelogError as error:
        return Sample(None, condition, error.message, is_asked)


def _is_cheap(newest: Snapshot) -> bool:
    return newest.total_files <= _CHEAP_FILES and newest.total_bytes <= _CHEAP_BYTES


def _find_or_read(request: PageRequest, table: Table, condition: str, is_asked: bool) -> Listing:
    known = None if is_asked else _cache.find(request.catalog, table.info)
    if known is not None:
        return known
    rows, size_bytes = _read(table, condition)
    if not is_asked:
        _cache.put(request.catalog, table.info, rows, size_bytes)
    return rows


def _read(table: Table, condition: str) -> tuple[Listing, int]:
    """The rows, and their size in Arrow."""
    names = table.schema.names[:_MOST_COLUMNS]
    scan = table.scan(names, condition or None, _MOST_ROWS)
    if condition:
        _check_size(scan)
    batches, is_cut = _read_some(scan)
    found = pa.Table.from_batches(batches, scan.schema).slice(0, _MOST_ROWS)
    columns = to_value_columns(names)
    notes = [f"Of snapshot {scan.snapshot_id}, in no defined order."]
    if is_cut:
        notes.append("There are more, but these are many bytes or took long.")
    if len(table.schema.names) > len(names):
        notes.append(f"The first {len(names)} of {len(table.schema.names)} columns.")
    rows = to_value_rows(found, columns)
    return Listing("rows", "Rows", columns, rows, _say_none(condition), note=" ".join(notes)), found.nbytes


def _read_some(scan: Scan) -> tuple[list[pa.RecordBatch], bool]:
    found: list[pa.RecordBatch] = []
    size_bytes, end_s = 0, time.monotonic() + _MOST_S
    batches: Any = scan.to_batches()
    try:
        for batch in batches:
            found.append(batch)
            size_bytes += batch.nbytes
            if size_bytes > _MOST_BYTES or time.monotonic() > end_s:
                return found, sum(each.num_rows for each in found) < _MOST_ROWS
    finally:
        batches.close()
    return found, False


def _check_size(scan: Scan) -> None:
    size_bytes = sum(file.size_bytes for file in scan.files)
    if size_bytes > _MOST_SEARCHED_BYTES:
        raise InvalidArgument(
            f"This leaves {plural(len(scan.files), 'file')} of {format_bytes(size_bytes)} to search, and a page reads "
            f"at most {format_bytes(_MOST_SEARCHED_BYTES)}. Narrow it by a partition or a key, or use: lakelog scan "
            f"{scan.table_name} --filter ...",
            metadata={"field": "filter"},
        )


def _say_none(condition: str) -> str:
    return "No row fulfils the filter." if condition else "The table has no rows."
