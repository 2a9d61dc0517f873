"""CONSOLE: how fast the console's pages are, what they cost at rest and while they are open, and after many updates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from bench.context import Bench
from bench.measure import Figure
from bench.pages import day, rest, speed
from bench.pages.data import Sizes, build, sizes_of
from bench.pages.services import Served, running_console, serving

TITLE = "pages of the console: speed at 10^6 files and 10,000 tables, cost of open pages, a browser that stays open"


@contextmanager
def _served(bench: Bench) -> Iterator[tuple[Served, Sizes]]:
    folder, sizes = (bench.data or bench.folder).absolute() / "console", sizes_of(bench)
    build(folder, sizes)
    with serving(folder) as served:
        yield served, sizes


def _pages(bench: Bench) -> Iterator[Figure]:
    with _served(bench) as (served, sizes), running_console(served) as console:
        yield from speed.measure(bench, console, sizes)


def _open(bench: Bench, *, is_written: bool) -> Iterator[Figure]:
    with _served(bench) as (served, _):
        yield from rest.measure(bench, served, is_written=is_written)


def _day(bench: Bench) -> Iterator[Figure]:
    with _served(bench) as (served, _):
        yield from day.measure(bench, served)


PARTS: Final[dict[str, Callable[[Bench], Iterator[Figure]]]] = {
    "pages": _pages,
    "rest": partial(_open, is_written=False),
    "commits": partial(_open, is_written=True),
    "day": _day,
}
