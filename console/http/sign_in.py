"""Signing in: a token is tried at the metastore, then kept in a cookie that only this console gets."""

from __future__ import annotations

from http import HTTPStatus

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from lakelog.client.connection.status import UNAUTHENTICATED
from lakelog.errors import InvalidArgument, LakelogError

from ..pages.page import Page
from .app import Site
from .callers import LONGEST_COOKIE, TOKEN_COOKIE


def sign_in_routes(site: Site) -> list[Route]:
    """The pages to sign in and out."""

    async def sign_in(request: Request) -> Response:
        to = local_address(request.query_params.get("to", "/"))
        problem = ""
        if request.method == "POST":
            async with request.form(max_files=0, max_fields=10) as form:
                token = str(form.get("token", "")).strip()
            try:
                await anyio.to_thread.run_sync(_try_token, site, token)
            except InvalidArgument as error:
                problem = error.message
            except LakelogError as error:
                if error.reason != UNAUTHENTICATED:
                    return site.explain(error, request)
                problem = "The metastore does not know this token, or it has expired."
            else:
                response = RedirectResponse(to, HTTPStatus.SEE_OTHER)
                site.set_cookie(response, TOKEN_COOKIE, token)
                return response
        page = Page("sign_in.html", "Sign in", {}, extra={"problem": problem, "to": to})
        status = HTTPStatus.UNAUTHORIZED if problem else HTTPStatus.OK
        return site.html(page, request, is_live=False, status=status)

    async def sign_out(_request: Request) -> Response:
        response = RedirectResponse("/sign-in", HTTPStatus.SEE_OTHER)
        response.delete_cookie(TOKEN_COOKIE)
        return response

    return [
        Route("/sign-in", sign_in, methods=["GET", "POST"]),
        Route("/sign-out", sign_out, methods=["POST"]),
    ]


def local_address(address: str) -> str:
    """The address if it is one of this console, else the first page. Pure: no link leads elsewhere."""
    is_local = address.startswith("/") and not address.startswith("//") and "\\" not in address
    return address if is_local and address.isprintable() else "/"


def _try_token(site: Site, token: str) -> None:
    if not token:
        raise InvalidArgument("Paste a token.", metadata={"field": "token"})
    if len(token) > LONGEST_COOKIE:
        raise InvalidArgument(
            f"The token has {len(token)} characters, and browsers keep {LONGEST_COOKIE}: use a shorter one, or a proxy "
            "that sends it in the header Authorization.",
            metadata={"field": "token"},
        )
    with site.callers.catalog(token) as catalog:
        catalog.databases()
