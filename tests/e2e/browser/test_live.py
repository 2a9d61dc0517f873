"""Pages that stay open: they follow the table, survive a metastore that goes away, and have keys."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from lakelog.sdk.catalog import Catalog
from tests.support.browser import WIDTHS, needs_chromium, watched_page
from tests.support.forked_stack import ForkedStack

pytestmark = [pytest.mark.e2e, needs_chromium]


def test_an_open_page_follows_the_table(browser: Browser, stack: ForkedStack, catalog: Catalog) -> None:
    with watched_page(browser, WIDTHS[0], "light") as watched:
        page = watched.page
        page.goto(f"{stack.console_url}tables/shop/orders/snapshots")
        page.evaluate("() => { window.opened = true; }")
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        latest = max(catalog.table("shop.orders").snapshots(limit=1).column("id").to_pylist())
        expect(page.get_by_role("link", name=str(latest + 3), exact=True).first).to_be_visible()
        assert page.evaluate("() => window.opened") is True


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
