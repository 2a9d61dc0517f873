"""Statements in one round trip: all are queued in libpq, sent at once, and their results fetched together.

psycopg's own pipeline sends each statement separately and polls the socket in between, which took a third of the
metastore's time for a commit (bench W9). The protocol is the same; only the loop around libpq is different.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, TypeVar

import psycopg
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.generators import fetch_many, send
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from ...heavy_work import SLICE, WorkThreads, slices

Row = tuple[Any, ...]
T = TypeVar("T")

_TEXT: Final = 0
_BINARY: Final = 1


@dataclass(frozen=True)
class Statement:
    """A statement with its parameters.

    Args:
        sql: With `%s` for each parameter. The statement must make its type clear: a parameter whose type Postgres
            cannot infer is cast.
        parameters: Texts, numbers, bytes or None.
        prepare: Whether to prepare it once for each connection.
    """

    sql: str
    parameters: Sequence[str | int | bytes | None] = ()
    prepare: bool = True


async def execute_all(
    connection: psycopg.AsyncConnection[Any],
    prepared: set[bytes],
    statements: Sequence[Statement],
    threads: WorkThreads,
) -> list[list[Row]]:
    """Executes statements in one round trip, and returns the rows of each.

    Args:
        connection: Used only by this caller. If the caller is cancelled here, the connection is no longer usable.
        prepared: Names of the statements that are prepared on this connection; updated.
        statements: In their order; none is executed after one that fails.
        threads: Where large results are converted.

    Raises:
        psycopg.Error: The first failure.
    """
    results = await connection.wait(_communicate(connection.pgconn, prepared, statements))
    rows = []
    for result in results:
        # Most have few rows: this is called several times for each commit.
        is_light = result.ntuples <= threads.light
        rows.append(_convert(connection, result) if is_light else await load_rows(connection, result, threads))
    return rows


async def load_rows(connection: psycopg.AsyncConnection[Any], result: PGresult, threads: WorkThreads) -> list[Row]:
    """The rows of a result; many are converted beside the event loop.

    Args:
        connection: Knows how values are converted; it is not used otherwise.
        result: Of a query or another statement.
        threads: Where large results are converted.
    """
    return await threads.run(result.ntuples, _convert, connection, result)


async def load_parts(
    connection: psycopg.AsyncConnection[Any], result: PGresult, threads: WorkThreads, convert: Callable[[list[Row]], T]
) -> list[T]:
    """The rows of a result, converted slice by slice: only the rows of one slice are objects at a time.

    Args:
        connection: As for `load_rows`.
        result: As for `load_rows`.
        threads: As for `load_rows`.
        convert: Makes something smaller of at most `SLICE` rows; it is called beside the event loop if there are many.
    """
    return await threads.run(result.ntuples, _convert_parts, connection, result, convert)


def _communicate(
    pgconn: PGconn, prepared: set[bytes], statements: Sequence[Statement]
) -> Generator[Any, Any, list[PGresult]]:
    pgconn.enter_pipeline_mode()
    sent: list[bytes | None] = []
    for statement in statements:
        _queue(pgconn, prepared, statement, sent)
    pgconn.pipeline_sync()
    yield from send(pgconn)
    results: list[PGresult] = []
    failure: psycopg.Error | None = None
    for preparation in sent:
        result = (yield from fetch_many(pgconn))[-1]
        if result.status in (ExecStatus.FATAL_ERROR, ExecStatus.PIPELINE_ABORTED):
            # Results after the first failure only say that the statement was skipped.
            failure = failure or error_from_result(result)
        elif preparation is None:
            results.append(result)
        else:
            prepared.add(preparation)
    # The answer to the sync.
    yield from fetch_many(pgconn)
    pgconn.exit_pipeline_mode()
    if failure is not None:
        raise failure
    return results


def _queue(pgconn: PGconn, prepared: set[bytes], statement: Statement, sent: list[bytes | None]) -> None:
    """Queues a statement, with its preparation if it has none yet; notes in `sent` which results to expect."""
    sql, name = _named(statement.sql)
    values = [_dump(value) for value in statement.parameters]
    formats = [_BINARY if isinstance(value, bytes) else _TEXT for value in statement.parameters]
    if not statement.prepare:
        pgconn.send_query_params(sql, values, param_formats=formats)
    else:
        if name not in prepared and name not in sent:
            pgconn.send_prepare(name, sql)
            sent.append(name)
        pgconn.send_query_prepared(name, values, param_formats=formats)
    sent.append(None)


@lru_cache(maxsize=1000)
def _named(sql: str) -> tuple[bytes, bytes]:
    """A statement in libpq's form, with its parameters numbered, and the name under which it is prepared."""
    first, *rest = sql.split("%s")
    numbered = first + "".join(f"${number}{part}" for number, part in enumerate(rest, start=1))
    return numbered.encode(), blake2b(sql.encode(), digest_size=8).hexdigest().encode()


def _dump(value: str | int | bytes | None) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return str(value).encode()


def _convert_parts(
    connection: psycopg.AsyncConnection[Any], result: PGresult, convert: Callable[[list[Row]], T]
) -> list[T]:
    transformer = Transformer(connection)
    transformer.set_pgresult(result)
    return [convert(transformer.load_rows(start, stop, tuple)) for start, stop in slices(result.ntuples)]


def _convert(connection: psycopg.AsyncConnection[Any], result: PGresult) -> list[Row]:
    if result.status != ExecStatus.TUPLES_OK:
        return []
    transformer = Transformer(connection)
    transformer.set_pgresult(result)
    if result.ntuples <= SLICE:
        return transformer.load_rows(0, result.ntuples, tuple)
    rows: list[Row] = []
    for start, stop in slices(result.ntuples):
        rows += transformer.load_rows(start, stop, tuple)
    return rows
