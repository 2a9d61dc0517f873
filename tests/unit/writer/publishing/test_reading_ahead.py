"""Pieces read ahead are the same pieces."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest

from writer.publishing.reading.reading_ahead import read_ahead


@pytest.mark.parametrize("row_count", [10, 1_000_000])
def test_pieces_come_in_their_order(row_count: int) -> None:
    assert list(read_ahead(iter(range(100)), row_count)) == list(range(100))


@pytest.mark.parametrize("row_count", [10, 1_000_000])
def test_a_failure_comes_in_its_place(row_count: int) -> None:
    def read() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("damaged")

    got: list[int] = []
    with pytest.raises(ValueError, match="damaged"):
        got.extend(read_ahead(read(), row_count))
    assert got == [1, 2]


def test_who_stops_early_leaves_no_thread_and_no_reading_behind() -> None:
    begun: list[int] = []

    def read() -> Iterator[int]:
        for number in range(100):
            begun.append(number)
            yield number

    before = threading.active_count()
    with contextlib.closing(read_ahead(read(), 1_000_000)) as ahead:
        assert next(ahead) == 0
        # Two wait or are under way, and no more than these.
        assert len(begun) <= 3
    assert threading.active_count() == before
    assert len(begun) <= 4


def test_many_rows_are_read_while_others_are_used() -> None:
    second = threading.Event()

    def read() -> Iterator[int]:
        yield 1
        second.set()
        yield 2

    for chunk in read_ahead(read(), 1_000_000):
        if chunk == 1:
            assert second.wait(30)
