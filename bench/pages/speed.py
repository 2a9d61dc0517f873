"""From a caller's request to the HTML of each page: over HTTP, signed in, with a metastore that identifies callers."""

from __future__ import annotations

import gzip
import statistics
import time
from collections.abc import Iterator
from typing import Final

from bench.context import Bench
from bench.measure import Figure, WrongAnswerError, absolute
from bench.pages.data import DAYS, GRANTED, LARGE, LIVE, LONG, WIDE, Sizes
from bench.pages.services import Browser, Console
from bench.plans import DATABASE

OVERVIEW_MS: Final = 100.0
TABLE_MS: Final = 150.0
_TURNS: Final = 9


def measure(bench: Bench, console: Console, sizes: Sizes) -> Iterator[Figure]:
    """All pages, as a reader of everything sees them; those over all tables also as a caller with a grant."""
    turns = _TURNS if not bench.quick else 5
    for name, who in (("viewer", ""), (GRANTED, ", by a grant")):
        browser = Browser(console, name)
        for title, address, most_ms in _pages_of_all(sizes):
            yield _time(browser, f"{title}{who}", address, most_ms, turns)
        browser.close()
    browser = Browser(console, "viewer")
    for title, address in _pages_of_tables(sizes):
        yield _time(browser, title, address, TABLE_MS, turns)
    browser.close()


def _pages_of_all(sizes: Sizes) -> list[tuple[str, str, float | None]]:
    tables = f"{sizes.tables:,} tables"
    return [
        (f"{tables}: overview", "/", OVERVIEW_MS),
        (f"{tables}: streams and logs", "/streams", None),
        (f"{tables}: jobs", "/jobs", None),
        (f"{tables}: pipelines", "/pipelines", None),
        (f"{tables}: databases", "/tables", None),
        (f"{tables}: a database", f"/tables/{DATABASE}", None),
        (f"{tables}: its last tables", f"/tables/{DATABASE}?after=t99", None),
        (f"{tables}: search", "/search?q=99", None),
        (f"{tables}: grants", f"/grants?scope={DATABASE}.{LIVE}", None),
        (f"{tables}: settings", "/settings", None),
    ]


def _pages_of_tables(sizes: Sizes) -> list[tuple[str, str]]:
    large, long, wide, live, many = (f"/tables/{DATABASE}/{name}" for name in (LARGE, LONG, WIDE, LIVE, DAYS))
    days = f"{sizes.partitions:,} partitions"
    # The snapshots of the large table add 2,000 files each.
    latest = sizes.files // 2000
    files, snapshots, columns = f"{sizes.files:,} files", f"{sizes.snapshots:,} snapshots", f"{sizes.columns:,} columns"
    return [
        (f"{files}: the table", large),
        (f"{files}: history of its schema", f"{large}/history"),
        (f"{files}: snapshots", f"{large}/snapshots"),
        (f"{files}: a snapshot", f"{large}/snapshots/{latest}"),
        (f"{files}: comparison of two", f"{large}/snapshots?from={latest - 1}&to={latest}"),
        (f"{files}: files", f"{large}/files"),
        (f"{files}: files of a partition", f"{large}/files?where=partition.day+%3D+5"),
        (f"{files}: files of a bucket of it", f"{large}/files?where=partition.day+%3D+5&bucket=3"),
        (f"{files}: partitions", f"{large}/files?partitions=yes"),
        (f"{files}: log", f"{large}/log"),
        (f"{files}: streams", f"{large}/streams"),
        (f"{files}: jobs", f"{large}/jobs"),
        (f"{files}: jobs, in the list of all", f"/jobs?table={DATABASE}.{LARGE}"),
        (f"{snapshots}: the table", long),
        (f"{snapshots}: snapshots", f"{long}/snapshots"),
        (f"{snapshots}: snapshots further back", f"{long}/snapshots?after={sizes.snapshots // 2}"),
        (f"{snapshots}: a snapshot", f"{long}/snapshots/{sizes.snapshots // 2}"),
        (f"{snapshots}: jobs", f"{long}/jobs"),
        (f"{snapshots}: streams", f"{long}/streams"),
        (f"{columns}: the table", wide),
        (f"{columns}: history of its schema", f"{wide}/history"),
        (f"{columns}: files", f"{wide}/files"),
        (f"{days}: files", f"{many}/files"),
        (f"{days}: partitions", f"{many}/files?partitions=yes"),
        (f"{days}: files of a partition", f"{many}/files?where=partition.day+%3D+{sizes.partitions // 2}"),
        (f"{sizes.grants:,} grants: grants", f"/grants?scope={DATABASE}.{WIDE}"),
        ("200 rows, 5 snapshots: the table", live),
        ("200 rows, 5 snapshots: files", f"{live}/files"),
        ("200 rows, 5 snapshots: snapshots", f"{live}/snapshots"),
    ]


def _time(browser: Browser, title: str, address: str, most_ms: float | None, turns: int) -> Figure:
    body = browser.get(address)
    text = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
    if b"</html>" not in text:
        raise WrongAnswerError(f"{address} is no whole page")
    times_ms = []
    for _ in range(turns):
        began_s = time.perf_counter()
        browser.get(address)
        times_ms.append((time.perf_counter() - began_s) * 1000)
        if statistics.fmean(times_ms) > 2000 and len(times_ms) >= 3:
            break
    return absolute(f"{title} ({len(text) / 1024:.0f} KiB)", "ms", times_ms, target=most_ms)
