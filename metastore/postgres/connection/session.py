"""One transaction's statements: when BEGIN is sent, what shares a round trip, when COMMIT may have arrived."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGresult

from ...heavy_work import HeavyWork, WorkThreads
from .connections import Connection
from .round_trip import Row, Statement, execute_all, load_parts, load_rows

__all__ = ["InSession", "Row", "Session", "Statement"]

T = TypeVar("T")

# Preparing these gains nothing.
_BEGIN: Final = Statement("BEGIN", prepare=False)
_COMMIT: Final = Statement("COMMIT", prepare=False)
_ROLLBACK: Final = Statement("ROLLBACK", prepare=False)


class Session:
    """A connection while a transaction uses it.

    Reads before the first lock or write need no BEGIN: under READ COMMITTED each statement sees its own state anyway.
    Statements that were put off are sent together with COMMIT.

    Args:
        connection: Used only by this session.
        work: Its threads convert large results and make large statements.
    """

    def __init__(self, connection: Connection, work: HeavyWork) -> None:
        self._connection = connection
        self.work = work
        self._begun = False
        self._put_off: list[Statement] = []
        self.committing = False

    async def read(self, sql: str, parameters: Sequence[Any] = (), *, binary: bool = False) -> list[Row]:
        """The rows of a query that locks nothing."""
        if not binary:
            return (await self._execute([Statement(sql, parameters)], self.work.rows))[0]
        return await load_rows(self._connection, await self._read_binary(sql, parameters), self.work.rows)

    async def read_parts(self, sql: str, parameters: Sequence[Any], convert: Callable[[list[Row]], T]) -> list[T]:
        """The rows of a query that locks nothing, converted slice by slice: see `load_parts`."""
        result = await self._read_binary(sql, parameters)
        return await load_parts(self._connection, result, self.work.rows, convert)

    async def _read_binary(self, sql: str, parameters: Sequence[Any]) -> PGresult:
        cursor = self._connection.cursor(binary=True)
        with self._connection.watched():
            await cursor.execute(sql, parameters)
        assert cursor.pgresult is not None, "the statement was executed"
        return cursor.pgresult

    async def read_one(self, sql: str, parameters: Sequence[Any] = ()) -> Row | None:
        """The only row of a query that locks nothing, or None."""
        rows = await self.read(sql, parameters)
        return rows[0] if rows else None

    async def find(self, sql: str, parameters: Sequence[Any], convert: Callable[[Row], T]) -> T | None:
        """The only row of a query that locks nothing, converted, or None."""
        row = await self.read_one(sql, parameters)
        return None if row is None else convert(row)

    async def write(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Executes a statement that locks or changes something, and returns its rows."""
        return (await self.write_all([Statement(sql, parameters)]))[0]

    async def write_all(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Executes statements in one round trip, and returns the rows of each."""
        # Other sessions may wait for its locks, so its results do not wait for results of readers.
        if not self._begun:
            self._begun = True
            return (await self._execute([_BEGIN, *statements], self.work.commits))[1:]
        return await self._execute(statements, self.work.commits)

    def put_off(self, statements: Sequence[Statement]) -> None:
        """Has statements executed together with COMMIT; none may follow them."""
        self._put_off += statements

    async def commit(self) -> None:
        """Makes everything durable."""
        if not self._begun and not self._put_off:
            return
        self.committing = True
        begin = [] if self._begun else [_BEGIN]
        await self._execute([*begin, *self._put_off, _COMMIT], self.work.commits)

    async def roll_back(self) -> None:
        """Rolls everything back; the connection must be usable."""
        if self._connection.pgconn.transaction_status != TransactionStatus.IDLE:
            # SUBTLE: not with psycopg, which deallocates all prepared statements of the connection after a ROLLBACK.
            await self._execute([_ROLLBACK], self.work.commits)

    async def _execute(self, statements: Sequence[Statement], threads: WorkThreads) -> list[list[Row]]:
        with self._connection.watched():
            return await execute_all(self._connection, self._connection.prepared, statements, threads)


class InSession:
    """A part of a transaction: all of its parts use one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
