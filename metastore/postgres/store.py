"""The store in Postgres.

Everything runs under READ COMMITTED with explicit locks: heads in table-id order, then writers, leases, jobs and
attempts.
Time is Postgres's own (`clock_timestamp()`, read while the heads are locked).
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager
from typing import Final, Literal

import psycopg
from prometheus_client import CollectorRegistry
from psycopg.abc import PQGen
from psycopg.pq.abc import PGconn
from psycopg.waiting import WAIT_R

from lakelog.errors import LakelogError

from ..heavy_work import HeavyWork
from ..store.transaction import Store, Transaction
from .catalog import PostgresCatalog
from .commits.baseline import PostgresBaselines
from .commits.changes import PostgresChanges
from .commits.commits import PostgresCommits
from .commits.restoring import PostgresRestoring
from .commits.snapshots import PostgresSnapshots
from .connection.connections import IDLE_S, ConnectionPool, connect
from .connection.failures import is_lost, translate
from .connection.session import Session
from .connection.silence import SILENCE_S, answered_within
from .consumers import PostgresConsumers
from .dropped import PostgresDropped
from .grants import PostgresGrants
from .jobs.deletion_vectors import PostgresDeletionVectors
from .jobs.due import PostgresDue
from .jobs.full_counts import PostgresFullCounts
from .jobs.jobs import PostgresJobs
from .jobs.listing import PostgresJobListing
from .jobs.runs import PostgresJobRuns
from .jobs.services import PostgresServices
from .jobs.work import PostgresWork
from .jobs.work_cursors import PostgresWorkCursors
from .logs import PostgresLogs
from .metrics import PoolMetrics
from .publishing import PostgresPublishing
from .retention import PostgresRetention
from .table_files import PostgresTableFiles
from .tags import PostgresTags
from .waiting_work import PostgresWaitingWork

log = logging.getLogger(__name__)

Durability = Literal["on", "off_may_lose_acknowledged_commits"]

CHANNEL: Final = "lakelog_heads"
_MAX_ANNOUNCED_CHARACTERS: Final = 7000
"""Names of one notification, with four characters between two: Postgres takes 8000 bytes, and names are ASCII."""

_LISTEN_TIMEOUT_S: Final = 30.0


class PostgresTransaction(
    PostgresCommits,
    PostgresChanges,
    PostgresSnapshots,
    PostgresWork,
    PostgresServices,
    PostgresJobs,
    PostgresJobListing,
    PostgresJobRuns,
    PostgresWorkCursors,
    PostgresConsumers,
    PostgresDue,
    PostgresTags,
    PostgresGrants,
    PostgresRestoring,
    PostgresDropped,
    PostgresRetention,
    PostgresTableFiles,
    PostgresCatalog,
    PostgresBaselines,
    PostgresFullCounts,
    PostgresDeletionVectors,
    PostgresLogs,
    PostgresPublishing,
    PostgresWaitingWork,
):
    """A transaction on one connection."""


class PostgresStore(Store):
    """Stores everything in Postgres; used by one event loop.

    Args:
        url: In libpq's form, `postgresql://...`.
        pool_size: Connections at most; one more listens for announcements.
        durability: `on`: an acknowledged commit is never lost. The other value loses the last half second of
            acknowledged commits when the database crashes, and logs a warning.
        work: Its threads convert large results and make large statements; by default the store makes its own.
        silence_s: After so many seconds without an answer it asks the database, on a new connection, whether it still
            works on the statement. If not, the connection has gone silent, and is given up.
        idle_s: The database ends a transaction that has sent nothing for so many seconds.
    """

    transaction_type: type[PostgresTransaction] = PostgresTransaction

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 16,
        durability: Durability = "on",
        work: HeavyWork | None = None,
        silence_s: float = SILENCE_S,
        idle_s: float = IDLE_S,
    ) -> None:
        self._work = work or HeavyWork()
        self._url = url
        self._durability = durability
        self._pool = ConnectionPool(url, pool_size, "on" if durability == "on" else "off", silence_s, idle_s)
        self._silence_s = silence_s
        self._name = uuid.uuid4().hex
        self._closing = asyncio.Event()

    def measure(self, registry: CollectorRegistry) -> None:
        """Adds what is measured about the connections to a registry."""
        PoolMetrics(registry, self._pool)

    async def check(self) -> None:
        """Checks at start that the database can be reached and commits durably, or warns that it need not.

        Raises:
            Unavailable: It cannot be reached.
            InvalidArgument: It does not commit durably, or the URL is not valid.
        """
        if self._durability != "on":
            log.warning("durability is relaxed: a crash of the database loses commits that were acknowledged")
        self._pool.release(await self._pool.acquire())

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """A new transaction; it commits at the end of the block.

        Raises:
            Unavailable: It is certain that nothing happened.
            OutcomeUnknown: The connection was lost while committing.
        """
        connection = await self._pool.acquire()
        session = Session(connection, self._work)
        usable = lost = False
        try:
            yield self.transaction_type(session)
            await session.commit()
            usable = True
        except psycopg.Error as error:
            lost = is_lost(error, connection)
            usable = not lost and await _rolled_back(session)
            raise translate(error, server=connection.server, lost=lost, committing=session.committing) from error
        except LakelogError:
            usable = await _rolled_back(session)
            raise
        finally:
            # Any other end of the block, a cancelled caller for instance, leaves a connection in an unknown state.
            if usable:
                self._pool.release(connection)
            else:
                self._pool.discard(connection, lost=lost)

    async def announce(self, table_uuids: Collection[str]) -> None:
        """Notifies other metastores that heads have moved.

        It uses its own transaction: inside the transaction of a commit, a notification would make all commits of the
        database wait for each other.
        """
        async with self.transaction() as transaction:
            assert isinstance(transaction, PostgresTransaction)
            for names in _split_by_size(table_uuids):
                await transaction.notify(CHANNEL, json.dumps([self._name, *names]))

    async def listen(self) -> AsyncGenerator[frozenset[str]]:
        """The announcements of other metastores, until closed; an empty set after each new connection."""
        while not self._closing.is_set():
            connection = await connect(self._url)
            # The answer to any statement can bring announcements, too.
            received: deque[psycopg.Notify] = deque()
            connection.add_notify_handler(received.append)
            try:
                await connection.execute(f"LISTEN {CHANNEL}")
                yield frozenset()
                while not self._closing.is_set():
                    await connection.wait(_receive(connection.pgconn), interval=_LISTEN_TIMEOUT_S)
                    if not received:
                        # Nothing was announced, or the connection has gone silent.
                        with answered_within(connection, self._silence_s):
                            await connection.execute("SELECT 1")
                    while received:
                        sender, *tables = json.loads(received.popleft().payload)
                        if sender != self._name:
                            yield frozenset(tables)
            except psycopg.Error as error:
                raise translate(error, server=connection.server, lost=True, committing=False) from error
            finally:
                connection.pgconn.finish()

    async def close(self) -> None:
        self._closing.set()
        await self._pool.close()


def _split_by_size(names: Collection[str]) -> Iterator[list[str]]:
    """The names, some at a time; one with a caller in it is much longer than the uuid of a table."""
    part: list[str] = []
    size = 0
    for name in names:
        size += len(name) + 4
        if part and size > _MAX_ANNOUNCED_CHARACTERS:
            yield part
            part, size = [], len(name) + 4
        part.append(name)
    if part:
        yield part


def _receive(connection: PGconn) -> PQGen[None]:
    """Waits once for bytes of the server, for `wait` of a connection; its handler gets the notifications in them.

    The connection's own `notifies` wakes up ten times a second.
    """
    yield WAIT_R
    connection.consume_input()
    while (notification := connection.notifies()) is not None:
        if connection.notify_handler is not None:
            connection.notify_handler(notification)


async def _rolled_back(session: Session) -> bool:
    try:
        await session.roll_back()
    except psycopg.Error:
        return False
    return True
