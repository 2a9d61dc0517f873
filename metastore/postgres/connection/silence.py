"""Notices connections to the database that have gone silent: nothing is lost for TCP, but no answer will ever come.

A load balancer that forgot a connection, a tunnel whose far end is gone or a frozen server go on to acknowledge bytes,
so neither keepalives of TCP nor its time-outs notice them. A deadline alone cannot tell a silent connection from a long
statement. So after some seconds without an answer the metastore asks Postgres, on a new connection, whether it still
works on that statement.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import psycopg

from lakelog.errors import LakelogError

log = logging.getLogger(__name__)

SILENCE_S: Final = 10.0
_QUESTIONS: Final = 3
"""After so many questions without an answer, the database counts as away, and the connection as lost."""
_ASKED: Final = (
    # A backend that works on no statement has sent its answer, or has never received the statement. It can still hold
    # locks, and the end of its connection may not reach it either.
    "SELECT state, state <> 'active' AND pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE pid = %s AND backend_start::text = %s"
)
_LAST_CHANCE_S: Final = 0.5
"""An answer that was sent just before the question can still arrive within this time."""


def end_connection(connection: psycopg.AsyncConnection[Any]) -> None:
    """Ends a connection that another task uses: that task gets the error of a lost connection at once.

    Closing it, or cancelling the task, would not do: psycopg first tries to cancel the statement, for 10 s.
    """
    with contextlib.suppress(OSError, psycopg.Error), socket.socket(fileno=_duplicate(connection)) as end:
        end.shutdown(socket.SHUT_RDWR)


def _duplicate(connection: psycopg.AsyncConnection[Any]) -> int:
    return socket.dup(connection.pgconn.socket)


@contextlib.contextmanager
def answered_within(connection: psycopg.AsyncConnection[Any], seconds: float) -> Iterator[None]:
    """Ends the connection if the block takes longer; psycopg then raises `OperationalError` in the block."""
    timer = asyncio.get_running_loop().call_later(seconds, end_connection, connection)
    try:
        yield
    finally:
        timer.cancel()


class SilenceWatch:
    """Ends connections whose statements will not be answered.

    Args:
        ask: Executes a query on a new connection, within seconds, and returns its only row or None; raises
            `Unavailable` if there is no answer.
        silence_s: After so many seconds without an answer it asks, and again after as many.
    """

    def __init__(
        self, ask: Callable[[str, tuple[Any, ...]], Awaitable[tuple[Any, ...] | None]], silence_s: float
    ) -> None:
        self._ask = ask
        self._silence_s = silence_s

    @contextlib.contextmanager
    def watching(self, connection: psycopg.AsyncConnection[Any], backend: tuple[int, str]) -> Iterator[None]:
        """Watches a connection while the block waits for an answer on it.

        Args:
            connection: Used by the block.
            backend: The process id and the start of the server's process for it.
        """
        tasks: list[asyncio.Task[None]] = []
        loop = asyncio.get_running_loop()
        timer = loop.call_later(
            self._silence_s, lambda: tasks.append(loop.create_task(self._end_if_silent(connection, backend)))
        )
        try:
            yield
        finally:
            timer.cancel()
            for task in tasks:
                task.cancel()

    async def _end_if_silent(self, connection: psycopg.AsyncConnection[Any], backend: tuple[int, str]) -> None:
        unanswered = 0
        while unanswered < _QUESTIONS:
            try:
                found = await self._ask(_ASKED, backend)
            except LakelogError:
                unanswered += 1
            else:
                if found is None or found[0] != "active":
                    await asyncio.sleep(_LAST_CHANCE_S)
                    break
                unanswered = 0
            await asyncio.sleep(self._silence_s)
        log.warning(
            "a connection to the database has gone silent, and is given up",
            extra={"backend": backend[0], "unanswered_questions": unanswered},
        )
        end_connection(connection)
