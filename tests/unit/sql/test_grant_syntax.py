"""GRANT, REVOKE and SHOW GRANTS: how they are read, and what they do."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakelog.clock import SystemClock
from lakelog.errors import InvalidArgument, NotFound
from lakelog.sdk.catalog import Catalog
from lakelog.sql import SqlSession
from lakelog.sql.parser import parse_statement
from lakelog.sql.statements import GrantTo, Name, RevokeFrom, ShowGrants, Statement
from lakelog.storage.objects.stores import LocationStores
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import in_process
from metastore.use_cases import UseCases


@pytest.mark.parametrize(
    ("sql", "statement"),
    [
        ("GRANT reader ON TABLE shop.orders TO 'ann'", GrantTo("reader", Name("shop", "orders"), "ann")),
        ("grant Writer on orders to 'a@b'", GrantTo("writer", Name(None, "orders"), "a@b")),
        ("GRANT OWNER ON DATABASE shop TO 'team';", GrantTo("owner", "shop", "team")),
        ("GRANT OWNER ON SCHEMA shop TO 'team'", GrantTo("owner", "shop", "team")),
        ("GRANT READER ON table.t TO 'ann'", GrantTo("reader", Name("table", "t"), "ann")),
        ("REVOKE ALL ON TABLE orders FROM 'ann'", RevokeFrom(Name(None, "orders"), "ann")),
        ("REVOKE ON DATABASE shop FROM 'ann'", RevokeFrom("shop", "ann")),
        ("SHOW GRANTS", ShowGrants()),
        ("SHOW GRANTS ON DATABASE shop", ShowGrants("shop")),
        ("SHOW GRANTS ON shop.orders TO 'ann'", ShowGrants(Name("shop", "orders"), "ann")),
    ],
)
def test_statements(sql: str, statement: Statement) -> None:
    assert parse_statement(sql) == statement


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("GRANT SELECT ON shop.orders TO 'ann'", "one of the levels READER, WRITER, OWNER"),
        ("GRANT READER shop.orders TO 'ann'", "'ON' is expected. A grant is on DATABASE shop"),
        ("GRANT READER ON shop.orders FROM 'ann'", "'TO' is expected. It is followed by a caller's name"),
        ("GRANT READER ON shop.orders TO ann", "The name of a caller is written in single quotes"),
        ("GRANT READER ON shop.orders TO 'ann' WITH GRANT OPTION", "GRANT ends here"),
        ("REVOKE READER ON shop.orders FROM 'ann'", "REVOKE takes the whole grant back"),
        ("SHOW GRANTS FOR 'ann'", "SHOW GRANTS ends here"),
    ],
)
def test_what_cannot_be_read(sql: str, words: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_statement(sql)
    assert words in caught.value.message


@pytest.fixture
def session() -> Iterator[SqlSession]:
    async def open_store() -> Store:
        return MemoryStore(SystemClock())

    metastore = in_process(open_store, lambda store: UseCases(store, "file:///w", planners=()))
    catalog = Catalog(metastore, LocationStores())
    catalog.create_database("shop")
    catalog.create_table("shop.orders", pa.schema([("id", pa.int64())]))
    yield SqlSession(catalog, "shop")
    metastore.close()


def test_what_they_do(session: SqlSession) -> None:
    # The metastore of this test identifies no callers.
    idle = "It has no effect: this metastore has no tokens, so each caller may do everything."
    assert session.execute("GRANT READER ON orders TO 'ann'").message == f"ann is reader of shop.orders now. {idle}"
    assert session.execute("GRANT OWNER ON DATABASE shop TO 'team'").message == f"team is owner of shop now. {idle}"
    shown = session.execute("SHOW GRANTS ON TABLE orders").rows
    assert shown is not None
    assert shown.select(["scope", "principal", "level"]).to_pylist() == [
        {"scope": "shop.orders", "principal": "ann", "level": "reader"}
    ]
    mine = session.execute("SHOW GRANTS TO 'team'").rows
    assert mine is not None
    assert mine.column("scope").to_pylist() == ["shop"]
    assert session.execute("REVOKE ALL ON orders FROM 'ann'").message == "ann has no grant on shop.orders any more."
    with pytest.raises(NotFound, match="ann has no grant"):
        session.execute("REVOKE ALL ON orders FROM 'ann'")
