"""Reads and encodes the next rows of a log while the client library receives the last ones."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from lakelog.storage.parquet.lookahead import look_ahead

Chunk = TypeVar("Chunk")

_WORTH_ROWS: Final = 20_000
"""Fewer rows make one chunk, with nothing to do meanwhile."""

_WINDOW: Final = 2


def read_ahead(chunks: Iterator[Chunk], row_count: int) -> Generator[Chunk, None, None]:
    """The same chunks; of many rows two are read ahead in a thread of its own, which ends with the generator.

    Args:
        chunks: Read by one thread at a time.
        row_count: How many rows the chunks have in all.
    """
    if row_count < _WORTH_ROWS:
        yield from chunks
        return
    with ThreadPoolExecutor(1, thread_name_prefix="lakelog-read-log") as reading:
        for chunk in look_ahead(reading, lambda _: next(chunks, None), itertools.count(), _WINDOW):
            if chunk is None:
                return
            yield chunk
