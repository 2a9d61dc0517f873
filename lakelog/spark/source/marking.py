"""Distinguishes reads of a stream from others: their columns differ, but Spark asks a data source for both alike."""

from __future__ import annotations

import functools
from typing import Any, Final

from pyspark.sql.streaming.readwriter import DataStreamReader

from lakelog.spark.source.options import STREAM_MARK

_FORMAT: Final = "lakelog"


def mark_streams() -> None:
    """Makes `readStream.format("lakelog")` set an option that marks streams, in this process. Idempotent.

    SUBTLE: batch reads and streams both call `DataSource.schema`, with only the options, and a stream of a table with a
    primary key has one more column. So the Python method that sets the format of a stream is wrapped; it behaves as
    before for other formats.
    """
    _mark(DataStreamReader)


def mark_remote_streams() -> None:
    """As `mark_streams`, for sessions of Spark Connect."""
    # Imported here: it needs packages that only clients of Spark Connect have.
    from pyspark.sql.connect.streaming.readwriter import DataStreamReader as RemoteReader

    _mark(RemoteReader)


def _mark(reader_class: Any) -> None:
    original = reader_class.format
    if hasattr(original, "marks_lakelog"):
        return

    @functools.wraps(original)
    def format(self: Any, source: str) -> Any:  # noqa: A001
        reader = original(self, source)
        return reader.option(STREAM_MARK, "true") if source == _FORMAT else reader

    format.marks_lakelog = True  # type: ignore[attr-defined]
    reader_class.format = format
