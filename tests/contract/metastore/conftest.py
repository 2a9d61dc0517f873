"""The implementations over which the contract runs: one factory each.

A further one is added to `FACTORIES`; a factory is a context manager that is given the request of the fixture and
yields an open metastore over a database of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import psycopg
import pytest
from psycopg import sql

from lakelog.client.grpc_metastore import GrpcMetastore
from lakelog.client.metastore import Metastore
from lakelog.clock import SystemClock
from lakelog.embedded.postgres import EmbeddedPostgres
from metastore.inprocess import InProcessMetastore
from metastore.memory import MemoryStore
from metastore.postgres import PostgresStore, migrate
from metastore.service import MetastoreService
from metastore.store import Store
from tests.contract.metastore.log_brokers import FakeBrokers
from tests.contract.metastore.serving import serving

WAREHOUSE = "file:///warehouse"

_numbers = itertools.count(1)


def make_service(store: Store) -> MetastoreService:
    return MetastoreService(store, WAREHOUSE, brokers=FakeBrokers().make())


def open_in_process(
    url: str,
    *,
    store_type: type[PostgresStore] = PostgresStore,
    pool_size: int = 16,
    make_service: Callable[[Store], MetastoreService] = make_service,
) -> InProcessMetastore:
    """A metastore in this process over a database that is migrated."""

    async def open_store() -> Store:
        store = store_type(url, pool_size=pool_size)
        await store.check()
        return store

    return InProcessMetastore(open_store, make_service)


@pytest.fixture(scope="session")
def migrated_template(postgres_server: EmbeddedPostgres) -> str:
    """The name of a database with all tables, to be copied: faster than migrating for each test."""
    name = "metastore_template"
    _administer(postgres_server, sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
    migrate(postgres_server.url(name))
    return name


@pytest.fixture
def migrated_url(postgres_server: EmbeddedPostgres, migrated_template: str) -> Iterator[str]:
    """The address of a migrated database of the test's own."""
    name = f"metastore_{next(_numbers)}"
    copy = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
    _administer(postgres_server, copy.format(sql.Identifier(name), sql.Identifier(migrated_template)))
    yield postgres_server.url(name)
    if postgres_server.is_running:
        _administer(postgres_server, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _administer(server: EmbeddedPostgres, statement: sql.Composed) -> None:
    with psycopg.connect(server.url().replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(statement)


@contextmanager
def open_memory(request: pytest.FixtureRequest) -> Iterator[Metastore]:
    async def open_store() -> Store:
        return MemoryStore(SystemClock())

    metastore = InProcessMetastore(open_store, make_service)
    try:
        yield metastore
    finally:
        metastore.close()


@contextmanager
def open_postgres(request: pytest.FixtureRequest) -> Iterator[Metastore]:
    metastore = open_in_process(request.getfixturevalue("migrated_url"))
    try:
        yield metastore
    finally:
        metastore.close()


@contextmanager
def open_grpc(request: pytest.FixtureRequest) -> Iterator[Metastore]:
    """A client over the wire to a server over Postgres: all of the product but its process."""
    url = request.getfixturevalue("postgres_url")
    migrate(url)
    with serving(url, make_service) as target:
        metastore = GrpcMetastore(target)
        try:
            yield metastore
        finally:
            metastore.close()


FACTORIES: dict[str, Callable[[pytest.FixtureRequest], AbstractContextManager[Metastore]]] = {
    "memory": open_memory,
    "postgres": open_postgres,
    "grpc": open_grpc,
}


@pytest.fixture(params=list(FACTORIES))
def metastore(request: pytest.FixtureRequest) -> Iterator[Metastore]:
    with FACTORIES[request.param](request) as opened:
        yield opened


@pytest.fixture
def brokers() -> FakeBrokers:
    return FakeBrokers()


@pytest.fixture(params=["memory", "postgres"])
def log_metastore(request: pytest.FixtureRequest, brokers: FakeBrokers) -> Iterator[InProcessMetastore]:
    def make_service(store: Store) -> MetastoreService:
        return MetastoreService(store, WAREHOUSE, brokers=brokers.make())

    async def open_store() -> Store:
        return MemoryStore(SystemClock())

    if request.param == "memory":
        opened = InProcessMetastore(open_store, make_service)
    else:
        opened = open_in_process(request.getfixturevalue("migrated_url"), make_service=make_service)
    try:
        # Tests alone say when its steps are done.
        opened.stop_background()
        opened.create_database("shop")
        yield opened
    finally:
        opened.close()
