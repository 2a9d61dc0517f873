"""A table that a caller may not see looks like one that is not there, on each page."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

import pytest

from lakelog.client.connection.tokens import Token
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.format.tables.grant import GrantLevel
from lakelog.sdk.catalog import Catalog
from lakelog.serving.access import Access, Caller, Role, TokenEntry
from lakelog.storage.objects.stores import LocationStores
from tests.support.console import Console
from tests.support.metastore.making import SCHEMA
from tests.support.metastore.serving import serving

_TOKENS = {"root": "root-token-0123456789", "guest": "guest-token-0123456789"}
_TABS = ("", "/history", "/snapshots", "/snapshots/1", "/files", "/files/one?path=x", "/log", "/streams", "/jobs")


@pytest.fixture(scope="module")
def console() -> Iterator[Console]:
    roles = {"root": Role.ADMIN, "guest": Role.USER}
    entries = tuple(
        TokenEntry(Caller(name, roles[name]), hashlib.sha256(token.encode()).digest())
        for name, token in _TOKENS.items()
    )
    with serving(None, access=Access(tokens=entries)) as target:
        opened: list[Catalog] = []

        def connect(token: Token | None) -> Catalog:
            opened.append(Catalog(GrpcMetastore(target, token=token), LocationStores()))
            return opened[-1]

        root = connect(_TOKENS["root"])
        for name in ("shop", "secret"):
            root.create_database(name)
            for table in ("orders", "hidden"):
                root.create_table(f"{name}.{table}", SCHEMA)
        root.metastore.grant("shop", "orders", GrantLevel.READER, "guest")
        yield Console(connect)
        for catalog in opened:
            catalog.close()


@pytest.mark.parametrize("tab", _TABS)
@pytest.mark.parametrize("table", ["shop/hidden", "secret/orders"])
def test_a_hidden_table_looks_like_none(console: Console, table: str, tab: str) -> None:
    hidden = console.get(f"/tables/{table}{tab}", _TOKENS["guest"])
    unknown = console.get(f"/tables/{table[:-1]}x{tab}", _TOKENS["guest"])
    assert hidden.status == unknown.status
    assert hidden.status in (403, 404)
    assert _blot_out(hidden.text, table) == _blot_out(unknown.text, f"{table[:-1]}x")


def test_lists_name_only_what_the_caller_may_see(console: Console) -> None:
    assert [each["name"] for each in console.json("/tables", _TOKENS["guest"])["databases"]] == ["shop"]
    assert [each["name"] for each in console.json("/tables/shop", _TOKENS["guest"])["tables"]] == ["orders"]
    assert console.json("/search?q=hidden", _TOKENS["guest"])["tables"] == []
    assert len(console.json("/search?q=hidden", _TOKENS["root"])["tables"]) == 2
    hidden, unknown = (console.get(f"/tables/{name}", _TOKENS["guest"]) for name in ("secret", "nowhere"))
    assert hidden.status == unknown.status
    assert _blot_out(hidden.text, "secret") == _blot_out(unknown.text, "nowhere")


def _blot_out(text: str, name: str) -> str:
    """A page without a name and without the number of its request."""
    return re.sub(r"\b[0-9a-f]{32}\b", "", text.replace(name, "").replace(name.replace("/", "."), ""))
