"""The console in a real browser, with data that changes.

Every page is in order: no error, no sideways scrolling, no serious finding of axe. Pages that stay open follow the
table, survive a metastore that goes away, and have keys.
"""

from __future__ import annotations

import re
from collections import deque
from urllib.parse import urljoin, urlsplit

import pytest
from playwright.sync_api import Browser, expect

from lakelog.sdk.catalog import Catalog
from tests.support.browser import WIDTHS, WatchedPage, needs_chromium, watched_page
from tests.support.forked_stack import ForkedStack

pytestmark = [pytest.mark.e2e, needs_chromium]

MOST_PAGES = 60
"""Of different kinds."""


def kind_of(path: str) -> str:
    """Pages that only differ in what they show are of one kind: one of them is looked at closely."""
    path = re.sub(r"/tables/([^/]+)/([^/]+)", r"/tables/*/\2", path)
    return re.sub(r"/\d+", "/N", path)


def links_of(watched: WatchedPage, first: str) -> list[str]:
    """The pages of the console that a page leads to."""
    here = urlsplit(first).netloc
    found = watched.page.eval_on_selector_all("a[href]", "all => all.map(each => each.getAttribute('href'))")
    absolute = [urljoin(watched.page.url, each).partition("#")[0] for each in found]
    return [each for each in absolute if urlsplit(each).netloc == here and "as=" not in each]


def crawl(watched: WatchedPage, first: str) -> list[str]:
    """Looks at each page that can be reached by links, once; returns their addresses."""
    seen, waiting = {first}, deque([first])
    looked: set[str] = set()
    while waiting and len(looked) < MOST_PAGES:
        address = waiting.popleft()
        parts = urlsplit(address)
        kind = kind_of(parts.path + (f"?{'&'.join(sorted(re.findall(r'[a-z]+(?==)', parts.query)))}"))
        if kind in looked:
            continue
        answer = watched.page.goto(address)
        assert answer is not None
        if answer.status == 404 and "path=" in parts.query:
            # A compaction has replaced the file since; another one will do.
            watched.problems.clear()
            continue
        looked.add(kind)
        assert answer.status == 200, f"{address}: {answer.status}"
        watched.check_layout()
        watched.check_accessibility()
        for link in links_of(watched, first):
            if link not in seen:
                seen.add(link)
                waiting.append(link)
    return sorted(looked)


@pytest.mark.parametrize(
    ("width", "scheme"), [(WIDTHS[0], "light"), pytest.param(WIDTHS[1], "dark", marks=pytest.mark.slow)]
)
def test_every_page_is_in_order(
    browser: Browser, stack: ForkedStack, catalog: Catalog, width: int, scheme: str
) -> None:
    with watched_page(browser, width, scheme) as watched:
        looked = crawl(watched, stack.console_url)
    assert {"/?", "/tables?", "/tables/*/orders?", "/tables/*/orders/files?", "/jobs?", "/streams?"} <= set(looked)


def test_pages_can_be_read_without_scripts(browser: Browser, stack: ForkedStack, catalog: Catalog) -> None:
    with watched_page(browser, WIDTHS[1], "light", scripts=False) as watched:
        page = watched.page
        page.goto(stack.console_url)
        page.get_by_role("link", name="Tables", exact=True).click()
        page.get_by_role("link", name="shop", exact=True).first.click()
        page.get_by_role("link", name="orders", exact=True).first.click()
        assert "orders" in page.get_by_role("heading", level=1).inner_text()
        page.get_by_label("Find a table").fill("shop.events")
        page.get_by_label("Find a table").press("Enter")
        assert page.get_by_role("link", name="events").count() or "/tables/shop/events" in page.url


def test_nothing_runs_that_the_policy_does_not_allow(browser: Browser, stack: ForkedStack, catalog: Catalog) -> None:
    """Rows, comments and properties of the tables contain scripts; a control shows that the browser would run them."""
    context = browser.new_context()
    try:
        page = context.new_page()
        watched = WatchedPage(page)
        for path in ("", "tables/shop/orders", "tables/shop/orders/snapshots", "tables/shop/events"):
            page.goto(f"{stack.console_url}{path}")
        assert watched.problems == []
        page.evaluate("() => document.body.insertAdjacentHTML('beforeend', '<img src=/nowhere onerror=alert(1)>')")
        page.wait_for_timeout(200)
        assert any("Content Security Policy" in problem for problem in watched.problems)
        assert not any("dialog" in problem for problem in watched.problems)
    finally:
        context.close()
    open_to_all = browser.new_context(bypass_csp=True)
    try:
        watched = WatchedPage(open_to_all.new_page())
        watched.page.goto(stack.console_url)
        watched.page.evaluate(
            "() => document.body.insertAdjacentHTML('beforeend', '<img src=/nowhere onerror=alert(1)>')"
        )
        watched.page.wait_for_timeout(300)
        assert any("dialog" in problem for problem in watched.problems)
    finally:
        open_to_all.close()


def test_an_open_page_follows_the_table(browser: Browser, stack: ForkedStack, catalog: Catalog) -> None:
    with watched_page(browser, WIDTHS[0], "light") as watched:
        page = watched.page
        page.goto(f"{stack.console_url}tables/shop/orders/snapshots")
        page.evaluate("() => { window.opened = true; }")
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        latest = max(catalog.table("shop.orders").snapshots(limit=1).column("id").to_pylist())
        newer = page.get_by_role("link", name=str(latest + 3), exact=True).first
        # A page that takes long, as all do on a busy machine, is made again after a longer pause.
        expect(newer).to_be_visible(timeout=60_000)
        assert page.evaluate("() => window.opened") is True


def test_an_open_page_whose_stream_was_ended_for_good_opens_another_one(
    browser: Browser, stack: ForkedStack, catalog: Catalog
) -> None:
    with watched_page(browser, WIDTHS[0], "light") as watched:
        page = watched.page
        page.clock.install()
        # As a proxy answers while a console starts anew: browsers do not ask again by themselves.
        page.route("**/live?*", lambda route: route.fulfill(status=502))
        page.goto(f"{stack.console_url}pipelines")
        expect(page.get_by_text("not live: reload for newer values")).to_be_visible()
        page.unroute("**/live?*")
        page.clock.run_for(20_000)
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        watched.problems.clear()


_NOTE_STREAMS = """
window.streams = [];
const Real = window.EventSource;
window.EventSource = class extends Real { constructor(address) { super(address); window.streams.push(this); } };
"""
_SHOW = """isHidden => {
Object.defineProperty(document, 'hidden', {get: () => isHidden, configurable: true});
document.dispatchEvent(new Event('visibilitychange'));
return window.streams.map(each => each.readyState !== EventSource.CLOSED);
}"""


def test_a_hidden_window_has_no_stream(browser: Browser, stack: ForkedStack, catalog: Catalog) -> None:
    with watched_page(browser, WIDTHS[0], "light") as watched:
        watched.page.add_init_script(_NOTE_STREAMS)
        watched.page.goto(f"{stack.console_url}tables/shop/empty")
        expect(watched.page.get_by_text("live", exact=True)).to_be_visible(timeout=60_000)
        assert watched.page.evaluate(_SHOW, True) == [False]
        assert watched.page.evaluate(_SHOW, False) == [False, True]


def test_an_open_page_keeps_what_was_typed(browser: Browser, stack: ForkedStack, catalog: Catalog) -> None:
    """The form proposes the newest snapshots, so each commit changes it."""
    with watched_page(browser, WIDTHS[0], "light") as watched:
        page = watched.page
        page.goto(f"{stack.console_url}tables/shop/orders/snapshots")
        page.get_by_label("From snapshot").fill("2")
        page.get_by_role("heading", level=1).click()
        latest = max(catalog.table("shop.orders").snapshots(limit=1).column("id").to_pylist())
        expect(page.get_by_role("link", name=str(latest + 3), exact=True).first).to_be_visible(timeout=60_000)
        assert page.get_by_label("From snapshot").input_value() == "2"


@pytest.mark.slow
def test_a_metastore_that_is_away_is_reported_and_comes_back(
    browser: Browser, stack: ForkedStack, catalog: Catalog
) -> None:
    with watched_page(browser, WIDTHS[0], "light") as watched:
        page = watched.page
        page.goto(stack.console_url)
        page.evaluate("() => { window.opened = true; }")
        stack.kill("metastore")
        expect(page.get_by_text("The metastore does not answer; trying again")).to_be_visible(timeout=20_000)
        page.goto(f"{stack.console_url}tables")
        expect(page.get_by_role("heading", name="The metastore does not answer")).to_be_visible()
        stack.restart("metastore")
        expect(page.get_by_role("heading", name="Tables")).to_be_visible(timeout=30_000)
        # The browser notes each answer with 503 and the closed streams.
        watched.problems.clear()


def test_keys_lead_through_the_console(browser: Browser, stack: ForkedStack, catalog: Catalog) -> None:
    with watched_page(browser, WIDTHS[0], "light") as watched:
        page = watched.page
        page.goto(stack.console_url)
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.textContent") == "Skip to the page"
        page.keyboard.press("Enter")
        page.keyboard.press("g")
        page.keyboard.press("t")
        page.wait_for_url("**/tables")
        page.keyboard.press("/")
        assert page.evaluate("() => document.activeElement.id") == "search"
        page.keyboard.press("Escape")
        page.evaluate("() => document.activeElement.blur()")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).not_to_be_visible()
