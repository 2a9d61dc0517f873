"""What a console costs the metastore: without one, at rest, and with open pages; while nothing is committed and while
one table is, once a second. The difference to the state without a console is the console's."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Final

import psutil

import lakelog
from bench.context import Bench
from bench.measure import Figure, WrongAnswerError, absolute
from bench.pages.cpu import used_percent
from bench.pages.data import LIVE, live_rows
from bench.pages.services import Browser, Console, Served, running_console, token_of
from bench.plans import DATABASE

TARGET_PERCENT: Final = 1.0
"""Of a core, of metastore and database together, beyond what they take without a console."""
_SECONDS: Final = 60
"""Once a minute the metastore examines for itself what holds back expiry: each state contains that once."""

_SETTLED_S: Final = 4.0
_STARTED_S: Final = 20.0
"""A metastore that has just started plans what is due in 10,000 tables."""


_LIVE: Final = f"/tables/{DATABASE}/{LIVE}"
_OTHER: Final = f"/tables/{DATABASE}/t0"
_TWO: Final = ("/", _LIVE)
_TWENTY: Final = (
    *("/", "/streams", "/jobs", "/pipelines", "/tables", "/settings"),
    *(
        f"{table}{page}"
        for table in (_LIVE, _OTHER)
        for page in ("", "/snapshots", "/files", "/log", "/streams", "/jobs")
    ),
    *("/grants", f"/jobs?table={DATABASE}.{LIVE}"),
)


def measure(bench: Bench, served: Served, *, is_written: bool) -> Iterator[Figure]:
    """Each state, at rest or with commits."""
    seconds = bench.sizes.get("seconds", _SECONDS)
    title = "a commit a second" if is_written else "no commits"
    time.sleep(_STARTED_S)
    with committing(served) if is_written else nullcontext():
        alone = _measure(served, None, seconds)
        yield from _figures(f"{title}, no console", alone, None)
        with running_console(served) as console:
            for pages, name in (((), "no page"), (_TWO, "2 open pages"), (_TWENTY, f"{len(_TWENTY)} open pages")):
                with _opened(console, pages):
                    used = _measure(served, console, seconds)
                yield from _figures(f"{title}, {name}", used, alone)


def _measure(served: Served, console: Console | None, seconds: float) -> dict[str, float]:
    time.sleep(_SETTLED_S)
    roots: dict[str, psutil.Process] = {"metastore": served.metastore, "Postgres": served.postgres}
    return used_percent(roots | ({"console": console.process} if console else {}), seconds)


def _figures(state: str, used: dict[str, float], alone: dict[str, float] | None) -> Iterator[Figure]:
    for name, percent in used.items():
        yield absolute(f"{state}: {name}", "% of a core", [percent])
    if alone is not None:
        more = sum(used[name] - alone[name] for name in alone)
        yield absolute(f"{state}: more than without a console", "% of a core", [more], target=TARGET_PERCENT)


@contextmanager
def committing(served: Served) -> Iterator[None]:
    """A program that upserts a hundred rows each second."""
    ended = threading.Event()
    numbers: list[int] = []

    def commit() -> None:
        with lakelog.connect(served.target, token=token_of("root"), tls_ca=str(served.certificate)) as catalog:
            table = catalog.table(f"{DATABASE}.{LIVE}")
            while not ended.wait(1.0):
                table.upsert(live_rows(len(numbers) % 100))
                numbers.append(1)

    thread = threading.Thread(target=commit)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if not numbers:
        raise WrongAnswerError("nothing was committed")


@contextmanager
def _opened(console: Console, addresses: Sequence[str]) -> Iterator[None]:
    """Windows with these pages, of one caller, all visible."""
    browsers = [Browser(console, "viewer") for _ in addresses]
    streams = [browser.open(address) for browser, address in zip(browsers, addresses, strict=True)]
    received = [0] * len(streams)

    def receive(place: int) -> None:
        while line := streams[place].readline():
            received[place] += line.startswith(b"event: page")

    threads = [threading.Thread(target=receive, args=(place,), daemon=True) for place in range(len(streams))]
    for thread in threads:
        thread.start()
    yield
    silent = [address for address, count in zip(addresses, received, strict=True) if not count]
    for browser in browsers:
        browser.close()
    if silent:
        raise WrongAnswerError(f"these pages never came: {silent}")
