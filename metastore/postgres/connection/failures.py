"""Translates errors of psycopg for callers."""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg import errors

from lakelog.errors import InternalError, LakelogError, OutcomeUnknown, Unavailable

from ...store.transaction import TransactionAborted

_ABORTED: Final = (errors.SerializationFailure, errors.DeadlockDetected)
"""40001 and 40P01: Postgres aborted this transaction, nothing of it happened."""

_TOO_LONG: Final = (errors.LockNotAvailable, errors.QueryCanceled)

_SHUTDOWN: Final = ("57P01", "57P02", "57P03", "57P05", "25P03", "25P04")
"""The server ends the connection: shutdown, crash, starting, idle or transaction time-outs."""


class ConnectionLost(TransactionAborted):
    """An established connection broke before the transaction was to commit; nothing happened."""

    default_reason = "CONNECTION_LOST"


def is_lost(error: psycopg.Error, connection: psycopg.AsyncConnection) -> bool:
    """Whether the connection is no longer usable."""
    if connection.closed or connection.broken:
        return True
    state = error.sqlstate
    return isinstance(error, psycopg.OperationalError) and (
        state is None or state in _SHUTDOWN or state.startswith("08")
    )


def translate(error: psycopg.Error, *, server: str, lost: bool, committing: bool) -> LakelogError:
    """The error to raise instead.

    Args:
        error: What psycopg raised.
        server: The database server, for messages; empty: it is not known.
        lost: Whether the connection is lost.
        committing: Whether COMMIT may have reached the server.
    """
    said = " ".join(str(error).split())
    if lost and committing:
        return OutcomeUnknown(
            "The connection to the database was lost while committing, so it is not known whether it took effect: "
            f"repeat the same request, and delete no file. ({said})"
        )
    if lost:
        return ConnectionLost(f"The connection to the database was lost; nothing happened. Try again. ({said})")
    if isinstance(error, _ABORTED):
        return TransactionAborted(f"The database gave this transaction up for another; nothing happened. ({said})")
    if isinstance(error, _TOO_LONG):
        return Unavailable(
            f"The database took too long, so the transaction was given up; nothing happened. Try again. ({said})",
            reason="DATABASE_SLOW",
        )
    if isinstance(error, errors.DiskFull):
        return Unavailable(
            f"The disk of the database server{server and f' {server}'} is full; nothing happened. Make room there; "
            f"reads go on meanwhile, and writes as soon as there is room. ({said})",
            reason="DATABASE_FULL",
        )
    if error.sqlstate is not None and error.sqlstate.startswith("53"):
        return Unavailable(
            f"The database server{server and f' {server}'} is out of resources; nothing happened. Give it more of what "
            f"is missing, or try again later. ({said})",
            reason="DATABASE_OVERLOADED",
        )
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return Unavailable(
            f"The database is read-only, as a standby is; nothing happened. Try again, on the primary. ({said})",
            reason="DATABASE_READ_ONLY",
        )
    return InternalError(f"The database refused a statement: {type(error).__name__} {error.sqlstate}: {said}")
