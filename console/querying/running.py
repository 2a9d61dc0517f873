"""Runs a statement in a process of its own, which ends with it.

A statement of a person may take any time and any memory, and DuckDB allocates some of it where no limit of its own
counts. A thread cannot be ended, a process can: when the time is over it is killed, and what it held is free. The
processes are forked from one that has the libraries loaded, so a statement begins after some ten milliseconds.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Final

import pyarrow as pa

from lakelog.errors import InvalidArgument, LakelogError, ResourceExhausted, Unavailable
from lakelog.sdk.catalog import Catalog

from ..places import Places

AT_ONCE: Final = 3
"""Statements that run at once in one console; further ones are refused, and do not wait in threads of pages."""

START_S: Final = 30.0
"""The first statement waits until the libraries are loaded."""

_LOOK_S: Final = 0.2
"""Between two looks whether anybody still waits for the rows."""

_processes: Final = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([f"{__package__}.worker"])
_places: Final = Places(AT_ONCE)


@dataclass(frozen=True)
class QueryRows:
    """The rows of a statement.

    Args:
        rows: At most as many as the page shows.
        is_cut: There are more.
    """

    rows: pa.Table
    is_cut: bool


def run_statement(
    catalog: Catalog,
    text: str,
    database: str | None,
    *,
    caller: str,
    max_rows: int,
    seconds: float,
    left: threading.Event,
) -> QueryRows:
    """Runs a statement that `read_statement` lets through; blocks until it ends or is ended.

    Args:
        catalog: The caller's; a copy of it works in the process.
        text: The statement.
        database: The database of tables that are named without one; None: there is none.
        caller: Whose statement it is; empty where no one is identified.
        max_rows: At most so many rows are returned.
        seconds: So long it may take.
        left: Set when no one waits for the rows any more; then the statement is ended.

    Raises:
        ResourceExhausted: Too many statements run already, in all or of this caller.
        InvalidArgument: It took too long or too much memory, or no one waits for it.
        Unavailable: Its process did not start.
        LakelogError: An error of the statement.
    """
    if not _places.take(caller):
        raise ResourceExhausted(
            f"As many statements run here already as can for you and all others, of {AT_ONCE}: try again in a moment."
        )
    try:
        return _run(catalog, text, database, max_rows, seconds, left)
    finally:
        _places.give_back(caller)


def _run(
    catalog: Catalog, text: str, database: str | None, max_rows: int, seconds: float, left: threading.Event
) -> QueryRows:
    from .worker import work

    ours, theirs = _processes.Pipe(duplex=False)
    process = _processes.Process(target=work, args=(theirs, catalog, text, database, max_rows, seconds), daemon=True)
    with ours:
        try:
            process.start()
            theirs.close()
            _await_start(ours, left)
            if not _await_answer(ours, seconds, left):
                raise InvalidArgument(
                    f"The statement was ended after {seconds:g} s. Read less: a condition on the partition or the key "
                    "leaves out files; or run it by `lakelog sql`, which has no limit.",
                    reason="QUERY_TOO_LONG",
                )
            return _to_rows(ours.recv())
        except EOFError as error:
            raise InvalidArgument(
                "The statement took more memory than there is for one here. Read fewer rows or columns, or run it by "
                "`lakelog sql`.",
                reason="QUERY_TOO_LARGE",
            ) from error
        finally:
            if process.pid is not None:
                process.kill()
                process.join()


def _await_start(ours: Connection, left: threading.Event) -> None:
    try:
        if _await_answer(ours, START_S, left):
            ours.recv()
            return
    except EOFError:
        # The process from which it is forked was ended; the next statement starts another one.
        pass
    raise Unavailable("The process for the statement did not start: run it again.")


def _await_answer(ours: Connection, seconds: float, left: threading.Event) -> bool:
    """Whether there is an answer in time."""
    end_s = time.monotonic() + seconds
    while not ours.poll(_LOOK_S):
        if left.is_set():
            raise InvalidArgument("The statement was ended: its page was closed.", reason="PAGE_CLOSED")
        if time.monotonic() >= end_s:
            return False
    return True


def _to_rows(answer: Any) -> QueryRows:
    if isinstance(answer, LakelogError):
        raise answer
    data, is_cut = answer
    with pa.ipc.open_stream(data) as reader:
        return QueryRows(reader.read_all(), is_cut)
