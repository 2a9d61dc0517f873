"""The ASGI application: routes to pages, and what is the same for all of them."""

from __future__ import annotations

import mimetypes
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final, TypeAlias
from urllib.parse import quote, unquote

import anyio.to_thread
from anyio import CapacityLimiter
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
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
from .security import Security

PageFunction: TypeAlias = Callable[[PageRequest], Page | Redirect]

MESSAGE_COOKIE: Final = "lakelog_message"
"""A sentence for the next page; it is shown once."""

_THREADS: Final = 16
"""Pages that wait for the metastore or files at once; further ones wait for these."""

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


@dataclass(frozen=True)
class PageRoute:
    """A page and its address.

    Args:
        path: The address, with parts in braces.
        show: Makes the page.
        is_live: Whether an open page updates itself.
        act: What a form of the page does; None: it has none.
        is_action: Whether its form changes something, so that `--actions` must allow it.
    """

    path: str
    show: PageFunction
    is_live: bool = True
    act: PageFunction | None = None
    is_action: bool = True


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
        return request.cookies.get(TOKEN_COOKIE) or None

    async def load(
        self, page: PageFunction, request: Request, form: Mapping[str, str] | None = None
    ) -> Page | Redirect:
        """Runs the function of a page in a thread, with the caller's catalog; raises what it raises."""
        token = self.token_of(request)
        asked = PageRequest(
            catalog=self.callers.catalog(token),
            path=request.path_params,
            query=dict(request.query_params),
            clock=self.clock,
            settings=self.settings,
            form=form or {},
        )

        def make() -> Page | Redirect:
            made = page(asked)
            request.state.caller_name = name_caller(asked.catalog)
            return made

        return await anyio.to_thread.run_sync(make, limiter=self._threads)

    async def answer(self, route: PageRoute, request: Request) -> Response:
        """The answer to a request for a page."""
        with self.metrics.timing(route.path):
            try:
                if request.method == "POST":
                    return await self._act(route, request)
                return self.show(await self.load(route.show, request), request, is_live=route.is_live)
            except LakelogError as error:
                return self.explain(error, request)

    async def _act(self, route: PageRoute, request: Request) -> Response:
        if route.act is None:
            return Response(status_code=HTTPStatus.METHOD_NOT_ALLOWED)
        if route.is_action and not self.settings.actions:
            raise PermissionDenied("This console only shows: its operator has not switched actions on (--actions).")
        async with request.form(max_files=0, max_fields=100) as form:
            fields = {key: value for key, value in form.items() if isinstance(value, str)}
        if not route.is_action:
            return self.show(await self.load(route.act, request, fields), request, is_live=False)
        if not fields.get(FORM_TOKEN):
            raise InvalidArgument("The form has no token: open its page, and send it from there.")
        # A form that was changed after it was sent is another one.
        key = (Callers.key(self.token_of(request)), request.url.path, tuple(sorted(fields.items())))
        done = await self._once.run(key, partial(self.load, route.act, request, fields))
        return self.show(done, request, is_live=False)

    def show(self, page: Page | Redirect, request: Request, *, is_live: bool) -> Response:
        """A page as HTML, JSON or CSV, or the way to another one."""
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
        message = unquote(request.cookies.get(MESSAGE_COOKIE, ""))
        address = _address_of(request)
        text = self.rendering.html(
            page,
            caller=TOKEN_COOKIE in request.cookies,
            caller_name=getattr(request.state, "caller_name", ""),
            message=message,
            address=address,
            is_live=is_live and page.is_live,
        )
        response = HTMLResponse(text, status)
        if message:
            response.delete_cookie(MESSAGE_COOKIE)
        return response

    def explain(self, error: LakelogError, request: Request) -> Response:
        """An error as a page that says what it is and what to do."""
        if error.reason == UNAUTHENTICATED and request.query_params.get("as") not in ("json", "csv"):
            return RedirectResponse(f"/sign-in?to={quote(_address_of(request), safe='')}", HTTPStatus.SEE_OTHER)
        status = next((code for kind, code in _STATUSES if isinstance(error, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)
        if error.reason == UNAUTHENTICATED:
            status = HTTPStatus.UNAUTHORIZED
        if status == HTTPStatus.INTERNAL_SERVER_ERROR:
            self.log.error("a page failed", path=request.url.path, error=blot_out(str(error)), exc_info=error)
        page = Page(
            "error.html",
            _TITLES.get(status, "This did not work"),
            {"error": {"kind": type(error).__name__, "message": blot_out(error.message), "metadata": error.metadata}},
            extra={"is_away": status == HTTPStatus.SERVICE_UNAVAILABLE},
            status=status,
        )
        response = self.show(page, request, is_live=status == HTTPStatus.SERVICE_UNAVAILABLE)
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            response.headers["Retry-After"] = "5"
        return response

    def set_cookie(self, response: Response, name: str, value: str, max_age: int | None = None) -> None:
        """Sets a cookie that no script and no other site can use."""
        response.set_cookie(name, value, max_age=max_age, httponly=True, samesite="strict", secure=self.is_https)


def make_app(site: Site, pages: Sequence[PageRoute], more: Sequence[Route], hosts: Sequence[str]) -> Security:
    """The application.

    Args:
        site: Answers.
        pages: The pages.
        more: Further routes.
        hosts: As of `Security`.
    """

    async def not_found(request: Request, _error: Exception) -> Response:
        return site.explain(NotFound(f"There is no page {request.url.path[:200]!r}."), request)

    async def failed(request: Request, error: Exception) -> Response:
        # A defect of ours: the log has the traceback, the page only says so.
        site.log.error("a page failed", path=request.url.path, exc_info=error)
        page = Page(
            "error.html",
            "This did not work",
            {"error": {"kind": "InternalError", "message": "The console failed; its log says why.", "metadata": {}}},
            extra={"is_away": False},
            status=HTTPStatus.INTERNAL_SERVER_ERROR,
        )
        return site.show(page, request, is_live=False)

    routes = [_route(site, each) for each in pages]
    app = Starlette(
        routes=[*routes, *more, Route("/static/{name}", _static)],
        middleware=[Middleware(GZipMiddleware, minimum_size=1000)],
        exception_handlers={404: not_found, Exception: failed},
    )
    return Security(app, hosts, is_https=site.is_https)


def _address_of(request: Request) -> str:
    """Path and query, in the characters that addresses may have: the server has decoded the path."""
    return quote(request.url.path) + (f"?{request.url.query}" if request.url.query else "")


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
