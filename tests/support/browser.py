"""A headless Chromium of the system, driven by Playwright, and what every page must be in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Playwright, sync_playwright

WIDTHS: Final = (1200, 375)

SERIOUS: Final = ("serious", "critical")
"""What axe calls findings that keep people out."""

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str | None:
    """The browser's program; None: this machine has none."""
    given = os.environ.get("LAKELOG_CHROMIUM")
    return given or next(filter(None, map(shutil.which, _NAMES)), None)


needs_chromium = pytest.mark.skipif(
    find_chromium() is None, reason="needs Chromium: install Debian's package, or name one by LAKELOG_CHROMIUM"
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; its pages come from `watched_page`."""
    # Playwright waits for its driver by an event loop of its own.
    with sync_playwright() as playwright:
        yield _launch(playwright)


def _launch(playwright: Playwright) -> Browser:
    # As root, which tests may run as, Chromium has no sandbox of its own.
    return playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox", "--disable-gpu"])


class WatchedPage:
    """A page of a browser that notes what a person would not see: errors of scripts, policies and requests.

    Args:
        page: Playwright's page.
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        self.problems: list[str] = []
        page.on("pageerror", lambda error: self._note(str(error)))
        page.on("console", self._on_message)
        page.on("dialog", self._on_dialog)

    def _note(self, problem: str) -> None:
        self.problems.append(f"{self.page.url}: {problem}")

    def _on_message(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._note(message.text)

    def _on_dialog(self, dialog: Dialog) -> None:
        self._note("a dialog")
        dialog.dismiss()

    def check_layout(self) -> None:
        """AssertionError if a person has to scroll the whole page sideways."""
        width = self.page.evaluate("() => [document.scrollingElement.scrollWidth, window.innerWidth]")
        assert width[0] <= width[1], f"{self.page.url} is {width[0]} wide in a window of {width[1]}"

    def check_accessibility(self) -> None:
        """AssertionError for each serious finding of axe, by WCAG 2.2 AA and axe's best practices."""
        found: Any = Axe().run(self.page).response
        serious = [
            f"{each['id']} ({each['impact']}): {each['help']}: {[node['html'][:200] for node in each['nodes']][:3]}"
            for each in found["violations"]
            if each["impact"] in SERIOUS
        ]
        assert not serious, f"{self.page.url}:\n" + "\n".join(serious)


@contextmanager
def watched_page(browser: Browser, width: int, scheme: str, *, scripts: bool = True) -> Iterator[WatchedPage]:
    """A window; AssertionError at its end for what it noted.

    Args:
        browser: The browser.
        width: The window's width in pixels.
        scheme: `light` or `dark`.
        scripts: Whether scripts run.
    """
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
        java_script_enabled=scripts,
        # axe is put into pages as a script, which their own policy would refuse; test_policy has its own window.
        bypass_csp=scripts,
    )
    try:
        page = WatchedPage(context.new_page())
        page.page.set_default_timeout(15_000)
        yield page
        assert not page.problems
    finally:
        context.close()
