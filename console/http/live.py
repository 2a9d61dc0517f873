"""Pages that update themselves: server-sent events with the page as it is now.

The browser asks for its own address at `/live?page=ADDRESS`. The server makes the page again every few seconds, and
sends it if it differs; the script replaces the sections that differ. Callers that look at the same page share the
work. So a console costs the metastore a page every few seconds for each page that somebody looks at, and nothing
when no one looks: the script closes the stream of a hidden window.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Match, Route

from lakelog.client.connection.status import UNAUTHENTICATED
from lakelog.errors import LakelogError

from ..pages.page import PageRequest, Redirect
from .app import PageRoute, Site
from .callers import Callers

EVERY_S: Final = 3.0
"""Between two versions of a page."""

LONGEST_S: Final = 3600.0
"""A stream ends after this, and the browser opens another one: so signed tokens that have expired are noticed, and
a console that is replaced is not held for ever."""


@dataclass
class _Shared:
    """The latest version of a page that several callers look at."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    made_s: float = -1e9
    event: str = ""
    watchers: int = 0


class LivePages:
    """The streams of open pages.

    Args:
        site: Makes the pages.
        pages: All pages. One that does not update itself is loaded again once a metastore that was away answers.
        most: Streams at once.
    """

    def __init__(self, site: Site, pages: Sequence[PageRoute], most: int) -> None:
        self._site = site
        found = [each if each.is_live else replace(each, show=_wait_for_metastore) for each in pages]
        self._routes = [(Route(each.path, lambda _: None), each) for each in found]
        self._most = most
        self._shared: dict[tuple[str, str], _Shared] = {}
        self.count = 0
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Ends all streams, and refuses further ones."""
        self._ending.set()

    async def answer(self, request: Request) -> Response:
        """The stream of a page."""
        address = request.query_params.get("page", "")
        found = self._find(address, request)
        if found is None:
            return Response(f"No page {address[:200]!r} updates itself.\n", 404, media_type="text/plain")
        if self.count >= self._most or self._ending.is_set():
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
        key = (Callers.key(self._site.token_of(asked)), address)
        shared = self._shared.setdefault(key, _Shared())
        shared.watchers += 1
        self.count += 1
        self._site.metrics.live_pages.set(self.count)
        seen, loop = "", asyncio.get_running_loop()
        end_s = loop.time() + LONGEST_S
        try:
            yield "retry: 3000\n\n"
            while loop.time() < end_s:
                event = await self._make(shared, page, asked)
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
            shared.watchers -= 1
            self.count -= 1
            self._site.metrics.live_pages.set(self.count)
            if not shared.watchers:
                self._shared.pop(key, None)

    async def _make(self, shared: _Shared, page: PageRoute, asked: Request) -> str:
        loop = asyncio.get_running_loop()
        async with shared.lock:
            if loop.time() - shared.made_s < EVERY_S * 0.9:
                return shared.event
            shared.event = await self._render(page, asked)
            shared.made_s = loop.time()
            return shared.event

    async def _render(self, page: PageRoute, asked: Request) -> str:
        try:
            made = await self._site.load(page.show, asked)
        except LakelogError as error:
            if error.reason == UNAUTHENTICATED:
                return _SIGNED_OUT
            return _event("away" if error.retryable else "changed", "")
        response = self._site.show(made, asked, is_live=True)
        return _event("page", bytes(response.body).decode()) if response.status_code == 200 else _event("changed", "")


def _wait_for_metastore(request: PageRequest) -> Redirect:
    request.catalog.databases()
    return Redirect("")


def _event(name: str, data: str) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


_SIGNED_OUT: Final = _event("signed-out", "")
