"""Takes the screenshots of docs/console.md, `docs/console/*.png`: pages of the console with a working day's data.

Usage: `python -m dev.console_screenshots`, where Chromium is installed (or LAKELOG_CHROMIUM names it). Data and times
are the same on every machine, and no name of a machine is in them.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import structlog
import uvicorn
from PIL import Image
from playwright.sync_api import Browser, sync_playwright
from prometheus_client import CollectorRegistry

import lakelog
from console.config import parse_config
from console.http.callers import Callers
from console.wiring import make_console, make_site
from dev.working_day import WorkingDay, play_orders, working_day
from lakelog.format.jobs.job import COMPACT, EXPIRE
from lakelog.format.jobs.presence import ServiceReport, ServiceState

_FOLDER: Final = Path(__file__).parent.parent / "docs/console"
_COLORS: Final = 256
"""Enough for flat pages, and half the bytes that all colours would take."""

_SERVICES: Final = (
    ("metastore", "serves metastore:7450"),
    ("compactor", "compact of shop.orders"),
    ("console", "https://console.example.org/"),
    ("writer", "pipeline visits"),
)


@dataclass(frozen=True)
class _Shot:
    """What is taken: the part of a page that a window shows."""

    name: str
    address: str
    width: int
    height: int
    is_dark: bool = False


_SHOTS: Final = (
    _Shot("overview", "/", 1200, 1090),
    _Shot("table", "/tables/shop/orders", 1200, 860),
    _Shot("snapshots", "/tables/shop/orders/snapshots", 1200, 860),
    _Shot("files", "/tables/shop/orders/files", 1200, 980),
    _Shot("phone", "/", 375, 812, is_dark=True),
)


def main() -> int:
    """Plays the day, serves the console, and takes the pictures."""
    _FOLDER.mkdir(exist_ok=True)
    with working_day() as day:
        _fill(day)
        with _serve(day) as port, sync_playwright() as playwright:
            _look_for_a_while(day, port)
            browser = playwright.chromium.launch(executable_path=_find_chromium(), args=["--no-sandbox"])
            for shot in _SHOTS:
                (_FOLDER / f"{shot.name}.png").write_bytes(_reduce(_take(browser, port, shot)))
    return 0


def _fill(day: WorkingDay) -> None:
    """Some tables beside `shop.orders`, and services that report."""
    catalog = day.catalog
    customers = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("city", pa.string())])
    table = catalog.create_table("shop.customers", customers, primary_key=["id"], comment="Who buys")
    table.upsert([{"id": each, "name": f"customer {each}", "city": "Leipzig"} for each in range(5_000)])
    visits = pa.schema([("day", pa.string()), ("page", pa.string()), ("milliseconds", pa.int64())])
    table = catalog.create_table("shop.visits", visits, partition_by=["day"], comment="Pages that were opened")
    for number in range(7):
        rows = [
            {"day": f"2026-08-{24 + number}", "page": f"/{each % 50}", "milliseconds": each} for each in range(3_000)
        ]
        table.append(rows, writer="visits", identifier=number)
    play_orders(day).alter(comment="What was ordered, by item")
    day.service.run(day.service.use_cases.due_work.step())
    # The compactor is at work.
    while day.service.lease_job([COMPACT, EXPIRE], [], "compactor node-2", duration_ms=600_000) is not None:
        pass
    day.service.run(day.service.use_cases.overdue.step())


def _look_for_a_while(day: WorkingDay, port: int) -> None:
    """The overview counts commits between two looks at it."""
    visits = day.catalog.table("shop.visits")
    for number in range(12):
        for commit in range(3 + number % 4):
            rows = [{"day": "2026-09-01", "page": "/", "milliseconds": commit}]
            visits.append(rows, writer="visits", identifier=100 + 10 * number + commit)
        day.clock.time_ms += 30_000
        day.service.run(day.service.use_cases.work_measuring.step())
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
            answer.read()
    _report_services(day)


def _report_services(day: WorkingDay) -> None:
    for number, (kind, work) in enumerate(_SERVICES):
        day.service.report_presence(
            ServiceReport(
                kind,
                f"{number:032x}",
                f"node-{number + 1}",
                7,
                lakelog.__version__,
                ServiceState.RUNNING,
                (work,),
                "",
                uptime_ms=9 * 3_600_000,
                ttl_ms=600_000,
            )
        )


@contextmanager
def _serve(day: WorkingDay) -> Iterator[int]:
    """The console over the day's metastore, with the day's clock; yields its port."""
    config = parse_config(["serve", "--insecure-dev", "--target", "metastore:7450"], {})
    site = make_site(config, CollectorRegistry(), structlog.wrap_logger(structlog.ReturnLogger()))
    site.callers = Callers(lambda _: day.catalog, None, day.clock)
    site.clock = day.clock
    app, live = make_console(site, config)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        yield int(server.servers[0].sockets[0].getsockname()[1])
    finally:
        live.end()
        server.should_exit = True
        thread.join()


def _find_chromium() -> str:
    found = os.environ.get("LAKELOG_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        raise SystemExit("No Chromium: install Debian's package chromium, or name one by LAKELOG_CHROMIUM.")
    return found


def _take(browser: Browser, port: int, shot: _Shot) -> bytes:
    context = browser.new_context(
        viewport={"width": shot.width, "height": shot.height},
        color_scheme="dark" if shot.is_dark else "light",
        # Without the short shade of what an open page has just updated.
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{port}{shot.address}")
    page.get_by_text("live", exact=True).wait_for()
    picture = page.screenshot()
    context.close()
    return picture


def _reduce(picture: bytes) -> bytes:
    """The picture with a palette."""
    with Image.open(io.BytesIO(picture)) as full:
        reduced = full.convert("RGB").quantize(_COLORS, dither=Image.Dither.NONE)
    out = io.BytesIO()
    reduced.save(out, "PNG", optimize=True)
    return out.getvalue()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    sys.exit(main())
