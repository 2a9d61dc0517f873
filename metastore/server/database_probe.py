"""Checks whether the database answers, on a connection of its own: a busy pool is not a lost database."""

from __future__ import annotations

import asyncio
import contextlib

import psycopg

from lakelog.errors import InvalidArgument, Unavailable

from ..postgres.connection.silence import answered_within

_CONNECT_TIMEOUT_S = 3
_ANSWER_S = 1.5
"""Less than a check may take: psycopg would try for 10 s to cancel the query of a task that is cancelled."""


class DatabaseProbe:
    """Checks one database.

    Args:
        url: In libpq's form; never shown.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.AsyncConnection | None = None

    async def ping(self) -> None:
        """Checks once.

        Raises:
            Unavailable: No answer.
            InvalidArgument: libpq does not understand the URL.
        """
        connection, self._connection = self._connection, None
        try:
            if connection is None:
                connection = await psycopg.AsyncConnection.connect(
                    self._url,
                    autocommit=True,
                    connect_timeout=_CONNECT_TIMEOUT_S,
                    application_name="lakelog-metastore-health",
                )
            with answered_within(connection, _ANSWER_S):
                await connection.execute("SELECT 1")
        except psycopg.OperationalError as error:
            _finish(connection)
            raise Unavailable(" ".join(str(error).split()), reason="DATABASE_UNREACHABLE") from error
        except psycopg.ProgrammingError as error:
            raise InvalidArgument(f"the URL is none that libpq understands ({type(error).__name__}).") from error
        except BaseException:
            # Cancelled in the middle of an answer: the connection cannot be used again.
            _finish(connection)
            raise
        self._connection = connection

    async def pause(self, seconds: float) -> None:
        """Waits so long, or until the server has ended the connection of the last check."""
        if self._connection is None:
            await asyncio.sleep(seconds)
            return
        loop, socket = asyncio.get_running_loop(), self._connection.pgconn.socket
        has_ended = asyncio.Event()
        # A server sends almost nothing unasked but the end of the connection, and the next check learns what it was.
        loop.add_reader(socket, has_ended.set)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await has_ended.wait()
        finally:
            loop.remove_reader(socket)

    async def close(self) -> None:
        """Ends the connection; idempotent."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def _finish(connection: psycopg.AsyncConnection | None) -> None:
    if connection is not None:
        connection.pgconn.finish()
