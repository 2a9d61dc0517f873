"""A console in the test's own process over a metastore in memory with tokens, and what asks it."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa
import structlog
import uvicorn
from prometheus_client import CollectorRegistry

import lakelog
from console.config import parse_config
from console.http.app import PageRoute
from console.http.connections import RequestsInTime
from console.http.live import LivePages
from console.routes import PAGES
from console.wiring import make_console, make_site
from lakelog.sdk.catalog import Catalog
from lakelog.serving.access import Access, Caller, Role, TokenEntry
from metastore.store.transaction import Store
from metastore.use_cases import UseCases
from tests.support.metastore.serving import serving

ROLES = {"root": Role.ADMIN, "viewer": Role.READER, "ann": Role.USER, "stranger": Role.USER}
"""Callers: ann owns the database `shop`, a stranger has no grant."""


def token_of(name: str) -> str:
    return f"{name}-token-0123456789"


@contextmanager
def metastore_with_tokens(folder: Path) -> Iterator[tuple[str, Catalog]]:
    """A metastore in memory, and an admin's catalog: `shop.orders` and `other.secret`, each with commits."""
    tokens = tuple(
        TokenEntry(Caller(name, role), hashlib.sha256(token_of(name).encode()).digest()) for name, role in ROLES.items()
    )
    uri = f"file://{folder}/"
    with (
        serving(None, lambda store: _use_cases(store, uri), Access(tokens=tokens)) as target,
        lakelog.connect(target, token=token_of("root")) as catalog,
    ):
        fill(catalog)
        yield target, catalog


def _use_cases(store: Store, uri: str) -> UseCases:
    return UseCases(store, uri)


def fill(catalog: Catalog) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("item", pa.string())])
    for name in ("shop.orders", "other.secret"):
        catalog.create_database(name.partition(".")[0])
        table = catalog.create_table(name, schema, primary_key=["id"], options={"bucket": "1"})
        for number in range(3):
            table.upsert(pa.table({"id": [number, number + 1], "item": [f"item {number}", "x"]}))
    catalog.grants.grant("owner", "shop", "ann")


@dataclass
class Answer:
    """An answer with its whole body."""

    status: int
    headers: Mapping[str, str]
    text: str
    cookies: list[str] = field(default_factory=list)

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass
class RunningConsole:
    """A console, and requests to it as a browser or a program sends them."""

    port: int
    live: LivePages

    def send(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        cookie: str | None = None,
        body: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> Answer:
        """One request; a token goes into the header, a cookie is the value of the token's cookie."""
        sent = {"Host": f"localhost:{self.port}", **(headers or {})}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        if cookie is not None:
            sent["Cookie"] = f"lakelog_token={cookie}"
        text = None
        if body is not None:
            text = urlencode(body)
            sent.setdefault("Content-Type", "application/x-www-form-urlencoded")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body=text, headers=sent)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            cookies = response.headers.get_all("set-cookie") or []
            return Answer(response.status, found, response.read().decode(), cookies)
        finally:
            connection.close()

    def get(self, path: str, name: str | None = "root", **more: Any) -> Answer:
        """A page as a caller sees it."""
        return self.send("GET", path, token=None if name is None else token_of(name), **more)

    def post(self, path: str, fields: Mapping[str, str], name: str = "root", **more: Any) -> Answer:
        """A form that a program sends as a caller."""
        return self.send("POST", path, token=token_of(name), body=fields, **more)

    @contextmanager
    def stream(self, page: str, name: str = "root", *, token: str | None = None) -> Iterator[Stream]:
        """The live stream of a page, as a caller by name or with a token gets it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            headers = {"Host": "localhost", "Authorization": f"Bearer {token or token_of(name)}"}
            connection.request("GET", f"/live?{urlencode({'page': page})}", headers=headers)
            yield Stream(connection.getresponse())
        finally:
            connection.close()


class Stream:
    """Server-sent events as they come."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.response = response

    def next(self) -> tuple[str, str] | None:
        """The next event and its data, without comments; None: the stream has ended."""
        name = ""
        while line := self.response.readline().decode():
            kind, _, value = line.rstrip("\n").partition(": ")
            if kind == "event":
                name = value
            elif kind == "data":
                return name, json.loads(value)
        return None

    def wait_for(self, name: str, containing: str = "") -> str:
        """The data of the first event of this name that contains a text; AssertionError after the stream's end."""
        while (found := self.next()) is not None:
            if found[0] == name and containing in found[1]:
                return found[1]
        raise AssertionError(f"the stream ended without {name} {containing}")


@contextmanager
def running_console(
    target: str,
    *arguments: str,
    pages: tuple[PageRoute, ...] = PAGES,
    environment: Mapping[str, str] | None = None,
) -> Iterator[RunningConsole]:
    """A console on a free port of this process, for a metastore."""
    given = {"LAKELOG_TARGET": target, **(environment or {})}
    mode = () if "--tls-by-proxy" in arguments else ("--insecure-dev",)
    config = parse_config(["serve", *mode, *arguments], given)
    site = make_site(config, CollectorRegistry(), structlog.get_logger())
    app, live = make_console(site, config, pages)
    listening = socket.create_server(("127.0.0.1", 0))
    settings = uvicorn.Config(
        app,
        http=RequestsInTime,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield RunningConsole(listening.getsockname()[1], live)
    finally:
        server.should_exit = True
        thread.join()
        site.callers.close()
