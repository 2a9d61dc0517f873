"""Bounds the rows and bytes that the live files of a table have together. Pure.

Each commit adds to a table's totals, so a total near the end of 64 bits would make the next commit of any writer fail.
A commit above the bound is refused itself. The bound is so high that thousands of the largest commits fit below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakelog.errors import ResourceExhausted
from lakelog.format.commit.facts import TableHead
from lakelog.format.tables.files import DataFile

MAX_TABLE_ROWS: Final = 2**62 - 1
"""The most rows of the live files of a table."""

MAX_TABLE_BYTES: Final = 2**62 - 1
"""The most bytes of the live files of a table: 4 EiB."""

_REMEDY: Final = "Overwrite rows that are not needed, expire partitions, or write to another table."


def check_added(head: TableHead, files: Sequence[DataFile]) -> None:
    """Checks a change that only adds files, before it is applied.

    Raises:
        ResourceExhausted: The table would have too many rows or bytes.
    """
    _check(head, head.total_rows + sum([file.row_count for file in files]), MAX_TABLE_ROWS, "rows")
    _check(head, head.total_bytes + sum([file.size_bytes for file in files]), MAX_TABLE_BYTES, "bytes")


def check_totals(before: TableHead, after: TableHead) -> None:
    """Checks the totals of a table after any change; one that makes the table smaller is never refused.

    Raises:
        ResourceExhausted: The table has too many rows or bytes.
    """
    if after.total_rows > before.total_rows:
        _check(before, after.total_rows, MAX_TABLE_ROWS, "rows")
    if after.total_bytes > before.total_bytes:
        _check(before, after.total_bytes, MAX_TABLE_BYTES, "bytes")


def _check(head: TableHead, total: int, most: int, unit: str) -> None:
    if total > most:
        raise ResourceExhausted(
            f"With this commit the live files of {head.name} would have {total} {unit}, and {most} are possible. "
            f"Nothing was committed. {_REMEDY}",
            reason="TABLE_TOO_LARGE",
            metadata={"table": head.name, "limit": str(most)},
        )
