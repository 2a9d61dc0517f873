"""The ASGI application: routes to pages, and what is the same for all of them."""

from __future__ import annotations

import asyncio
import mimetypes
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import quote, unquote

import anyio.to_thread
from anyio import CapacityLimiter
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from lakelog.client.connection.status import UNAUTHENTICATED
from lakelog.clock import Clock
from lakelog.errors import (
    AlreadyExists,
    CommitConflict,
    InvalidArgument,
    LakelogError,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    SnapshotExpired,
    Unavailable,
)
from lakelog.privacy.redaction import blot_out
from lakelog.serving.logging_setup import Logger

from ..metrics import Metrics
from ..pages.page import FORM_TOKEN, Page, PageRequest, PageSettings, Redirect
from ..pages.rights import name_caller
from .callers import TOKEN_COOKIE, Callers
from .once import Once
from .rendering import Rendering, read_static, to_csv, to_json
from .security import Security, comes_from_a_link_elsewhere

PageFunction: TypeAlias = Callable[[PageRequest], Page | Redirect]
Loaded = TypeVar("Loaded")

MESSAGE_COOKIE: Final = "lakelog_message"
"""A sentence for the next page; it is shown once."""

_THREADS: Final = 16
"""Pages that wait for the metastore or files at once; further ones wait for these."""

_FORM_S: Final = 20.0
"""A form that takes longer to arrive is refused: forms are small."""

_DOWNLOAD: Final = {"Content-Disposition": 'attachment; filename="lakelog.csv"'}

_STATUSES: Final[Sequence[tuple[type[LakelogError], HTTPStatus]]] = (
    (InvalidArgument, HTTPStatus.BAD_REQUEST),
    (NotFound, HTTPStatus.NOT_FOUND),
    (SnapshotExpired, HTTPStatus.GONE),
    (AlreadyExists, HTTPStatus.CONFLICT),
    (CommitConflict, HTTPStatus.CONFLICT),
    (PermissionDenied, HTTPStatus.FORBIDDEN),
    (ResourceExhausted, HTTPStatus.TOO_MANY_REQUESTS),
    (Unavailable, HTTPStatus.SERVICE_UNAVAILABLE),
)

_TITLES: Final = {
    HTTPStatus.SERVICE_UNAVAILABLE: "The metastore does not answer",
    HTTPStatus.NOT_FOUND: "Not found",
    HTTPStatus.FORBIDDEN: "Not allowed",
}


_AWAY: Final = Unavailable("No metastore answers the console. Nothing was sent; `lakelog doctor` finds out more.")
"""In place of an error with the metastore's address: anybody who reaches the console gets this page."""


@dataclass(frozen=True)
class PageRoute:
    """A page and its address.

    Args:
        path: The address, with parts in braces.
        show: Makes the page.
        is_live: Whether an open page updates itself.
        act: What a form of the page does; None: it has none.
        is_action: Whether its form changes something, so that `--actions` must allow it.
        is_long: Whether making it may take long, so that it has to be ended once its browser has left.
        state: Asks cheaply for what the page shows: while the answer stays the same, an open page is made again seldom.
            None: there is no such question.
    """

    path: str
    show: PageFunction
    is_live: bool = True
    act: PageFunction | None = None
    is_action: bool = True
    is_long: bool = False
    state: Callable[[PageRequest], Any] | None = None


@dataclass
class Site:
    """What answers requests.

    Args:
        callers: The catalogs of callers.
        settings: What pages know of the service.
        rendering: Makes HTML.
        clock: Gives the time.
        metrics: Counts pages.
        log: Gets errors that are ours.
        is_https: Whether cookies are sent over https only.
    """

    callers: Callers
    settings: PageSettings
    rendering: Rendering
    clock: Clock
    metrics: Metrics
    log: Logger
    is_https: bool

    def __post_init__(self) -> None:
        self._threads = CapacityLimiter(_THREADS)
        self._once = Once()

    def token_of(self, request: Request) -> str | None:
        """The caller's token, from the header or the cookie."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token:
            return token.strip()
        return request.cookies.get(self._name_of(TOKEN_COOKIE)) or None

    async def load(
        self,
        page: Callable[[PageRequest], Loaded],
        request: Request,
        form: Mapping[str, str] | None = None,
        left: threading.Event | None = None,
    ) -> Loaded:
        """Runs a function of a page in a thread, with the caller's catalog; raises what it raises."""
        token, path, query = self.token_of(request), request.path_params, dict(request.query_params)

        def make() -> Loaded:
            with self.callers.catalog(token) as catalog:
                asked = PageRequest(catalog, path, query, self.clock, self.settings, form or {})
                return page(asked if left is None else replace(asked, left=left))

        return await anyio.to_thread.run_sync(make, limiter=self._threads)

    async def respond(
        self,
        page: PageFunction,
        request: Request,
        *,
        is_live: bool,
        form: Mapping[str, str] | None = None,
        left: threading.Event | None = None,
    ) -> Response:
        """The response of a page's function, made in the same thread.

        To render a long page takes a tenth of a second, in which the event loop would answer nothing else.
        """

        def make(asked: PageRequest) -> Response:
            return self.show(_make_named(page, request, asked), request, is_live=is_live)

        return await self.load(make, request, form, left)

    async def _respond_watched(self, route: PageRoute, request: Request) -> Response:
        """As `respond`; the page learns when its browser has left, or this console ends."""
        left = threading.Event()
        watching = asyncio.create_task(_wait_until_left(request, left))
        try:
            return await self.respond(route.show, request, is_live=route.is_live, left=left)
        finally:
            watching.cancel()
            left.set()

    async def answer(self, route: PageRoute, request: Request) -> Response:
        """The answer to a request for a page."""
        with self.metrics.timing(route.path):
            try:
                if request.method == "POST":
                    return await self._act(route, request)
                if route.is_long:
                    return await self._respond_watched(route, request)
                return await self.respond(route.show, request, is_live=route.is_live)
            except LakelogError as error:
                return self.explain(error, request)

    async def _act(self, route: PageRoute, request: Request) -> Response:
        if route.act is None:
            return Response(status_code=HTTPStatus.METHOD_NOT_ALLOWED)
        if route.is_action and not self.settings.actions:
            raise PermissionDenied("This console only shows: its operator has not switched actions on (--actions).")
        fields = await read_form(request, 100)
        if not route.is_action:
            return await self.respond(route.act, request, is_live=False, form=fields)
        if not fields.get(FORM_TOKEN):
            raise InvalidArgument("The form has no token: open its page, and send it from there.")
        # A form that was changed after it was sent is another one.
        key = (Callers.key(self.token_of(request)), request.url.path, tuple(sorted(fields.items())))
        act = partial(_make_named, route.act, request)
        done = await self._once.run(key, partial(self.load, act, request, fields))
        show = partial(self.show, done, request, is_live=False)
        # Its own answer for each request, as each has its own cookies.
        return await anyio.to_thread.run_sync(show, limiter=self._threads)

    def show(self, page: Page | Redirect, request: Request, *, is_live: bool) -> Response:
        """A page as HTML, JSON or CSV, or the way to another one; for threads of pages."""
        if isinstance(page, Redirect):
            redirect = RedirectResponse(page.address, HTTPStatus.SEE_OTHER)
            if page.message:
                self.set_cookie(redirect, MESSAGE_COOKIE, quote(page.message[:1000]), max_age=60)
            return redirect
        status = page.status
        form, part = request.query_params.get("as"), request.query_params.get("part")
        if form == "csv" and status < HTTPStatus.BAD_REQUEST:
            return Response(to_csv(page, part), status, media_type="text/csv", headers=_DOWNLOAD)
        if form in ("json", "csv"):
            # What failed has no rows.
            failed = status >= HTTPStatus.BAD_REQUEST
            return Response(to_json(page, None if failed else part), status, media_type="application/json")
        return self.html(page, request, is_live=is_live, status=status)

    def html(self, page: Page, request: Request, *, is_live: bool, status: int = 200) -> Response:
        """A page as HTML."""
        message = unquote(request.cookies.get(self._name_of(MESSAGE_COOKIE), ""))
        address = _address_of(request.url.path, request.url.query)
        text = self.rendering.html(
            page,
            caller=self._name_of(TOKEN_COOKIE) in request.cookies,
            caller_name=getattr(request.state, "caller_name", ""),
            message=message,
            address=address,
            is_live=is_live and page.is_live,
        )
        response = HTMLResponse(text, status)
        if message:
            self.delete_cookie(response, MESSAGE_COOKIE)
        return response

    def explain(self, error: LakelogError, request: Request) -> Response:
        """An error as a page that says what it is and what to do."""
        if error.reason == UNAUTHENTICATED and request.query_params.get("as") not in ("json", "csv"):
            address = _address_of(request.url.path, request.url.query)
            if self.token_of(request) is None and comes_from_a_link_elsewhere(request.headers):
                return HTMLResponse(self.rendering.again(address))
            return RedirectResponse(f"/sign-in?to={quote(address, safe='')}", HTTPStatus.SEE_OTHER)
        status = next((code for kind, code in _STATUSES if isinstance(error, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)
        if error.reason == UNAUTHENTICATED:
            status = HTTPStatus.UNAUTHORIZED
        if status == HTTPStatus.INTERNAL_SERVER_ERROR:
            self.log.error("a page failed", path=request.url.path, error=blot_out(str(error)), exc_info=error)
        # What an action may have done before it failed, its own page says.
        is_away, is_form = status == HTTPStatus.SERVICE_UNAVAILABLE, request.method == "POST"
        shown = _AWAY if is_away and self.is_https and "target" in error.metadata else error
        metadata = {name: blot_out(str(value)) for name, value in shown.metadata.items()}
        page = Page(
            "error.html",
            _TITLES.get(status, "This did not work"),
            {"error": {"kind": type(error).__name__, "message": blot_out(shown.message), "metadata": metadata}},
            extra={"is_away": is_away and not is_form, "is_undone": is_away and is_form},
            status=status,
        )
        response = self.show(page, request, is_live=is_away and not is_form)
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            response.headers["Retry-After"] = "5"
        return response

    def set_cookie(self, response: Response, name: str, value: str, max_age: int | None = None) -> None:
        """Sets a cookie that no script and no other site can use."""
        response.set_cookie(
            self._name_of(name), value, max_age=max_age, httponly=True, samesite="strict", secure=self.is_https
        )

    def delete_cookie(self, response: Response, name: str) -> None:
        """Takes a cookie away."""
        response.delete_cookie(self._name_of(name), httponly=True, samesite="strict", secure=self.is_https)

    def _name_of(self, cookie: str) -> str:
        # Browsers take a cookie with this prefix from this very host over https alone: not from a sibling's page that
        # sets one for the whole domain, and so signs people in as somebody else.
        return f"__Host-{cookie}" if self.is_https else cookie


def make_app(site: Site, pages: Sequence[PageRoute], more: Sequence[Route], hosts: Sequence[str]) -> Security:
    """The application.

    Args:
        site: Answers.
        pages: The pages.
        more: Further routes.
        hosts: As of `Security`.
    """

    async def not_found(request: Request, _error: Exception) -> Response:
        path = f"/{request.url.path.strip('/')}"
        if path != request.url.path:
            # Without the slashes that are too many: no link of a page may begin with two, which name another host.
            return RedirectResponse(_address_of(path, request.url.query), HTTPStatus.TEMPORARY_REDIRECT)
        return site.explain(NotFound(f"There is no page {request.url.path[:200]!r}."), request)

    async def failed(request: Request, error: Exception) -> Response:
        # A defect of ours: the log has the traceback, the page only says so.
        site.log.error("a page failed", path=request.url.path, exc_info=error)
        page = Page(
            "error.html",
            "This did not work",
            {"error": {"kind": "InternalError", "message": "The console failed; its log says why.", "metadata": {}}},
            extra={"is_away": False, "is_undone": False},
            status=HTTPStatus.INTERNAL_SERVER_ERROR,
        )
        return site.show(page, request, is_live=False)

    async def broken_off(_request: Request, _error: Exception) -> Response:
        # No one gets this.
        return Response(status_code=HTTPStatus.BAD_REQUEST)

    routes = [_route(site, each) for each in pages]
    app = Starlette(
        routes=[*routes, *more, Route("/static/{name}", _static)],
        middleware=[Middleware(GZipMiddleware, minimum_size=1000)],
        exception_handlers={404: not_found, ClientDisconnect: broken_off, Exception: failed},
    )
    app.router.redirect_slashes = False
    return Security(app, hosts, is_https=site.is_https)


async def read_form(request: Request, max_fields: int) -> dict[str, str]:
    """The fields of a form, without files.

    Raises:
        HTTPException: It did not arrive in time, or is none.
    """
    try:
        async with asyncio.timeout(_FORM_S), request.form(max_files=0, max_fields=max_fields) as form:
            return {key: value for key, value in form.items() if isinstance(value, str)}
    except TimeoutError as error:
        text = "The form took too long to arrive.\n"
        raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, text, {"Connection": "close"}) from error


def _make_named(page: PageFunction, request: Request, asked: PageRequest) -> Page | Redirect:
    """What a page's function returns; the request then knows the caller's name, for the head of the page."""
    made = page(asked)
    request.state.caller_name = name_caller(asked.catalog)
    return made


async def _wait_until_left(request: Request, left: threading.Event) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        continue
    left.set()


def _address_of(path: str, query: str) -> str:
    """Path and query, in the characters that addresses may have: the server has decoded the path."""
    return quote(path) + (f"?{query}" if query else "")


def _route(site: Site, page: PageRoute) -> Route:
    async def endpoint(request: Request) -> Response:
        return await site.answer(page, request)

    answer: Callable[[Request], Awaitable[Response]] = endpoint
    return Route(page.path, answer, methods=["GET", "POST"] if page.act else ["GET"])


async def _static(request: Request) -> Response:
    name: str = request.path_params["name"]
    content = read_static(name)
    if content is None:
        return Response(status_code=HTTPStatus.NOT_FOUND)
    kind = mimetypes.guess_type(name)[0]
    return Response(content, media_type=kind, headers={"Cache-Control": "public, max-age=31536000, immutable"})
