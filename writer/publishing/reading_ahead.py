"""Reading and encoding the next rows of a log while the client library is handed the last ones."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from lakelog.storage.lookahead import look_ahead

Piece = TypeVar("Piece")

_WORTH_ROWS: Final = 20_000
"""Of fewer rows there is one piece, and nothing to be done meanwhile."""

_WINDOW: Final = 2


def read_ahead(pieces: Iterator[Piece], row_count: int) -> Generator[Piece, None, None]:
    """The same pieces; of many rows two are read ahead in a thread of their own, which ends with the generator.

    Args:
        pieces: Read by one thread at a time.
        row_count: How many rows they are of.
    """
    if row_count < _WORTH_ROWS:
        yield from pieces
        return
    with ThreadPoolExecutor(1, thread_name_prefix="lakelog-read-log") as reading:
        for piece in look_ahead(reading, lambda _: next(pieces, None), itertools.count(), _WINDOW):
            if piece is None:
                return
            yield piece
