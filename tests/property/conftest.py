from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from lakelog.testing.postgres_proxy import PostgresProxy
from metastore.postgres import PostgresStore, migrate
from metastore.store.transaction import Store
from metastore.testing import in_process
from metastore.use_cases import UseCases


@pytest.fixture(scope="module")
def database(postgres_server: EmbeddedPostgres) -> Iterator[PostgresProxy]:
    """A way to Postgres that can be cut."""
    port = int(postgres_server.url(over_tcp=True).rpartition(":")[2].partition("/")[0])
    with PostgresProxy(port) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def catalog(
    postgres_server: EmbeddedPostgres, database: PostgresProxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Catalog]:
    """The SDK over a metastore in this process, over that way, and local files."""
    direct = postgres_server.url(over_tcp=True)
    url = f"{direct.rpartition(':')[0]}:{database.port}/postgres".replace("+psycopg", "")
    migrate(direct)
    warehouse = tmp_path_factory.mktemp("warehouse")

    async def open_store() -> Store:
        return PostgresStore(url, pool_size=4)

    metastore = in_process(open_store, lambda store: make_use_cases(store, warehouse))
    with Catalog(metastore, LocationStores()) as catalog:
        catalog.create_database("prop", if_not_exists=True)
        yield catalog
        database.heal()


def make_use_cases(store: Store, warehouse: Path) -> UseCases:
    return UseCases(store, warehouse.as_uri())
