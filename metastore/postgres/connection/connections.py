"""A small pool of connections, each set up the same way.

It is our own because a group of commits needs no more than "the next free connection", callers in turn so that none
with many calls makes others wait, and must know exactly when a connection was lost. A lost connection means that the
server was away, so all idle ones are closed with it: the next caller gets a fresh connection instead of another dead
one.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection
from psycopg.pq.abc import PGconn
from psycopg.rows import AsyncRowFactory, tuple_row

from lakelog.errors import InvalidArgument, Unavailable
from lakelog.serving.edge.fair_room import FairRoom
from lakelog.serving.edge.origin import origin

from .silence import SILENCE_S, SilenceWatch, answered_within


class Connection(AsyncConnection[tuple[Any, ...]]):
    """A connection that remembers which statements are prepared on it, and that can be watched."""

    def __init__(self, pgconn: PGconn, row_factory: AsyncRowFactory[Any] = tuple_row) -> None:
        super().__init__(pgconn, row_factory)
        self.prepared: set[bytes] = set()
        self.server = ":".join(part.decode() for part in (pgconn.host, pgconn.port) if part)
        """Its address, which is still known when the connection is lost."""
        self.backend = (0, "")
        """The process id and the start of the server's process for this connection."""
        self.silence: SilenceWatch | None = None
        """Ends the connection if it goes silent; None: nothing does."""

    @contextmanager
    def watched(self) -> Iterator[None]:
        """For the length of a block that waits for an answer: ends the connection if none will come."""
        if self.silence is None:
            yield
        else:
            with self.silence.watching(self, self.backend):
                yield


OLDEST_SERVER: Final = 16

IDLE_S: Final = 20.0
"""Less than other transactions wait for its locks."""

_SETTINGS: Final = {
    "lock_timeout": "30s",
    "statement_timeout": "120s",
    # A metastore that vanished silently is noticed by the server in about half a minute; without these, after hours.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "25000",
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

_CONNECT_S: Final = 5
"""For opening a connection, and again for setting it up or for a question."""

_CONNECT: Final[dict[str, Any]] = {
    "connect_timeout": _CONNECT_S,
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


async def connect(url: str, *, synchronous_commit: str = "on", idle_s: float = IDLE_S) -> Connection:
    """Opens a connection: autocommit, so that BEGIN and COMMIT are sent where they are written.

    Args:
        url: In libpq's form, or SQLAlchemy's.
        synchronous_commit: `on`, unless durability was relaxed by name.
        idle_s: The server ends a transaction that has sent nothing for so long. So a frozen process does not keep the
            heads that it has locked.

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
        with answered_within(connection, _CONNECT_S):
            await _set_up(connection, synchronous_commit, idle_s)
    except psycopg.OperationalError as error:
        connection.pgconn.finish()
        raise _unreachable(error) from error
    except BaseException:
        connection.pgconn.finish()
        raise
    return connection


async def _set_up(connection: Connection, synchronous_commit: str, idle_s: float) -> None:
    _check_version(connection.info.server_version)
    connection.prepared_max = 500
    idle = {"idle_in_transaction_session_timeout": f"{idle_s * 1000:.0f}"}
    settings = {**_SETTINGS, **idle, "synchronous_commit": synchronous_commit}
    await connection.execute(f"SELECT {_assignments(settings)}")
    cursor = await connection.execute(
        "SELECT current_setting('synchronous_commit'), current_setting('fsync'), pid, backend_start::text "
        "FROM pg_stat_get_activity(pg_backend_pid())"
    )
    found = await cursor.fetchone()
    _check_durable(found, synchronous_commit)
    if found is not None:
        connection.backend = (int(found[2]), str(found[3]))


async def ask(url: str, sql: str, parameters: Sequence[Any]) -> tuple[Any, ...] | None:
    """Executes a query on a connection of its own, and returns its only row, or None; takes 15 s at most.

    Raises:
        Unavailable: The database cannot be reached, or does not answer.
    """
    connection = await connect(url)
    try:
        with answered_within(connection, _CONNECT_S):
            return await (await connection.execute(sql, parameters)).fetchone()
    except psycopg.Error as error:
        raise Unavailable(" ".join(str(error).split()), reason="DATABASE_UNREACHABLE") from error
    finally:
        connection.pgconn.finish()


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
        silence_s: After so many seconds without an answer it is checked whether one will come.
        idle_s: See `connect`.
    """

    def __init__(
        self,
        url: str,
        size: int,
        synchronous_commit: str,
        silence_s: float = SILENCE_S,
        idle_s: float = IDLE_S,
    ) -> None:
        self._url = url
        self._idle_s = idle_s
        self._synchronous_commit = synchronous_commit
        self._silence = SilenceWatch(lambda sql, parameters: ask(url, sql, parameters), silence_s)
        self._room = FairRoom(size)
        self._idle: deque[Connection] = deque()
        self._closed = False
        self.lost_count = 0
        """How many connections were lost since the start."""

    @property
    def used_count(self) -> int:
        """How many connections are in use."""
        return self._room.used

    @property
    def idle_count(self) -> int:
        """How many connections wait for work."""
        return len(self._idle)

    @property
    def waiting_count(self) -> int:
        """How many callers wait for a connection."""
        return self._room.waiting_count

    async def acquire(self) -> Connection:
        """Returns the next free connection, a new one if none is idle; callers are served in turn, each in its order.

        Raises:
            Unavailable: The database cannot be reached, or the pool is closed.
        """
        await self._room.take(origin.get())
        try:
            if self._closed:
                raise Unavailable("The metastore is shutting down.", reason="SHUTTING_DOWN")
            while self._idle:
                # The one used last: its caches are warm, and the others may rest.
                connection = self._idle.pop()
                if not connection.closed:
                    return connection
            opened = await connect(self._url, synchronous_commit=self._synchronous_commit, idle_s=self._idle_s)
            opened.silence = self._silence
            return opened
        except BaseException:
            self._room.give_back()
            raise

    def release(self, connection: Connection) -> None:
        """Returns a connection that is not in a transaction to the pool."""
        if self._closed:
            connection.pgconn.finish()
        else:
            self._idle.append(connection)
        self._room.give_back()

    def discard(self, connection: Connection, *, lost: bool) -> None:
        """Removes a connection that is no longer usable; if it was lost, the idle ones are closed as well."""
        # SUBTLE: finish() ends it at once; close() of a connection in pipeline mode would wait for the server.
        given_up = [connection]
        if lost:
            self.lost_count += 1
            given_up += self._idle
            self._idle.clear()
        for connection in given_up:
            connection.pgconn.finish()
        self._room.give_back()

    async def close(self) -> None:
        """Ends the idle connections now and the others when they come back; idempotent."""
        self._closed = True
        while self._idle:
            await self._idle.pop().close()
