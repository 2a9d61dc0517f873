"""Windows that stay open: memory, threads and connections of a console after thousands of updates of its pages."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Final

import psutil

from bench.context import Bench
from bench.measure import Figure, WrongAnswerError, absolute
from bench.pages.data import LIVE
from bench.pages.rest import committing
from bench.pages.services import Browser, Console, Served, running_console
from bench.plans import DATABASE

_LIVE: Final = f"/tables/{DATABASE}/{LIVE}"
_PAGES: Final = ("/", "/pipelines", "/settings", _LIVE, f"{_LIVE}/files", f"{_LIVE}/snapshots", f"{_LIVE}/streams")
_OPENED_AGAIN: Final = 10
"""Times that each window is closed and opened again: a stream ends after an hour, and people reload."""


class _Windows:
    """Open pages, and how many updates came to all of them together."""

    def __init__(self, console: Console, addresses: Sequence[str]) -> None:
        self.updates = 0
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._show, args=(console, each)) for each in addresses]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _show(self, console: Console, address: str) -> None:
        browser = Browser(console, "viewer")
        stream = browser.open(address)
        while not self._ended.is_set() and (line := stream.readline()):
            self.updates += line.startswith(b"event: page")
        browser.close()


def measure(bench: Bench, served: Served) -> Iterator[Figure]:
    """After a tenth of the updates, after all of them, and once the windows are closed."""
    wanted = bench.sized("updates", 10_000)
    with running_console(served, module="bench.pages.hurried") as console, committing(served):
        per_turn, seen = wanted // _OPENED_AGAIN, 0
        for turn in range(_OPENED_AGAIN):
            seen += _look(console, per_turn)
            if turn == 0:
                yield from _figures(f"after {seen:,} updates", console, served)
        yield from _figures(f"after {seen:,} updates", console, served)


def _look(console: Console, updates: int) -> int:
    windows, deadline_s = _Windows(console, _PAGES), time.monotonic() + 120
    while windows.updates < updates:
        if time.monotonic() > deadline_s:
            raise WrongAnswerError(f"{windows.updates} updates came, not {updates}")
        time.sleep(0.1)
    windows.close()
    return windows.updates


def _figures(state: str, console: Console, served: Served) -> Iterator[Figure]:
    time.sleep(2.0)
    process, port = console.process, int(served.target.rpartition(":")[2])
    sockets = process.net_connections("tcp")
    yield absolute(f"{state}: resident memory", "MiB", [process.memory_info().rss / 2**20])
    yield absolute(f"{state}: threads", "", [process.num_threads()])
    yield absolute(f"{state}: open files", "", [process.num_fds()])
    to_metastore = [each for each in sockets if each.raddr and each.raddr.port == port]
    yield absolute(f"{state}: connections to the metastore", "", [len(to_metastore)])
    yield absolute(f"{state}: resident memory of the metastore", "MiB", [_tree_mib(served.metastore)])


def _tree_mib(root: psutil.Process) -> float:
    return sum(each.memory_info().rss for each in (root, *root.children(recursive=True))) / 2**20
