"""What every request and every answer must have."""

from __future__ import annotations

import re
import socket
import time
from typing import NoReturn

import pytest
import structlog

from console.http import app, connections
from console.http.app import PageRoute
from console.http.security import POLICY
from console.pages import query
from console.routes import PAGES
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.errors import InvalidArgument
from tests.support.running_console import RunningConsole, running_console, token_of

FORM = {"token": "wrong-token-0123456789"}
REACHED = 401
"""The answer to the form if it gets in."""


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:99", 200),
        ("127.0.0.1", 200),
        ("[::1]:7480", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("evil.example:7480", 421),
        ("", 421),
        ("::1", 421),
    ],
)
def test_only_known_names_are_answered(console: RunningConsole, host: str, status: int) -> None:
    answer = console.get("/query", headers={"Host": host})
    assert answer.status == status
    if status == 421:
        assert "--hosts" in answer.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, REACHED),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"}, 403),
        ({"Origin": "http://localhost"}, REACHED),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({}, 403),
        ({"Authorization": "Bearer added-by-a-proxy"}, REACHED),
        ({"Authorization": "Bearer added-by-a-proxy", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Authorization": "Bearer added-by-a-proxy", "Origin": "http://evil.example"}, 403),
        ({"Authorization": "Bearer added-by-a-proxy", "Origin": "null"}, 403),
    ],
)
def test_only_forms_of_this_console_are_taken(console: RunningConsole, headers: dict[str, str], status: int) -> None:
    answer = console.send("POST", "/sign-in", body=FORM, headers={"Host": "localhost", **headers})
    assert answer.status == status


def test_large_forms_are_refused_before_they_are_read(console: RunningConsole) -> None:
    headers = {"Sec-Fetch-Site": "same-origin"}
    assert console.send("POST", "/sign-in", headers={**headers, "Content-Length": str(2 << 20)}).status == 413
    chunked = {**headers, "Transfer-Encoding": "chunked", "Content-Length": "x"}
    assert console.send("POST", "/sign-in", headers=chunked).status in (400, 411)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),
        ("/?as=json", 200),
        ("/streams?as=csv&part=consumers", 200),
        ("/no-such-page", 404),
        ("/?as=json&part=nothing", 404),
        ("/sign-in", 200),
        ("/static/console.css", 200),
        ("/static/nothing.css", 404),
        ("/static/..%2Fconfig.py", 404),
        ("/live?page=/nothing", 404),
        ("/query?sql=DROP+TABLE+shop.orders", 400),
    ],
)
def test_answers_of_every_kind_have_the_headers(console: RunningConsole, path: str, status: int) -> None:
    answer = console.get(path)
    assert answer.status == status, answer.text[:500]
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "unsafe" not in POLICY
    is_file = path.startswith("/static/console")
    assert answer.headers["cache-control"].startswith("public" if is_file else "no-store")
    assert "strict-transport-security" not in answer.headers
    assert "server" not in answer.headers


def test_refusals_have_them_too(console: RunningConsole) -> None:
    for answer in (
        console.get("/", headers={"Host": "evil.example"}),
        console.send("POST", "/sign-in", body=FORM, headers={"Origin": "http://evil.example"}),
        console.get("/jobs", None),
    ):
        assert answer.headers["content-security-policy"] == POLICY


SECRET = "sesame-0123"


def fail(*_: object, **__: object) -> NoReturn:
    url = f"postgresql://user:{SECRET}@db/lakelog"
    raise InvalidArgument(f"Cannot reach {url}.", metadata={"url": url})


def test_errors_show_no_secrets(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    route = PageRoute("/fails", fail)
    monkeypatch.setattr(query, "run_statement", fail)
    monkeypatch.setattr(GrpcMetastore, "create_tag", fail)
    with running_console(target, "--actions", pages=(*PAGES, route)) as console:
        table = console.get("/tables/shop/orders/act/tag").text
        target_id = re.findall(r'name="target_id" value="([^"]*)"', table)[0]
        form = {"form_token": "x", "target_id": target_id, "tag": "t", "snapshot": "1"}
        for answer in (
            console.get("/fails"),
            console.get("/fails?as=json"),
            console.get("/query?sql=SELECT+1"),
            console.get("/query?sql=SELECT+1&as=json"),
            console.post("/tables/shop/orders/act/tag", form),
        ):
            assert answer.status == 400
            assert "Cannot reach postgresql://" in answer.text
            assert SECRET not in answer.text


def test_pages_have_no_inline_script_and_no_inline_style(console: RunningConsole) -> None:
    for path in ("/", "/streams", "/jobs", "/grants", "/settings", "/query", "/pipelines"):
        text = console.get(path).text
        assert " style=" not in text
        assert "<style" not in text
        assert text.count("<script") == 1
        assert token_of("root") not in text


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("//evil.example/", "/evil.example"),
        ("//evil.example/%2e%2e?x=1", "/evil.example/..?x=1"),
        ("/%2f%2Fevil.example", "/evil.example"),
        ("/jobs/?kind=compact", "/jobs?kind=compact"),
        ("//tables//", "/tables"),
    ],
)
def test_no_address_of_a_page_names_another_host(console: RunningConsole, path: str, location: str) -> None:
    answer = console.get(path)
    assert (answer.status, answer.headers["location"]) == (307, location)
    for each in (path, "/\\evil.example", "/pipelines//evil.example"):
        links = re.findall(r'(?:href|action|data-address)="([^"]*)"', console.get(each).text)
        assert not [link for link in links if link.startswith(("//", "/\\")) or "://" in link]


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1000) == b""
    except TimeoutError:
        return False


def test_connections_without_a_request_are_closed(console: RunningConsole, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADERS_S", 0.2)
    start = b"GET /query HTTP/1.1\r\nHost: localhost\r\n"
    with (
        socket.create_connection(("127.0.0.1", console.port), 5) as silent,
        socket.create_connection(("127.0.0.1", console.port), 5) as slow,
        socket.create_connection(("127.0.0.1", console.port), 5) as good,
    ):
        slow.sendall(start + b"X: ")
        good.sendall(start + b"\r\n")
        assert good.recv(15) == b"HTTP/1.1 200 OK", "the control"
        while b"</html>" not in (last := good.recv(100_000)):
            assert last
        good.sendall(start)
        assert [is_closed(each) for each in (silent, slow, good)] == [True] * 3


def test_a_form_that_arrives_slowly_is_refused(console: RunningConsole, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_FORM_S", 0.1)
    with socket.create_connection(("127.0.0.1", console.port), 5) as slow:
        slow.sendall(_head("/sign-in", 100) + b"tok")
        assert slow.recv(1000).startswith(b"HTTP/1.1 408 ")


def test_a_form_that_is_broken_off_is_no_error(console: RunningConsole) -> None:
    with structlog.testing.capture_logs() as lines:
        for path in ("/sign-in", "/no-page"):
            with socket.create_connection(("127.0.0.1", console.port), 5) as client:
                client.sendall(_head(path, 100) + b"tok")
                time.sleep(0.05)
        assert console.get("/query").status == 200
    assert not [line for line in lines if line["log_level"] == "error"]


def _head(path: str, length: int) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\n"
        f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n"
    ).encode()
