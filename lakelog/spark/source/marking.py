"""Distinguishes reads of a stream from others: their columns differ, but Spark asks a data source for both alike."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamReader

from lakelog.spark.source.options import STREAM_MARK

_FORMAT: Final = "lakelog"


def mark_streams(convert: Callable[[DataFrame], DataFrame]) -> None:
    """Makes `readStream.format("lakelog")` set an option that marks streams, in this process. Idempotent.

    SUBTLE: batch reads and streams both call `DataSource.schema`, with only the options, and a stream of a table with a
    primary key has one more column. So the Python method that sets the format of a stream is wrapped; it behaves as
    before for other formats.

    Args:
        convert: Is applied to each such stream that is loaded.
    """
    _mark(DataStreamReader)
    _convert_loaded(DataStreamReader, convert)


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
        self.reads_lakelog = source == _FORMAT
        return reader.option(STREAM_MARK, "true") if self.reads_lakelog else reader

    format.marks_lakelog = True  # type: ignore[attr-defined]
    reader_class.format = format


def _convert_loaded(reader_class: Any, convert: Callable[[DataFrame], DataFrame]) -> None:
    original = reader_class.load
    if hasattr(original, "converts_lakelog"):
        return

    @functools.wraps(original)
    def load(self: Any, *args: Any, **kwargs: Any) -> DataFrame:
        frame: DataFrame = original(self, *args, **kwargs)
        return convert(frame) if getattr(self, "reads_lakelog", False) else frame

    load.converts_lakelog = True  # type: ignore[attr-defined]
    reader_class.load = load
