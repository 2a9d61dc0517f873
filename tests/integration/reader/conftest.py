"""Replicas of the reader service as processes of their own, beside the metastore of all tests."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakelog.embedded.services import is_serving
from lakelog.embedded.stack import EmbeddedStack
from lakelog.sdk.catalog import Catalog
from tests.support.replicas import Replica, end_replica, launch_replica

_numbers = itertools.count(1)


@pytest.fixture
def database(catalog: Catalog) -> str:
    name = f"reader{next(_numbers)}"
    catalog.create_database(name)
    return name


@pytest.fixture
def start_replica(stack: EmbeddedStack, tmp_path: Path) -> Iterator[Callable[..., Replica]]:
    """Starts a replica with more arguments; all end with the test."""
    started: list[Replica] = []

    def start(*arguments: str, listen: str = "127.0.0.1:0") -> Replica:
        replica = launch_replica(stack.target, tmp_path / f"reader-{len(started)}.log", arguments, listen)
        started.append(replica)
        assert "--tls-cert" in arguments or is_serving(replica.target)
        return replica

    yield start
    for replica in started:
        end_replica(replica)


@pytest.fixture(scope="session")
def shared_replica(stack: EmbeddedStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    """One that no test ends."""
    replica = launch_replica(stack.target, tmp_path_factory.mktemp("shared") / "reader.log", (), "127.0.0.1:0")
    yield replica
    end_replica(replica)
