"""Opening attempts: those that are asked for while others are being opened share the next transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from lakelog.clock import Ids
from lakelog.errors import InternalError, LakelogError, ResourceExhausted
from lakelog.format.commit_facts import Attempt, AttemptState
from lakelog.format.commit_rules import table_gone

from .limits import Limits
from .requests import check_table_uuids, check_writer
from .store import Store, Transaction, run_transaction

_MAX_SHARED: Final = 256
"""Attempts of one transaction; beyond this sharing saves nothing more."""


@dataclass(eq=False)
class _Waiting:
    attempt: Attempt
    writer: str
    opened: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Staging:
    """Opens attempts.

    Args:
        store: Where everything is kept.
        ids: Names of attempts.
        limits: How many may wait, and of how many tables one may be.
    """

    def __init__(self, store: Store, ids: Ids, limits: Limits) -> None:
        self._store = store
        self._ids = ids
        self._limits = limits
        self._waiting: list[_Waiting] = []
        self._running: asyncio.Task[None] | None = None

    async def stage_attempt(self, table_uuids: Sequence[str], writer: str) -> str:
        """Opens an attempt and returns its id. Not idempotent; one that is never committed costs a clean-up.

        Raises:
            NotFound: A table does not exist.
            ResourceExhausted: Too many wait.
        """
        check_table_uuids("table_uuids", table_uuids, self._limits.max_commit_tables)
        check_writer(writer)
        if len(self._waiting) >= self._limits.max_waiting_commits:
            raise ResourceExhausted(
                f"{len(self._waiting)} attempts wait to be opened, which is the limit. Send less at once, and try "
                "again after a moment.",
                reason="TOO_MANY_ATTEMPTS",
                metadata={"limit": str(self._limits.max_waiting_commits)},
            )
        waiting = _Waiting(Attempt(self._ids.new_id(), AttemptState.OPEN, tuple(table_uuids)), writer)
        self._waiting.append(waiting)
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run(), name="staging")
        await waiting.opened
        return waiting.attempt.attempt_id

    async def _run(self) -> None:
        while self._waiting:
            shared, self._waiting = self._waiting[:_MAX_SHARED], self._waiting[_MAX_SHARED:]
            try:
                failures = await run_transaction(self._store, partial(_open, shared))
            except LakelogError as error:
                failures = [type(error)(error.message, reason=error.reason, metadata=error.metadata) for _ in shared]
            except Exception as error:
                message = f"Opening an attempt failed: {type(error).__name__}: {error}"
                failures = [InternalError(message) for _ in shared]
            for waiting, failure in zip(shared, failures, strict=True):
                if waiting.opened.done():
                    continue
                if failure is None:
                    waiting.opened.set_result(None)
                else:
                    waiting.opened.set_exception(failure)


async def _open(shared: Sequence[_Waiting], tx: Transaction) -> list[LakelogError | None]:
    """Opens those whose tables exist; the failures of the others, at their places."""
    heads = await tx.find_heads(list({table for waiting in shared for table in waiting.attempt.table_uuids}))
    failures: list[LakelogError | None] = []
    opened: list[_Waiting] = []
    for waiting in shared:
        missing = [table for table in waiting.attempt.table_uuids if table not in heads]
        failures.append(table_gone(missing[0]) if missing else None)
        if not missing:
            opened.append(waiting)
    if opened:
        await tx.insert_attempts([waiting.attempt for waiting in opened], [waiting.writer for waiting in opened])
    return failures
