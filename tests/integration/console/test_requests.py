"""What every request and every answer must have."""

from __future__ import annotations

import pytest

from console.http.security import POLICY
from tests.support.running_console import RunningConsole, token_of

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


def test_pages_have_no_inline_script_and_no_inline_style(console: RunningConsole) -> None:
    for path in ("/", "/streams", "/jobs", "/grants", "/settings", "/query", "/pipelines"):
        text = console.get(path).text
        assert " style=" not in text
        assert "<style" not in text
        assert text.count("<script") == 1
        assert token_of("root") not in text
