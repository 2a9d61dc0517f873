"""The console in the process of a test: its application, called as a server calls it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlencode

import structlog
from prometheus_client import CollectorRegistry

from console.config import parse_config
from console.http.callers import Callers
from console.wiring import make_console, make_site
from lakelog.client.connection.tokens import Token
from lakelog.clock import SystemClock
from lakelog.sdk.catalog import Catalog

_ORIGIN = "http://localhost"


@dataclass(frozen=True)
class Answer:
    """What a page answered."""

    status: int
    headers: Mapping[str, str]
    text: str


class Console:
    """A console whose callers get the catalogs that `connect` makes.

    Args:
        connect: Makes the catalog of a caller; gets the caller's token.
        arguments: Further arguments of its command line.
    """

    def __init__(self, connect: Callable[[Token | None], Catalog], *arguments: str) -> None:
        config = parse_config(["serve", "--insecure-dev", "--target", "localhost:7450", *arguments], {})
        site = make_site(config, CollectorRegistry(), structlog.wrap_logger(structlog.ReturnLogger()))
        site.callers = Callers(connect, None, SystemClock())
        self._app, self.live = make_console(site, config)

    def get(self, address: str, token: str | None = None) -> Answer:
        """A page."""
        return self._request("GET", address, token, b"")

    def post(self, address: str, form: Mapping[str, str], token: str | None = None) -> Answer:
        """A form, as one of the console's own pages sends it."""
        return self._request("POST", address, token, urlencode(form).encode())

    def json(self, address: str, token: str | None = None) -> Any:
        """The parts of a page."""
        answer = self.get(f"{address}{'&' if '?' in address else '?'}as=json", token)
        assert answer.status == 200, answer.text
        return json.loads(answer.text)

    def _request(self, method: str, address: str, token: str | None, body: bytes) -> Answer:
        path, _, query = address.partition("?")
        headers = {"host": "localhost", "origin": _ORIGIN}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        if method == "POST":
            headers |= {"content-type": "application/x-www-form-urlencoded", "content-length": str(len(body))}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 1),
            "server": ("localhost", 80),
        }
        return asyncio.run(self._run(scope, body))

    async def _run(self, scope: dict[str, Any], body: bytes) -> Answer:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        headers = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], headers, b"".join(each.get("body", b"") for each in sent[1:]).decode())
