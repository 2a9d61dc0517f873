"""`catalog.grants`, and the commands `lakelog grant`, `revoke` and `grants`."""

from __future__ import annotations

import json

import pytest

from lakelog.errors import InvalidArgument, NotFound
from lakelog.sdk.catalog import Catalog
from tests.support.command import Command

from .shop import make_orders


def test_grants_are_given_listed_and_taken_back(catalog: Catalog) -> None:
    make_orders(catalog)
    catalog.grants.grant("writer", "shop", to="team-a")
    catalog.grants.grant("reader", "shop.orders", to="ann")
    listed = catalog.grants.list("shop.orders")
    assert listed.drop_columns(["granted_at", "uuid"]).to_pylist() == [
        {"scope": "shop.orders", "principal": "ann", "level": "reader", "granted_by": "", "dropped_at": None}
    ]
    assert str(listed.schema.field("granted_at").type) == "timestamp[ms, tz=UTC]"
    catalog.grants.grant("owner", "shop.orders", to="ann")
    assert catalog.grants.list(to="ann").column("level").to_pylist() == ["owner"]
    assert catalog.grants.list("shop", to="ann").num_rows == 0
    assert catalog.grants.list("shop").column("principal").to_pylist() == ["team-a"]
    assert catalog.grants.list().num_rows == 0
    catalog.grants.revoke("shop.orders", from_="ann")
    with pytest.raises(NotFound, match=r"ann has no grant on exactly shop\.orders"):
        catalog.grants.revoke("shop.orders", from_="ann")


@pytest.mark.parametrize(
    ("level", "scope", "to", "words"),
    [
        ("admin", "shop", "ann", "level='admin' is no level of a grant. Use 'reader'"),
        (3, "shop", "ann", "level=3 is no level"),
        ("reader", "a.b.c", "ann", "'a.b.c' is no table's name"),
        ("reader", 1, "ann", "scope=1 is no text"),
        ("reader", "", "ann", "'' is no table's name"),
        ("reader", "shop", "an n", "to='an n' is no name of a caller. Give the name of a token"),
        ("reader", "shop", None, "to=None is no text"),
    ],
)
def test_bad_input(catalog: Catalog, level: str, scope: str, to: str, words: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        catalog.grants.grant(level, scope, to=to)
    assert words in caught.value.message


@pytest.fixture
def commands(catalog: Catalog, capsys: pytest.CaptureFixture[str]) -> Command:
    make_orders(catalog)
    return Command(catalog, capsys)


def test_commands(commands: Command) -> None:
    none = "There is no grant on shop.orders. An owner or an admin makes one: lakelog grant LEVEL SCOPE --to NAME"
    assert none in commands("grants", "shop.orders")[1]
    assert "There is no grant to you." in commands("grants")[1]
    code, out, note = commands("grant", "reader", "shop.orders", "--to", "ann")
    assert (code, out) == (0, "ann is reader of shop.orders now.\n")
    # The metastore of these tests has no tokens.
    assert "It has no effect yet: this metastore has no tokens" in note
    code, out, _ = commands("grant", "owner", "shop", "--to", "team-a", "-o", "json")
    record = {"scope": "shop", "principal": "team-a", "level": "owner", "has_effect": False}
    assert (code, json.loads(out)) == (0, record)
    lines = commands("grants", "shop.orders")[1].splitlines()
    assert lines[0].split() == ["DATABASE", "OR", "TABLE", "CALLER", "LEVEL", "GRANTED", "BY", "GRANTED", "AT"]
    assert lines[1].split()[:3] == ["shop.orders", "ann", "reader"]
    (record,) = json.loads(commands("grants", "--to", "team-a", "-o", "json")[1])
    assert (record["scope"], record["level"], record["granted_by"]) == ("shop", "owner", None)
    taken = commands("revoke", "shop.orders", "--from", "ann")
    assert taken == (0, "ann has no grant on shop.orders any more.\n", "")
    assert commands("revoke", "shop.orders", "--from", "ann")[0] == 3
    code, _, error = commands("grant", "admin", "shop", "--to", "ann")
    assert code == 2
    assert "'LEVEL': 'admin' is not one of 'reader', 'writer', 'owner'" in error
    assert commands("grant", "reader", "shop")[0] == 2
    assert commands("grant", "reader", "shop", "--to", "a b")[0] == 2
    assert commands("grant", "reader", "none", "--to", "ann")[0] == 3


def test_grants_on_dropped_tables_are_shown_and_taken_back(commands: Command, catalog: Catalog) -> None:
    uuid = catalog.table("shop.orders").info.table_uuid
    catalog.grants.grant("reader", "shop.orders", to="ann")
    catalog.drop_table("shop.orders")
    lines = commands("grants", "--to", "ann")[1].splitlines()
    assert lines[0].split()[:6] == ["DATABASE", "OR", "TABLE", "CALLER", "LEVEL", "UUID"]
    assert lines[1].split()[:4] == ["shop.orders", "ann", "reader", uuid]
    (record,) = json.loads(commands("grants", "--uuid", uuid, "-o", "json")[1])
    assert (record["principal"], record["uuid"]) == ("ann", uuid)
    assert record["dropped_at"] >= record["granted_at"]
    # By its name it is not there.
    assert commands("revoke", "shop.orders", "--from", "ann")[0] == 3
    taken = commands("revoke", "--uuid", uuid, "--from", "ann")
    assert taken == (0, f"ann has no grant on table {uuid} any more.\n", "")
    assert catalog.grants.list(to="ann").num_rows == 0
    for arguments in (("revoke", "--from", "ann"), ("revoke", "shop.orders", "--uuid", uuid, "--from", "ann")):
        assert commands(*arguments)[0] == 2
    for wrong in ("", "x"):
        with pytest.raises(InvalidArgument, match="uuid"):
            catalog.grants.list(uuid=wrong)
    with pytest.raises(InvalidArgument, match="Neither scope nor uuid"):
        catalog.grants.revoke(None, "ann")
