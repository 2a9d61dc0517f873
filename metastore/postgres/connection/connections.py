"""A small pool of connections, each set up the same way.

It is our own because a group of commits needs no more than "the next free connection", callers in turn so that none
with many calls makes others wait, and must know exactly when a connection was lost. A lost connection means that the
server was away, so all idle ones are closed with it: the next caller gets a fresh connection instead of another dead
one.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection
from psycopg.pq.abc import PGconn
from psycopg.rows import AsyncRowFactory, tuple_row

from lakelog.errors import InvalidArgument, Unavailable
from lakelog.serving.edge.origin import origin
from lakelog.serving.edge.turns import FairTurns


class Connection(AsyncConnection[tuple[Any, ...]]):
    """A connection that remembers which statements are prepared on it."""

    def __init__(self, pgconn: PGconn, row_factory: AsyncRowFactory[Any] = tuple_row) -> None:
        super().__init__(pgconn, row_factory)
        self.prepared: set[bytes] = set()
        # Also of a connection that is lost.
        self.server = ":".join(part.decode() for part in (pgconn.host, pgconn.port) if part)


OLDEST_SERVER: Final = 16

_SETTINGS: Final = {
    # A connection that a stopped process has given up must not keep the heads it locked.
    "idle_in_transaction_session_timeout": "30s",
    "lock_timeout": "30s",
    "statement_timeout": "120s",
    # Every query here uses an index. Plans are made once, when tables may still be small: without these settings, a
    # sequential scan chosen then would become slower as the table grows.
    "enable_seqscan": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    # Starting parallel workers takes longer than these queries do.
    "max_parallel_workers_per_gather": "0",
    "default_transaction_isolation": "read committed",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
}

_CONNECT: Final[dict[str, Any]] = {
    "connect_timeout": 5,
    "application_name": "lakelog-metastore",
    # A server that vanished silently is noticed in about ten seconds.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}


def libpq_url(url: str) -> str:
    """A database's URL in the form of libpq; SQLAlchemy's form names the driver as well."""
    return re.sub(r"^postgresql\+psycopg(_async)?://", "postgresql://", url)


async def connect(url: str, *, synchronous_commit: str = "on") -> Connection:
    """Opens a connection: autocommit, so that BEGIN and COMMIT are sent where they are written.

    Raises:
        Unavailable: The database cannot be reached.
        InvalidArgument: The URL is not valid.
    """
    try:
        connection = await Connection.connect(libpq_url(url), autocommit=True, prepare_threshold=0, **_CONNECT)
    except psycopg.OperationalError as error:
        raise _unreachable(error) from error
    except psycopg.ProgrammingError as error:
        raise InvalidArgument(
            f"The database URL is not one: {error}. Give one like postgresql://user@host:5432/name.",
            metadata={"field": "database_url"},
        ) from error
    try:
        await _set_up(connection, synchronous_commit)
    except psycopg.OperationalError as error:
        connection.pgconn.finish()
        raise _unreachable(error) from error
    except BaseException:
        connection.pgconn.finish()
        raise
    return connection


async def _set_up(connection: Connection, synchronous_commit: str) -> None:
    _check_version(connection.info.server_version)
    connection.prepared_max = 500
    await connection.execute(f"SELECT {_assignments({**_SETTINGS, 'synchronous_commit': synchronous_commit})}")
    cursor = await connection.execute("SELECT current_setting('synchronous_commit'), current_setting('fsync')")
    _check_durable(await cursor.fetchone(), synchronous_commit)


def _check_version(number: int) -> None:
    """Checks the server's version, in libpq's numbers: 160003 is 16.3."""
    if number < OLDEST_SERVER * 10_000:
        raise InvalidArgument(
            f"The database server is PostgreSQL {number // 10_000}, and lakelog needs {OLDEST_SERVER} or newer. "
            "Upgrade it, or give another one (--database-url).",
            reason="DATABASE_TOO_OLD",
        )


def _assignments(settings: Mapping[str, str]) -> str:
    return ", ".join(f"set_config('{name}', '{value}', false)" for name, value in settings.items())


def _check_durable(found: Sequence[str] | None, wanted: str) -> None:
    """Checks the server's values of `synchronous_commit` and `fsync` (reliability C10)."""
    if found is None or found[0] != wanted:
        raise InvalidArgument(
            f"The database has synchronous_commit={found and found[0]!r} and does not let it be {wanted!r}, so "
            "that commits could be lost after they were acknowledged. Allow it, or ask for relaxed durability by name "
            "(--durability).",
            reason="NOT_DURABLE",
        )
    if wanted == "on" and found[1] != "on":
        raise InvalidArgument(
            "The database server runs with fsync=off, so that a crash of its machine loses commits that were "
            "acknowledged, or all it holds. Set fsync=on and restart it, or ask for relaxed durability by name "
            "(--durability).",
            reason="NOT_DURABLE",
        )


def _unreachable(error: psycopg.OperationalError) -> Unavailable:
    return Unavailable(
        f"The database cannot be reached; nothing happened. Try again. ({' '.join(str(error).split())})",
        reason="DATABASE_UNREACHABLE",
    )


class ConnectionPool:
    """Connections to one database.

    Args:
        url: In libpq's form.
        size: The largest number of connections.
        synchronous_commit: `on`, unless durability was relaxed by name.
    """

    def __init__(self, url: str, size: int, synchronous_commit: str) -> None:
        self._url = url
        self._synchronous_commit = synchronous_commit
        self._free = FairTurns(size)
        self._idle: deque[Connection] = deque()
        self._closed = False

    async def acquire(self) -> Connection:
        """Returns the next free connection, a new one if none is idle; callers are served in turn, each in its order.

        Raises:
            Unavailable: The database cannot be reached, or the pool is closed.
        """
        await self._free.acquire(origin.get())
        try:
            if self._closed:
                raise Unavailable("The metastore is shutting down.", reason="SHUTTING_DOWN")
            while self._idle:
                # The one used last: its caches are warm, and the others may rest.
                connection = self._idle.pop()
                if not connection.closed:
                    return connection
            return await connect(self._url, synchronous_commit=self._synchronous_commit)
        except BaseException:
            self._free.release()
            raise

    def release(self, connection: Connection) -> None:
        """Returns a connection that is not in a transaction to the pool."""
        if self._closed:
            connection.pgconn.finish()
        else:
            self._idle.append(connection)
        self._free.release()

    def discard(self, connection: Connection, *, lost: bool) -> None:
        """Removes a connection that is no longer usable; if it was lost, the idle ones are closed as well."""
        # SUBTLE: finish() ends it at once; close() of a connection in pipeline mode would wait for the server.
        given_up = [connection]
        if lost:
            given_up += self._idle
            self._idle.clear()
        for connection in given_up:
            connection.pgconn.finish()
        self._free.release()

    async def close(self) -> None:
        """Ends the idle connections now and the others when they come back; idempotent."""
        self._closed = True
        while self._idle:
            await self._idle.pop().close()
