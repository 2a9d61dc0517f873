"""DataFrames of earlier plans, so that a repeated read costs Spark no listing and no analysis."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from pyspark.sql import DataFrame

_MOST_FRAMES: Final = 32
"""Each holds the list of its files and the bits of their superseded rows."""


class FrameCache:
    """DataFrames by what they read; the least used ones are evicted. Threads may share it.

    A DataFrame never changes, and neither do the files it reads, so it can be reused any number of times.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._frames: OrderedDict[object, DataFrame] = OrderedDict()

    def get(self, key: object) -> DataFrame | None:
        """The DataFrame of a plan, or None."""
        with self._lock:
            found = self._frames.get(key)
            if found is not None:
                self._frames.move_to_end(key)
            return found

    def put(self, key: object, frame: DataFrame) -> None:
        """Stores a DataFrame."""
        with self._lock:
            self._frames[key] = frame
            while len(self._frames) > _MOST_FRAMES:
                self._frames.popitem(last=False)

    def clear(self) -> None:
        """Forgets all."""
        with self._lock:
            self._frames.clear()
