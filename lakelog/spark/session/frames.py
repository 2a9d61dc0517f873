"""DataFrames of earlier plans, so that a repeated read costs Spark no listing and no analysis."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from lakelog.recently_used import RecentlyUsed

_MOST_FRAMES: Final = 32
"""Each holds the list of its files and the bits of their superseded rows."""


class FrameCache(RecentlyUsed[object, DataFrame]):
    """DataFrames by what they read.

    A DataFrame never changes, and neither do the files it reads, so it can be reused any number of times.
    """

    def __init__(self) -> None:
        super().__init__(_MOST_FRAMES, lambda _: 1)
