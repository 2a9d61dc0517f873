"""What every answer and every request must have, whatever the page is.

Names and rows of tables are hostile text. Templates escape them; should one ever not, the content security policy
allows no script and no style but the two files of the console, no form that leads elsewhere, and no frame around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)

_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}

_SAFE: Final = ("GET", "HEAD")

LONGEST_BODY: Final = 1024 * 1024
"""Forms are small; a query has at most this."""


class Security:
    """Refuses requests of foreign pages and under foreign names, and adds the headers to every answer.

    Args:
        app: Gets the other requests.
        hosts: Values of the header Host that are accepted, in lower case, without ports.
        is_https: Whether browsers reach the pages over https.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str], *, is_https: bool) -> None:
        self._app = app
        self._hosts = frozenset(hosts)
        self._headers = dict(_HEADERS)
        if is_https:
            self._headers["Strict-Transport-Security"] = "max-age=31536000"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request; ASGI's interface."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers[name] = value
                if "Cache-Control" not in headers:
                    # Pages show what one caller may see.
                    headers["Cache-Control"] = "no-store"
            await send(message)

        refused = self._find_fault(scope["method"], Headers(scope=scope))
        if refused is not None:
            await refused(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _find_fault(self, method: str, headers: Headers) -> PlainTextResponse | None:
        host = headers.get("host", "")
        if _without_port(host) not in self._hosts:
            return PlainTextResponse(
                f"This console does not answer to the name {host[:200]!r}. Its operator can add it by --hosts.\n", 421
            )
        if method in _SAFE:
            if is_fetched_by_another_page(headers):
                return PlainTextResponse("Another page asks for this. Follow a link to the console instead.\n", 403)
            return None
        if not comes_from_here(host, headers):
            return PlainTextResponse("This form was sent by another page. Open the page of the console itself.\n", 403)
        length = headers.get("content-length", "")
        if not length.isdecimal():
            return PlainTextResponse("The length of the form is missing.\n", 411)
        if int(length) > LONGEST_BODY:
            return PlainTextResponse(f"The form has {length} bytes; {LONGEST_BODY} are allowed.\n", 413)
        return None


def comes_from_here(host: str, headers: Headers) -> bool:
    """Whether a form was sent by one of our own pages, or by a program. Pure.

    Browsers say where a form is from. A program says nothing of the kind, and sends its token in the header
    Authorization. That header alone proves nothing: a proxy in front may add it to all requests, also to those that
    another page made a browser send.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site == "same-origin"
    if origin is not None:
        return urlsplit(origin).netloc.lower() == host.lower()
    return bool(headers.get("authorization"))


def is_fetched_by_another_page(headers: Headers) -> bool:
    """Whether another page loads this as an image, a frame, a stream and so on. Pure.

    Browsers keep the answer from it. But where no one signs in, it could run statements and hold live pages.
    """
    is_elsewhere = headers.get("sec-fetch-site") in ("cross-site", "same-site")
    return is_elsewhere and headers.get("sec-fetch-dest") != "document"


def comes_from_a_link_elsewhere(headers: Headers) -> bool:
    """Whether a person follows a link of another page: browsers send our cookie only with the next request. Pure."""
    return headers.get("sec-fetch-site") in ("cross-site", "same-site")


def _without_port(host: str) -> str:
    name, _, port = host.lower().rpartition(":")
    return name if port.isdigit() and name and not (name.count(":") and not name.endswith("]")) else host.lower()
