"""The implementations over which the contract runs: one factory each.

A further one is added to `FACTORIES`; a factory is a context manager that is given the request of the fixture and
yields an open metastore over a database of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import SystemClock
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import InProcessMetastore, in_process
from metastore.use_cases import UseCases
from tests.support.log.log_brokers import FakeBrokers
from tests.support.metastore.opening import (
    WAREHOUSE,
    make_brief_use_cases,
    make_use_cases,
    open_in_process,
    open_memory,
)
from tests.support.metastore.serving import serving


@contextmanager
def open_grpc(
    request: pytest.FixtureRequest, make_use_cases: Callable[[Store], UseCases] = make_use_cases
) -> Iterator[Metastore]:
    """A client over the wire to a server over Postgres: all of the product but its process."""
    with serving(request.getfixturevalue("migrated_url"), make_use_cases) as target:
        metastore = GrpcMetastore(target)
        try:
            yield metastore
        finally:
            metastore.close()


FACTORIES: dict[str, Callable[..., AbstractContextManager[Metastore]]] = {
    "memory": open_memory,
    "grpc": open_grpc,
}


@pytest.fixture(params=list(FACTORIES))
def metastore(request: pytest.FixtureRequest) -> Iterator[Metastore]:
    with FACTORIES[request.param](request) as opened:
        yield opened


@pytest.fixture(params=list(FACTORIES))
def brief_metastore(request: pytest.FixtureRequest) -> Iterator[Metastore]:
    """As `metastore`; dropped tables are kept for a millisecond."""
    with FACTORIES[request.param](request, make_brief_use_cases) as opened:
        yield opened


@pytest.fixture
def brokers() -> FakeBrokers:
    return FakeBrokers()


@pytest.fixture(params=["memory", "postgres"])
def log_metastore(request: pytest.FixtureRequest, brokers: FakeBrokers) -> Iterator[InProcessMetastore]:
    def make_use_cases(store: Store) -> UseCases:
        return UseCases(store, WAREHOUSE, brokers=brokers.make())

    async def open_store() -> Store:
        return MemoryStore(SystemClock())

    if request.param == "memory":
        opened = in_process(open_store, make_use_cases)
    else:
        opened = open_in_process(request.getfixturevalue("migrated_url"), make_use_cases=make_use_cases)
    try:
        # Tests alone say when its steps are done.
        opened.stop_background()
        opened.create_database("shop")
        yield opened
    finally:
        opened.close()
