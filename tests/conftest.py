"""What all tests may ask for: a real Postgres, and a fresh database in it."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from lakelog.embedded.postgres import EmbeddedPostgres

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[EmbeddedPostgres]:
    """One Postgres for the test run: it comes from the lock file, so a start that fails is a failure, never a skip."""
    # Not pytest's own folder: that keeps the data of the last runs, and a Postgres is 40 MB.
    with (
        tempfile.TemporaryDirectory(prefix="ll-", ignore_cleanup_errors=True) as folder,
        EmbeddedPostgres(Path(folder), port=0) as server,
    ):
        yield server


@pytest.fixture
def postgres_url(postgres_server: EmbeddedPostgres) -> Iterator[str]:
    """The address of an empty database of the test's own, in SQLAlchemy's form; about 30 ms to make."""
    name = f"test_{next(_numbers)}"
    with _administer(postgres_server) as connection:
        # template0 is never connected to, so copying it never waits for another test.
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
    yield postgres_server.url(name)
    if postgres_server.is_running:
        with _administer(postgres_server) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _administer(server: EmbeddedPostgres) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(server.url().replace("+psycopg", ""), autocommit=True)
