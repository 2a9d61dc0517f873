"""A token that expires or is revoked while pages are open: they say so, and show nothing further."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest

import lakelog
from console.http import live
from lakelog.clock import SystemClock
from lakelog.sdk.catalog import Catalog
from lakelog.serving.access_settings import AccessSettings
from lakelog.serving.signed_tokens.rules import KeySource
from lakelog.serving.signed_tokens.verification import LEEWAY_S
from metastore.memory import MemoryStore
from metastore.use_cases import UseCases
from tests.integration.server.rotating_server import RotatingServer, replace, signed_by, token_for
from tests.support.issuer import key_for, to_jwk, to_jwks
from tests.support.running_console import RunningConsole, running_console

KEY = key_for("ES256")
ROOT, ANN = "root-token-0123456789", "ann-token-0123456789"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.05)
    monkeypatch.setattr(live, "PAUSES", 0)


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(f"root admin {ROOT}\nann admin {ANN}\n")
    return path


@pytest.fixture
def server(tokens: Path, tmp_path: Path) -> Iterator[RotatingServer]:
    keys = tmp_path / "keys.json"
    keys.write_bytes(to_jwks(to_jwk(KEY)))
    settings = AccessSettings(token_file=tokens, signed=signed_by(KeySource(file=keys)))
    running = RotatingServer(settings, use_cases=UseCases(MemoryStore(SystemClock()), f"file://{tmp_path}/warehouse/"))
    yield running
    running.stop()


@pytest.fixture
def catalog(server: RotatingServer) -> Iterator[Catalog]:
    with lakelog.connect(server.target, token=ROOT) as found:
        found.create_database("shop")
        found.create_table("shop.orders", pa.schema([("id", pa.int64())])).append(pa.table({"id": [1]}))
        yield found


@pytest.fixture
def console(server: RotatingServer) -> Iterator[RunningConsole]:
    with running_console(server.target, "--actions") as running:
        yield running


def check_ends(console: RunningConsole, catalog: Catalog, token: str, address: str, end: Callable[[], None]) -> None:
    """An open page whose token ends hears that as its last, and its caller gets nothing more in any other way."""
    with console.stream(address, token=token) as stream:
        assert "shop" in stream.wait_for("page")
        end()
        stream.wait_for("signed-out")
        catalog.table("shop.orders").alter(comment="not for everybody")
        catalog.create_table("shop.later", pa.schema([("id", pa.int64())]))
        assert stream.next() is None, "nothing follows"
    for path in (address, "/tables/shop/orders", f"/query?sql={quote('SELECT id FROM shop.orders')}"):
        page = console.send("GET", path, cookie=token)
        assert (page.status, page.headers["location"].partition("?")[0]) == (303, "/sign-in")
        assert console.send("GET", f"{path}{'&' if '?' in path else '?'}as=json", token=token).status == 401
    form = {"form_token": "x", "tag": "release", "snapshot": "1"}
    assert console.send("POST", "/tables/shop/orders/act/tag", token=token, body=form).status == 303
    assert not catalog.table("shop.orders").tags.list().num_rows
    with console.stream(address, token=token) as again:
        assert again.next() == ("signed-out", "")
    with console.stream(address, token=ROOT) as another:
        assert "shop" in another.wait_for("page"), "other callers go on"


@pytest.mark.parametrize("address", ["/tables", "/tables/shop/orders"])
def test_a_token_that_is_revoked(
    server: RotatingServer, console: RunningConsole, catalog: Catalog, tokens: Path, address: str
) -> None:
    check_ends(console, catalog, ANN, address, lambda: replace(tokens, f"root admin {ROOT}\n"))


def test_a_signed_token_that_expires(console: RunningConsole, catalog: Catalog) -> None:
    check_ends(console, catalog, token_for(KEY, lasts_s=3 - LEEWAY_S), "/tables", lambda: None)


def test_a_role_that_is_taken_away(console: RunningConsole, catalog: Catalog, tokens: Path) -> None:
    with console.stream("/tables/shop/orders", token=ANN) as stream:
        stream.wait_for("page")
        replace(tokens, f"root admin {ROOT}\nann user {ANN}\n")
        assert stream.next() == ("changed", ""), "the browser loads the page again, which says that it may not"
    assert console.send("GET", "/tables/shop/orders", token=ANN).status in (403, 404)
