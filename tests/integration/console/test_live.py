"""Open pages update themselves, notice that the metastore is away, and come back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pyarrow as pa
import pytest

from console.http import callers, live
from console.http.app import PageRoute
from console.pages.page import Column, Listing, Page, PageRequest
from console.routes import PAGES
from lakelog.client.connection.retry import RetryPolicy
from lakelog.sdk.catalog import Catalog
from lakelog.testing.proxy import TcpProxy
from tests.support.running_console import RunningConsole, running_console


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.05)


def count_snapshots(console: RunningConsole) -> int:
    return int(console.get("/?as=json&part=facts").json["snapshots"])


def test_a_commit_changes_the_open_page(console: RunningConsole, catalog: Catalog) -> None:
    with console.stream("/jobs?table=shop.orders") as stream:
        before = stream.wait_for("page")
        assert "<script" in before, "the whole page, of which the script takes the parts"
        catalog.table("shop.orders").upsert(pa.table({"id": [50], "item": ["new"]}))
        after = stream.wait_for("page")
    assert before != after


def test_a_page_that_stays_the_same_is_not_sent_again(console: RunningConsole) -> None:
    with console.stream("/pipelines") as stream:
        stream.wait_for("page")
        for _ in range(3):
            while not (line := stream.response.readline().strip()):
                continue
            assert line == b": same"


def test_a_metastore_that_is_away_is_said_and_comes_back(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callers, "_RETRIES", RetryPolicy(total_s=0.1))
    with TcpProxy(int(target.rpartition(":")[2])) as proxy, running_console(proxy.target) as console:
        with console.stream("/pipelines") as stream:
            stream.wait_for("page")
            proxy.refuse()
            stream.wait_for("away")
            answer = console.get("/pipelines")
            assert answer.status == 503
            assert answer.headers["retry-after"] == "5"
            assert "The metastore does not answer" in answer.text
            assert console.get("/pipelines?as=json").json["error"]["kind"] == "Unavailable"
            proxy.heal()
            assert "No pipeline" in stream.wait_for("page")
        assert console.get("/pipelines").status == 200


def test_pages_that_do_not_update_themselves_come_back_too(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callers, "_RETRIES", RetryPolicy(total_s=0.1))
    with TcpProxy(int(target.rpartition(":")[2])) as proxy, running_console(proxy.target, "--actions") as console:
        form = {"form_token": "x", "tag": "t", "snapshot": "1"}
        assert console.get("/search?q=orders").status == 200
        proxy.refuse()
        away = console.get("/search?q=orders")
        assert (away.status, 'data-live="yes"' in away.text) == (503, True)
        undone = console.post("/tables/shop/orders/act/tag", form)
        assert (undone.status, 'data-live="yes"' in undone.text) == (503, False)
        assert "Nothing was done" in undone.text
        statement = console.get("/query?sql=SELECT+id+FROM+shop.orders")
        assert statement.status == 503
        assert ">SELECT id FROM shop.orders</textarea>" in statement.text, "it can be run again"
        with console.stream("/search?q=orders") as stream:
            assert stream.next() == ("away", "")
            proxy.heal()
            assert stream.next() == ("changed", ""), "the browser loads the page again"


def test_a_stream_ends_after_its_longest_time(console: RunningConsole, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LONGEST_S", 0.3)
    for _ in range(2):
        with console.stream("/pipelines") as stream:
            stream.wait_for("page")
            assert stream.next() is None, "the browser opens another one"
    wait_until_unused(console)


def wait_until_unused(console: RunningConsole) -> None:
    deadline_s = time.monotonic() + 10
    while console.live.count and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert console.live.count == 0


def test_a_window_that_is_closed_gives_its_place_back(target: str) -> None:
    with running_console(target, "--max-live-pages", "1") as console:
        with console.stream("/jobs") as first:
            first.wait_for("page")
            with console.stream("/pipelines") as second:
                assert second.response.status == 204, "204 tells the browser not to try again"
        wait_until_unused(console)
        with console.stream("/pipelines") as third:
            third.wait_for("page")


def test_one_caller_does_not_take_all_places(target: str) -> None:
    with running_console(target, "--max-live-pages", "3") as console, ExitStack() as windows:
        for _ in range(2):
            windows.enter_context(console.stream("/jobs")).wait_for("page")
        with console.stream("/jobs") as third:
            assert third.response.status == 204
        windows.enter_context(console.stream("/jobs", "viewer")).wait_for("page")
        assert console.live.count == 3


def test_a_token_that_ends_ends_the_stream(console: RunningConsole) -> None:
    with console.stream("/jobs", "nobody") as stream:
        assert stream.next() == ("signed-out", "")
        rest = [stream.response.readline() for _ in range(2)]
        assert rest == [b"\n", b""], "the stream ends: strangers hold no places"
    wait_until_unused(console)


@pytest.fixture
def slow() -> Iterator[tuple[PageRoute, threading.Event]]:
    going_on = threading.Event()

    def show(request: PageRequest) -> Page:
        assert going_on.wait(20)
        return Page("listings.html", "Slow", {})

    yield PageRoute("/slow", show), going_on
    going_on.set()


def test_slow_pages_do_not_block_others(target: str, slow: tuple[PageRoute, threading.Event]) -> None:
    route, going_on = slow
    with running_console(target, pages=(*PAGES, route)) as console:
        answers: list[int] = []
        threads = [threading.Thread(target=lambda: answers.append(console.get("/slow").status)) for _ in range(5)]
        for thread in threads:
            thread.start()
        assert console.get("/pipelines").status == 200
        with console.stream("/pipelines") as stream:
            stream.wait_for("page")
        assert not answers
        going_on.set()
        for thread in threads:
            thread.join()
        assert answers == [200] * 5


class SlowText:
    """A value whose HTML takes until the test goes on."""

    def __init__(self) -> None:
        self.is_rendered = threading.Event()
        self.going_on = threading.Event()

    def __str__(self) -> str:
        self.is_rendered.set()
        assert self.going_on.wait(20)
        return "it took long"


@pytest.mark.parametrize("kind", ["page", "action", "stream"])
def test_nothing_waits_while_a_long_page_is_rendered(target: str, kind: str) -> None:
    slow = SlowText()

    def show(_request: PageRequest) -> Page:
        return Page("listings.html", "Slow", {"rows": Listing("rows", "Rows", [Column("v", "V")], [{"v": slow}])})

    route = PageRoute("/slow", show, act=show)
    with running_console(target, "--actions", pages=(*PAGES, route)) as console:

        def ask() -> str:
            if kind == "stream":
                with console.stream("/slow") as stream:
                    return stream.wait_for("page")
            form = {"form_token": "x"}
            return (console.get("/slow") if kind == "page" else console.post("/slow", form)).text

        with ThreadPoolExecutor(1) as threads:
            try:
                asked = threads.submit(ask)
                assert slow.is_rendered.wait(20)
                assert console.get("/pipelines", timeout=10).status == 200
                assert not asked.done()
            finally:
                slow.going_on.set()
            assert "it took long" in asked.result()
