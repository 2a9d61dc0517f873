"""The sizes of snapshots' changelog files, which the snapshots themselves do not contain."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.tables.plan import InRange, PlanRequest
from lakelog.spark.stream.limits import ReadSize

_FIRST_REQUESTED: Final = 16
_MOST_REQUESTED: Final = 1024
"""Snapshots per call: few if a batch takes few, and not many calls if it takes many."""


class ChangelogSizes:
    """Measures the changelog files of snapshots, requested in rising order; blocks now and then on the metastore.

    Args:
        metastore: Plans the files.
        table_uuid: The table.
        until: The last snapshot that can be requested.
    """

    def __init__(self, metastore: Metastore, table_uuid: str, until: int) -> None:
        self._metastore = metastore
        self._table_uuid = table_uuid
        self._until = until
        self._requested = _FIRST_REQUESTED
        self._known_until = 0
        self._found: dict[int, ReadSize] = {}

    def measure(self, snapshot_id: int) -> ReadSize:
        """The size of a snapshot's changelog files; zero if it changed nothing.

        Raises:
            SnapshotExpired: It has expired.
        """
        if snapshot_id > self._known_until:
            self._load(snapshot_id)
        return self._found.get(snapshot_id, ReadSize())

    def _load(self, first: int) -> None:
        self._known_until = min(first + self._requested - 1, self._until)
        self._requested = min(self._requested * 2, _MOST_REQUESTED)
        at = InRange(first - 1, self._known_until)
        files = self._metastore.plan(PlanRequest(self._table_uuid, at, changelog=True)).files
        self._found = _sum_by_snapshot(files)


def _sum_by_snapshot(files: pa.Table) -> dict[int, ReadSize]:
    """The total size of each snapshot's files, given columns of `lakelog.format.tables.files.FILE_SCHEMA`. Pure."""
    sums = files.group_by("added_snapshot").aggregate([([], "count_all"), ("size_bytes", "sum"), ("row_count", "sum")])
    names = ("added_snapshot", "count_all", "size_bytes_sum", "row_count_sum")
    columns = (sums.column(name).to_pylist() for name in names)
    return {each: ReadSize(*counts) for each, *counts in zip(*columns, strict=True)}
