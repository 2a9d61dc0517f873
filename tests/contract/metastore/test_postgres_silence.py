"""Connections to Postgres that go silent: bytes are acknowledged, and no answer comes, and none ever will."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.errors import OutcomeUnknown, Unavailable
from lakelog.testing.postgres_proxy import PostgresProxy
from lakelog.testing.proxy import TcpProxy
from metastore.postgres import store as store_module
from metastore.postgres.connection import connections
from metastore.postgres.connection.connections import libpq_url
from metastore.postgres.connection.failures import ConnectionLost
from metastore.postgres.connection.session import Session
from metastore.postgres.store import PostgresStore, PostgresTransaction

SILENCE_S = 0.3
WITHIN_S = 15.0
STUCK_S = 1.5
"""A control must still wait after this time; with the protection it is about one second."""

SILENCES: dict[str, Callable[[TcpProxy], None]] = {
    "requests lost": lambda proxy: proxy.silence("requests"),
    "answers lost": lambda proxy: proxy.silence("answers"),
    "both lost": lambda proxy: proxy.silence("requests", "answers"),
    "half open": lambda proxy: proxy.half_open(),
}


class Database:
    """A database of the test's own, directly and through a proxy."""

    def __init__(self, direct: str, proxy: TcpProxy, proxied: str) -> None:
        self.direct = direct
        self.proxy = proxy
        self.url = proxied

    def backends(self) -> int:
        """How many processes of the server work for the metastore."""
        with psycopg.connect(self.direct) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lakelog-metastore' "
                "AND datname = current_database()"
            ).fetchone()
        assert row is not None
        return int(row[0])


@pytest.fixture
def database(postgres_server: EmbeddedPostgres, postgres_url: str) -> Iterator[Database]:
    name = urlsplit(postgres_url).path.strip("/")
    tcp = postgres_server.url(over_tcp=True)
    with PostgresProxy(int(tcp.rpartition(":")[2].partition("/")[0])) as proxy:
        proxied = f"{tcp.rpartition(':')[0]}:{proxy.port}/{name}"
        yield Database(libpq_url(postgres_url), proxy, libpq_url(proxied))


def run(url: str, work: Callable[[PostgresStore], Coroutine[Any, Any, Any]], *, silence_s: float = SILENCE_S) -> Any:
    async def with_store() -> Any:
        store = PostgresStore(url, pool_size=4, silence_s=silence_s)
        try:
            return await asyncio.wait_for(work(store), WITHIN_S)
        finally:
            await store.close()

    return asyncio.run(with_store())


async def select(store: PostgresStore, sql: str = "SELECT 1") -> Any:
    async with store.transaction() as transaction:
        return (await session_of(transaction).read(sql))[0][0]


def session_of(transaction: Any) -> Session:
    assert isinstance(transaction, PostgresTransaction)
    return transaction._session


@pytest.mark.parametrize("silence", SILENCES)
def test_a_silent_connection_is_lost_and_the_next_one_works(database: Database, silence: str) -> None:
    async def work(store: PostgresStore) -> None:
        await select(store)
        SILENCES[silence](database.proxy)
        with pytest.raises(ConnectionLost):
            await select(store)
        assert await select(store) == 1

    run(database.url, work)
    assert database.proxy.swallowed, "the fault did not take effect"
    # The server ends them a moment after their connections.
    give_up_s = time.monotonic() + WITHIN_S
    while database.backends() and time.monotonic() < give_up_s:
        time.sleep(0.05)
    assert database.backends() == 0


def test_control_without_questions_a_silent_connection_is_waited_for(database: Database) -> None:
    async def work(store: PostgresStore) -> None:
        await select(store)
        database.proxy.silence("answers")
        waiting = asyncio.ensure_future(select(store))
        done, _ = await asyncio.wait({waiting}, timeout=STUCK_S)
        assert not done
        database.proxy.heal()
        with pytest.raises(ConnectionLost):
            await waiting

    run(database.url, work, silence_s=1e6)


@pytest.mark.parametrize("direction", ["requests", "answers"])
def test_a_commit_into_silence_is_unknown_and_leaves_no_lock(database: Database, direction: Any) -> None:
    """Where COMMIT itself is lost, Postgres would keep the locks until it ends the idle transaction."""
    with psycopg.connect(database.direct) as connection:
        connection.execute("CREATE TABLE head (id int)")

    async def work(store: PostgresStore) -> None:
        with pytest.raises(OutcomeUnknown):
            await commit_into_silence(store, database, direction)
        with psycopg.connect(database.direct, options="-c lock_timeout=2s") as connection:
            connection.execute("LOCK TABLE head IN EXCLUSIVE MODE NOWAIT")
            row = connection.execute("SELECT count(*) FROM head").fetchone()
        assert row == (0 if direction == "requests" else 1,)

    run(database.url, work)


async def commit_into_silence(store: PostgresStore, database: Database, direction: Any) -> None:
    async with store.transaction() as transaction:
        await session_of(transaction).write("LOCK TABLE head IN EXCLUSIVE MODE")
        await session_of(transaction).write("INSERT INTO head VALUES (1)")
        database.proxy.silence(direction)


def test_control_a_connection_that_is_only_given_up_keeps_its_locks(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the question did not end the server's process; the end of a connection is lost like all else."""
    question = "SELECT state FROM pg_stat_activity WHERE pid = %s AND backend_start::text = %s"
    monkeypatch.setattr("metastore.postgres.connection.silence._ASKED", question)
    monkeypatch.setattr(database.proxy, "_end", lambda *_: None)
    with psycopg.connect(database.direct) as connection:
        connection.execute("CREATE TABLE head (id int)")

    async def work(store: PostgresStore) -> None:
        with pytest.raises(OutcomeUnknown):
            await commit_into_silence(store, database, "requests")
        with psycopg.connect(database.direct) as connection, pytest.raises(psycopg.errors.LockNotAvailable):
            connection.execute("LOCK TABLE head IN EXCLUSIVE MODE NOWAIT")

    run(database.url, work)


def test_a_long_statement_is_waited_for(database: Database) -> None:
    asked = Counted(connections)

    async def work(store: PostgresStore) -> None:
        assert await select(store, f"SELECT 7 FROM pg_sleep({4 * SILENCE_S})") == 7
        # The connection is the same, and healthy.
        assert await select(store) == 1

    with asked as questions:
        run(database.url, work)
    assert questions, "nothing was asked"


class Counted:
    """Counts questions for the length of a block."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._ask: Callable[..., Awaitable[Any]] = module.ask

    def __enter__(self) -> list[Any]:
        answers: list[Any] = []

        async def ask(*given: Any) -> Any:
            answers.append(await self._ask(*given))
            return answers[-1]

        self._module.ask = ask
        return answers

    def __exit__(self, *_: object) -> None:
        self._module.ask = self._ask


def test_control_without_the_answer_a_long_statement_would_be_given_up(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: Any) -> None:
        return None

    monkeypatch.setattr(connections, "ask", nothing)

    async def work(store: PostgresStore) -> None:
        with pytest.raises(ConnectionLost):
            await select(store, "SELECT 7 FROM pg_sleep(5)")

    run(database.url, work)


def test_a_database_that_is_wholly_silent_is_unavailable(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_CONNECT_S", 0.3)
    monkeypatch.setattr("metastore.postgres.connection.silence._QUESTIONS", 1)
    monkeypatch.setitem(connections._CONNECT, "connect_timeout", 2)

    async def work(store: PostgresStore) -> None:
        await select(store)
        database.proxy.black_hole()
        for _ in range(2):
            with pytest.raises((ConnectionLost, Unavailable)):
                await select(store)
        database.proxy.heal()
        assert await select(store) == 1

    run(database.url, work)


def test_silence_while_listening_is_noticed(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_LISTEN_TIMEOUT_S", 0.2)

    async def work(store: PostgresStore) -> None:
        announcements = store.listen()
        assert await anext(announcements) == frozenset()
        began_s = time.monotonic()
        database.proxy.silence("answers")
        # Who watches opens another connection after any error.
        with pytest.raises((ConnectionLost, Unavailable)):
            await anext(announcements)
        assert time.monotonic() - began_s < WITHIN_S
        await announcements.aclose()

    run(database.url, work)
