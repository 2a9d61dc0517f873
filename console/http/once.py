"""A form does its work once, however often its button is clicked or the browser sends it again.

Each form has a random token. A second request with it waits for the first, and gets the same answer. What was refused
or failed is forgotten, so that a corrected form can be sent. This knows the forms that were sent to this process
lately; beyond that, actions themselves name the state that they saw, so that another process refuses a repeat.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from ..pages.page import Page, Redirect

_Form: TypeAlias = tuple[str, str, tuple[tuple[str, str], ...]]

_MOST: Final = 1000
"""Forms that are remembered; the oldest are forgotten first."""


class Once:
    """The forms that were sent lately. For one event loop."""

    def __init__(self) -> None:
        self._sent: OrderedDict[bytes, asyncio.Task[Page | Redirect]] = OrderedDict()

    async def run(self, form: _Form, work: Callable[[], Awaitable[Page | Redirect]]) -> Page | Redirect:
        """The outcome of the work, which is done unless it is under way or has succeeded; raises what it raises.

        Args:
            form: The caller, the address and the form's fields, with its token.
            work: Does it. It goes on if the browser does not wait.
        """
        # A form may have a megabyte.
        key = hashlib.sha256(repr(form).encode()).digest()
        task = self._sent.get(key)
        if task is None:
            task = self._sent[key] = asyncio.ensure_future(self._work(key, work))
            while len(self._sent) > _MOST:
                self._sent.popitem(last=False)
        return await asyncio.shield(task)

    async def _work(self, key: bytes, work: Callable[[], Awaitable[Page | Redirect]]) -> Page | Redirect:
        outcome: Page | Redirect | None = None
        try:
            outcome = await work()
            return outcome
        finally:
            if not isinstance(outcome, Redirect):
                self._sent.pop(key, None)
