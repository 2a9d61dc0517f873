"""Telling reads of a stream from others: their columns differ, but Spark asks a data source for both alike."""

from __future__ import annotations

import functools
from typing import Final

from pyspark.sql.streaming.readwriter import DataStreamReader

from lakelog.spark.source.options import STREAM_MARK

_FORMAT: Final = "lakelog"


def mark_streams() -> None:
    """Has `readStream.format("lakelog")` set an option that says so, in this process. Idempotent.

    SUBTLE: `DataSource.schema` is called by batch reads and by streams, with nothing but the options, and a stream of a
    table with a primary key has one column more. So the Python method that both kinds of source are named by is
    wrapped; for other formats it does what it did.
    """
    original = DataStreamReader.format
    if hasattr(original, "marks_lakelog"):
        return

    @functools.wraps(original)
    def format(self: DataStreamReader, source: str) -> DataStreamReader:  # noqa: A001
        reader = original(self, source)
        return reader.option(STREAM_MARK, "true") if source == _FORMAT else reader

    format.marks_lakelog = True  # type: ignore[attr-defined]
    DataStreamReader.format = format  # type: ignore[method-assign]
