"""Open pages ask little: nothing is made again without a reason, and windows of one caller share what they ask."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from console.http import live
from console.http.app import PageRoute
from console.pages.page import Page, PageRequest
from lakelog.sdk.catalog import Catalog
from tests.support.running_console import RunningConsole, running_console

_MANY = 8
"""Looks that a test waits for."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.04)
    monkeypatch.setattr(live, "PAUSES", 0)


@dataclass
class Counted:
    """A page of tables that counts what is asked for it."""

    state: int = 0
    takes_s: float = 0.0
    asked: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)

    def load_state(self, request: PageRequest) -> int:
        self.asked.append(request.path["table"])
        return self.state

    def show(self, request: PageRequest) -> Page:
        self.made.append(request.path["table"])
        time.sleep(self.takes_s)
        return Page("listings.html", f"{len(self.made)}", {})

    @property
    def pages(self) -> tuple[PageRoute, ...]:
        return tuple(
            PageRoute(f"/{name}/{{database}}/{{table}}", self.show, state=self.load_state) for name in ("one", "other")
        )


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_a_page_of_an_unchanged_table_is_not_made_again(target: str) -> None:
    counted = Counted()
    with running_console(target, pages=counted.pages) as console, console.stream("/one/shop/orders") as stream:
        stream.wait_for("page")
        wait_until(lambda: len(counted.asked) > _MANY)
        assert len(counted.made) == 1
        counted.state += 1
        stream.wait_for("page", ">2<")


def test_a_page_of_an_unchanged_table_is_made_again_some_time(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "UNCHANGED_S", 0.3)
    counted = Counted()
    with running_console(target, pages=counted.pages) as console, console.stream("/one/shop/orders") as stream:
        stream.wait_for("page", ">2<")
        assert len(counted.asked) > 2


def test_a_slow_page_is_made_seldom(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PAUSES", 100)
    counted = Counted(takes_s=0.1)
    with running_console(target, pages=counted.pages) as console, console.stream("/one/shop/orders") as stream:
        stream.wait_for("page")
        counted.state += 1
        wait_until(lambda: len(counted.asked) > _MANY)
        assert len(counted.made) == 1, "its pause is ten seconds"


def test_windows_of_a_caller_share_pages_and_questions(target: str) -> None:
    counted = Counted()
    with running_console(target, pages=counted.pages) as console, ExitStack() as windows:
        for page in ["/one/shop/orders"] * 4 + ["/other/shop/orders"] * 4:
            windows.enter_context(console.stream(page)).wait_for("page")
        asked, made, began_s = len(counted.asked), len(counted.made), time.monotonic()
        time.sleep(0.5)
        looks = (time.monotonic() - began_s) / live.EVERY_S
        assert len(counted.asked) - asked <= 2.5 * looks, "of two pages in eight windows"
        assert len(counted.made) == made


def test_a_new_window_does_not_go_back_to_what_another_one_shows(target: str) -> None:
    counted = Counted()
    with running_console(target, pages=counted.pages) as console, console.stream("/one/shop/orders") as first:
        first.wait_for("page", ">1<")
        wait_until(lambda: len(counted.asked) > _MANY)
        with console.stream("/one/shop/orders") as second:
            found = second.next()
            assert found is not None
            assert ">2<" in found[1]


def test_callers_share_nothing(target: str) -> None:
    counted = Counted()
    with running_console(target, pages=counted.pages) as console, ExitStack() as windows:
        for name in ("root", "viewer", "ann"):
            windows.enter_context(console.stream("/one/shop/orders", name)).wait_for("page")
        assert len(counted.made) == 3
        assert len(counted.asked) >= 3


def test_nothing_stays_of_windows_that_were_closed(target: str) -> None:
    counted = Counted()
    with running_console(target, pages=counted.pages) as console:
        for number in range(20):
            with console.stream(f"/one/shop/t{number}") as stream:
                stream.wait_for("page")
        wait_until(lambda: not console.live.count)
        wait_until(lambda: not console.live._shared and not console.live._questions)


def test_a_change_without_a_commit_is_seen_at_once(console: RunningConsole, catalog: Catalog) -> None:
    table = catalog.create_table("shop.open_page", pa.schema([("item", pa.string())]))
    with console.stream("/tables/shop/open_page") as stream:
        stream.wait_for("page", "snapshot.num-retained")
        table.alter(comment="seen at once")
        stream.wait_for("page", "seen at once")
