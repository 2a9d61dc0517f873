"""Forms that are sent twice."""

from __future__ import annotations

import asyncio

import pytest

from console.http.once import Once
from console.pages.page import Page, Redirect
from lakelog.errors import Unavailable


class _Work:
    def __init__(self, *outcomes: Page | Redirect | Exception) -> None:
        self.outcomes = list(outcomes)
        self.count = 0

    async def __call__(self) -> Page | Redirect:
        self.count += 1
        await asyncio.sleep(0.01)
        outcome = self.outcomes[min(self.count, len(self.outcomes)) - 1]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


DONE = Redirect("/", "done")
FORM = Page("act/form.html", "", {})
KEY = ("caller", "/path", (("form_token", "x"),))


def test_clicks_at_once_and_later_get_the_same_answer() -> None:
    async def run() -> None:
        once, work = Once(), _Work(DONE)
        assert await asyncio.gather(*(once.run(KEY, work) for _ in range(3))) == [DONE] * 3
        assert await once.run(KEY, work) is DONE
        assert work.count == 1

    asyncio.run(run())


@pytest.mark.parametrize(
    "key", [("other", *KEY[1:]), (KEY[0], "/other", KEY[2]), (*KEY[:2], (("form_token", "x"), ("tag", "y")))]
)
def test_other_callers_pages_and_values_are_other_forms(key: tuple[str, str, tuple[tuple[str, str], ...]]) -> None:
    async def run() -> None:
        once, work = Once(), _Work(DONE)
        await once.run(KEY, work)
        await once.run(key, work)
        assert work.count == 2

    asyncio.run(run())


def test_what_was_refused_or_failed_can_be_sent_again() -> None:
    async def run() -> None:
        once, work = Once(), _Work(FORM, Unavailable("away"), DONE)
        assert await once.run(KEY, work) is FORM
        with pytest.raises(Unavailable):
            await once.run(KEY, work)
        assert await once.run(KEY, work) is DONE
        assert work.count == 3

    asyncio.run(run())


def test_a_browser_that_goes_away_does_not_stop_the_work() -> None:
    async def run() -> None:
        once, work = Once(), _Work(DONE)
        first = asyncio.ensure_future(once.run(KEY, work))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await once.run(KEY, work) is DONE
        assert work.count == 1

    asyncio.run(run())


def test_what_a_form_holds_is_not_kept() -> None:
    async def run() -> None:
        once = Once()
        await once.run((KEY[0], KEY[1], (("form_token", "x" * 1_000_000),)), _Work(DONE))
        assert [len(key) for key in once._sent] == [32]

    asyncio.run(run())
