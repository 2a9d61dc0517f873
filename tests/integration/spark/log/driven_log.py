"""A stream reader over a table whose log is in memory, and the publisher that is stepped by hand."""

from __future__ import annotations

from typing import Any

from lakelog.errors import Unavailable
from lakelog.sdk.tables.table import Table
from tests.support.spark.driven_stream import DrivenStream, Row

Rows = list[tuple[Any, ...]]
START = {"scan.snapshot-id": "1", "metadata-columns": "_snapshot_id,_commit_timestamp"}


def stream_of(table: Table, **options: str) -> DrivenStream:
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return DrivenStream("nowhere:1", table.name, START | named)


def by_bucket(rows: list[Row]) -> dict[tuple[Any, ...], Rows]:
    """The rows of each key, in their order: whatever has no key is sorted."""
    found: dict[tuple[Any, ...], Rows] = {}
    for row in rows:
        found.setdefault((row.get("day"), row.get("k")), []).append(tuple(row.values()))
    return found


def flat(batches: list[list[Row]]) -> list[Row]:
    return [row for batch in batches for row in batch]


def of_files(table: Table, **options: str) -> list[Row]:
    return flat(stream_of(table, streaming_read_mode="file", **options).run())


class FailsLater:
    """Stands in for fetching, which fails once some records have come."""

    def __init__(self, fetch: Any, at: int = 4) -> None:
        self.fetch, self.at = fetch, at
        self.count = 0

    def __get__(self, reader: Any, kind: Any) -> Any:
        def call(*args: Any) -> Any:
            self.count += 1
            if self.count == self.at:
                raise Unavailable("No broker answers.")
            return self.fetch(reader, *args)

        return call
