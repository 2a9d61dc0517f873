"""Pages that update themselves: server-sent events with the page as it is now.

The browser asks for its own address at `/live?page=ADDRESS`. The server looks every few seconds whether the page has
changed, and sends it if it has; the script replaces the sections that differ. What this may cost:

1. Nothing when no one looks: the script closes the stream of a hidden window.
2. A page of a table costs one cheap question while its table stays as it is. It is made again after a commit, and every
   quarter of a minute, because ages, jobs and consumers change without one.
3. A page that takes long is made again after a long pause.
4. Windows of one caller share pages and questions. Callers share nothing: they may see different things.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import unquote
from weakref import WeakValueDictionary

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Match, Route

from lakelog.client.connection.status import UNAUTHENTICATED
from lakelog.errors import LakelogError

from ..pages.page import PageRequest, Redirect
from ..places import Places
from .app import PageRoute, Site
from .callers import Callers

EVERY_S: Final = 3.0
"""Between two looks at an open page."""

UNCHANGED_S: Final = 15.0
"""The age at which a page is made again although its table stays as it is."""

PAUSES: Final = 100
"""A page is made again after a pause of at least so many times as long as it took, up to the longest pause: so an open
page costs at most one percent of a core."""

LONGEST_PAUSE_S: Final = 20.0

LONGEST_S: Final = 3600.0
"""A stream ends after this, and the browser opens another one: so signed tokens that have expired are noticed, and
a console that is replaced is not held for ever."""


@dataclass
class _Question:
    """The state of a table, as its open pages of one caller ask for it together."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    due_s: float = 0.0
    answer: Any = None


@dataclass
class _Shared:
    """The latest version of a page, for all windows of a caller that show it.

    Args:
        question: What is asked before it is made again.
        due_s: When the next look is due, by the clock of the event loop.
        made_s: When it was made.
        took_s: How long that took.
        state: The state of its table before that; None: it has none, or could not be made.
        event: What was sent.
    """

    question: _Question
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    due_s: float = 0.0
    made_s: float = 0.0
    took_s: float = 0.0
    state: Any = None
    event: str = ""

    def forget(self) -> None:
        """Makes the next look make the page again, however long it took."""
        self.state, self.due_s, self.took_s = None, 0.0, 0.0


class LivePages:
    """The streams of open pages.

    Args:
        site: Makes the pages.
        pages: All pages. One that does not update itself is loaded again once a metastore that was away answers.
        most: Streams at once, of all callers.
    """

    def __init__(self, site: Site, pages: Sequence[PageRoute], most: int) -> None:
        self._site = site
        found = [each if each.is_live else replace(each, show=_wait_for_metastore, state=None) for each in pages]
        self._routes = [(Route(each.path, lambda _: None), each) for each in found]
        self._places = Places(most)
        # They go with the last stream that uses them.
        self._shared: WeakValueDictionary[tuple[str, str], _Shared] = WeakValueDictionary()
        self._questions: WeakValueDictionary[tuple[str, ...], _Question] = WeakValueDictionary()
        self._ending = asyncio.Event()

    @property
    def count(self) -> int:
        """Open streams."""
        return self._places.count

    def end(self) -> None:
        """Ends all streams, and refuses further ones."""
        self._ending.set()

    async def answer(self, request: Request) -> Response:
        """The stream of a page."""
        address = request.query_params.get("page", "")
        found = self._find(address, request)
        if found is None:
            return Response(f"No page {address[:200]!r} updates itself.\n", 404, media_type="text/plain")
        if self._ending.is_set() or not self._places.is_free_for(self._caller_of(request)):
            # 204 tells the browser not to try again.
            return Response(status_code=204)
        page, asked = found
        return StreamingResponse(
            self._stream(page, asked, address), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
        )

    def _find(self, address: str, request: Request) -> tuple[PageRoute, Request] | None:
        path, _, query = address.partition("?")
        scope = {**request.scope, "method": "GET", "path": unquote(path), "query_string": query.encode()}
        scope.pop("path_params", None)
        for route, page in self._routes:
            match, child = route.matches(scope)
            if match is Match.FULL:
                return page, Request({**scope, **child})
        return None

    async def _stream(self, page: PageRoute, asked: Request, address: str) -> AsyncIterator[str]:
        caller = self._caller_of(asked)
        if not self._places.take(caller):
            # Another one was faster. The browser asks once more, and hears that there is none.
            return
        self._site.metrics.live_pages.set(self.count)
        try:
            loop = asyncio.get_running_loop()
            shared, seen, end_s = self._share(asked, address), "", loop.time() + LONGEST_S
            if shared.made_s < loop.time() - EVERY_S:
                # The new window has just loaded the page, and must not go back to what another one shows.
                shared.forget()
            yield "retry: 3000\n\n"
            while loop.time() < end_s:
                event = await self._look(shared, page, asked)
                digest = hashlib.sha256(event.encode()).hexdigest()
                # A comment keeps proxies from closing a silent stream, and finds out that a browser has gone.
                yield event if digest != seen else ": same\n\n"
                seen = digest
                if event == _SIGNED_OUT:
                    # Those who may see nothing hold no place.
                    return
                try:
                    await asyncio.wait_for(self._ending.wait(), EVERY_S)
                except TimeoutError:
                    continue
                return
        finally:
            self._places.give_back(caller)
            self._site.metrics.live_pages.set(self.count)

    def _caller_of(self, request: Request) -> str:
        return Callers.key(self._site.token_of(request))

    def _share(self, asked: Request, address: str) -> _Shared:
        caller = self._caller_of(asked)
        table = (caller, *(asked.path_params.get(name, "") for name in ("database", "table")))
        question = self._questions.setdefault(table, _Question())
        return self._shared.setdefault((caller, address), _Shared(question))

    async def _look(self, shared: _Shared, page: PageRoute, asked: Request) -> str:
        """The page as it is now, or as it was."""
        now_s = asyncio.get_running_loop().time
        async with shared.lock:
            if now_s() < shared.due_s:
                return shared.event
            try:
                state = await self._ask(shared.question, page, asked)
                if not _is_current(shared, state, now_s()):
                    began_s = now_s()
                    shared.event, shared.state = await self._render(page, asked), state
                    shared.made_s, shared.took_s = now_s(), now_s() - began_s
            except LakelogError as error:
                # It is tried again soon, also if the error took long.
                shared.forget()
                shared.event = _say_error(error)
            shared.due_s = now_s() + EVERY_S * 0.9
            return shared.event

    async def _ask(self, question: _Question, page: PageRoute, asked: Request) -> Any:
        """The state of the page's table; None: it is a page of no table."""
        if page.state is None:
            return None
        now_s = asyncio.get_running_loop().time
        async with question.lock:
            if now_s() >= question.due_s:
                question.answer = await self._site.load(page.state, asked)
                question.due_s = now_s() + EVERY_S * 0.5
            return question.answer

    async def _render(self, page: PageRoute, asked: Request) -> str:
        response = await self._site.respond(page.show, asked, is_live=True)
        return _event("page", bytes(response.body).decode()) if response.status_code == 200 else _event("changed", "")


def _wait_for_metastore(request: PageRequest) -> Redirect:
    request.catalog.databases()
    return Redirect("")


def _is_current(shared: _Shared, state: Any, now_s: float) -> bool:
    """Whether a page need not be made again yet. Pure."""
    if not shared.event:
        return False
    age_s = now_s - shared.made_s
    if age_s < min(shared.took_s * PAUSES, LONGEST_PAUSE_S):
        return True
    return state is not None and state == shared.state and age_s < UNCHANGED_S


def _say_error(error: LakelogError) -> str:
    if error.reason == UNAUTHENTICATED:
        return _SIGNED_OUT
    return _event("away" if error.retryable else "changed", "")


def _event(name: str, data: str) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


_SIGNED_OUT: Final = _event("signed-out", "")
