"""Opening attempts: requests that come while others are being opened share the next transaction.

The first use of a writer's name makes its user the owner, and that waits for others who use it at this moment, perhaps
for a large commit. So such requests share transactions with those of their own principal only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from lakelog.clock import Ids
from lakelog.errors import (
    CommitConflict,
    InternalError,
    LakelogError,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
)
from lakelog.format.commit.facts import Attempt, AttemptState
from lakelog.format.commit.request import StagedAttempt
from lakelog.format.tables.table import TableInfo
from lakelog.serving.edge.origin import COMMITS, origin

from ..ownership import Principal, check_attempt_owner, check_writer_owner, is_checked, is_claimed
from ..store.limits import MAX_INT64, Limits
from ..store.transaction import Store, Transaction, run_transaction
from ..store.validation import check_number, check_table_uuids, check_uuid, check_writer, invalid
from ..tables.dropped import explain_gone

_MAX_SHARED: Final = 256
"""Callers that share one transaction; beyond this sharing saves nothing more."""

_NO_CLAIMS: Final = ""
"""Stands for no principal: the requests that wait for no one."""

_MAX_COUNT: Final = 16
"""Attempts of one call: more save hardly anything, and unused ones wait for the clean-up."""


@dataclass(eq=False)
class _Waiting:
    attempts: tuple[Attempt, ...]
    by: Principal
    opened: asyncio.Future[StagedAttempt] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def writer(self) -> str:
        """The writer's name under which it opens them."""
        return self.attempts[0].writer


class Staging:
    """Opens attempts.

    Args:
        store: Where everything is stored.
        ids: Generates the ids of attempts.
        limits: How many calls may wait, and how many tables one attempt may have.
    """

    def __init__(self, store: Store, ids: Ids, limits: Limits) -> None:
        self._store = store
        self._ids = ids
        self._limits = limits
        # By the principal that claims names, or `_NO_CLAIMS`. Each of these takes one connection at most.
        self._waiting: dict[str, list[_Waiting]] = {}
        self._running: dict[str, asyncio.Task[None]] = {}

    async def stage_attempt(
        self,
        table_uuids: Sequence[str],
        writer: str,
        *,
        attempt_id: str = "",
        count: int = 1,
        identifier: int | None = None,
        epoch: int = 0,
        by: Principal,
    ) -> StagedAttempt:
        check_table_uuids("table_uuids", table_uuids, self._limits.max_commit_tables)
        check_writer(writer)
        check_number("count", count, 1, _MAX_COUNT)
        check_number("epoch", epoch, 0)
        if identifier is not None:
            check_number("identifier", identifier, 0, MAX_INT64 - (count - 1))
        if attempt_id:
            check_uuid("attempt_id", attempt_id)
            if identifier is not None:
                raise invalid("identifier", identifier, "Say it when the attempt is opened.")
            if count > 1:
                raise invalid("count", count, "Leave it out where tables join an attempt that is open.")
            return await run_transaction(self._store, lambda tx: self._join(tx, attempt_id, table_uuids, by))
        waiting_count = sum(map(len, self._waiting.values()))
        if waiting_count >= self._limits.max_waiting_commits:
            raise ResourceExhausted(
                f"{waiting_count} attempts wait to be opened, which is the limit. Send less at once, and try "
                "again after a moment.",
                reason="TOO_MANY_ATTEMPTS",
                metadata={"limit": str(self._limits.max_waiting_commits)},
            )
        named = tuple(table_uuids)
        numbers = [None] * count if identifier is None else range(identifier, identifier + count)
        attempts = tuple(
            [
                Attempt(self._ids.new_id(), AttemptState.OPEN, named, writer, number, epoch, by.name)
                for number in numbers
            ]
        )
        waiting = _Waiting(attempts, by)
        self._add(_NO_CLAIMS, [waiting])
        return await waiting.opened

    def _add(self, claimant: str, added: Sequence[_Waiting]) -> None:
        self._waiting.setdefault(claimant, []).extend(added)
        if claimant not in self._running:
            self._running[claimant] = asyncio.create_task(self._run(claimant), name="staging")

    async def _join(self, tx: Transaction, attempt_id: str, table_uuids: Sequence[str], by: Principal) -> StagedAttempt:
        tables = await _find_tables(tx, table_uuids)
        missing = [table_uuid for table_uuid in table_uuids if table_uuid not in tables]
        if missing:
            raise await explain_gone(tx, missing[0])
        attempt = await tx.lock_attempt(attempt_id)
        if attempt is None:
            raise attempt_not_found(attempt_id)
        check_attempt_owner(attempt, by)
        if attempt.state is not AttemptState.OPEN and not await _is_answered(tx, attempt):
            raise CommitConflict(
                f"Attempt {attempt_id} is {attempt.state.value} and no table can join it. Open a new one and write the "
                "files again.",
                reason="ATTEMPT_NOT_OPEN",
                metadata={"attempt_id": attempt_id, "state": attempt.state.value, "retry": "replan"},
            )
        joined = tuple(dict.fromkeys((*attempt.table_uuids, *table_uuids)))
        check_table_uuids("table_uuids", joined, self._limits.max_commit_tables)
        await tx.set_attempt_tables(attempt_id, joined)
        return StagedAttempt(attempt_id, tuple(tables[table_uuid] for table_uuid in table_uuids))

    async def _run(self, claimant: str) -> None:
        origin.set(COMMITS)
        claims = claimant != _NO_CLAIMS
        try:
            while waiting := self._waiting.pop(claimant, []):
                shared, rest = waiting[:_MAX_SHARED], waiting[_MAX_SHARED:]
                if rest:
                    self._waiting[claimant] = rest
                self._answer(shared, await self._open_shared(shared, claims=claims))
        finally:
            del self._running[claimant]

    async def _open_shared(
        self, shared: Sequence[_Waiting], *, claims: bool
    ) -> Sequence[StagedAttempt | LakelogError | None]:
        try:
            return await run_transaction(self._store, partial(_open, shared, claims))
        except LakelogError as error:
            return [type(error)(error.message, reason=error.reason, metadata=error.metadata) for _ in shared]
        except Exception as error:
            message = f"Opening an attempt failed: {type(error).__name__}: {error}"
            return [InternalError(message) for _ in shared]

    def _answer(self, shared: Sequence[_Waiting], answers: Sequence[StagedAttempt | LakelogError | None]) -> None:
        for waiting, answer in zip(shared, answers, strict=True):
            if waiting.opened.done():
                continue
            if answer is None:
                self._add(waiting.by.name, [waiting])
            elif isinstance(answer, StagedAttempt):
                waiting.opened.set_result(answer)
            else:
                waiting.opened.set_exception(answer)


async def _open(shared: Sequence[_Waiting], claims: bool, tx: Transaction) -> list[StagedAttempt | LakelogError | None]:
    """Opens attempts for calls whose tables exist; returns each call's answer, at its place.

    None: the name has no owner yet. With `claims` its user becomes the owner.
    """
    tables = await _find_tables(tx, [table for waiting in shared for table in waiting.attempts[0].table_uuids])
    owners = await _find_owners(tx, shared)
    if claims:
        # Only with the effect: an attempt at a table that is gone claims nothing.
        opening = [each for each in shared if all(table in tables for table in each.attempts[0].table_uuids)]
        owners |= await _claim_names(tx, [each for each in opening if each.writer not in owners])
    answers: list[StagedAttempt | LakelogError | None] = []
    opened: list[_Waiting] = []
    for waiting in shared:
        first, *further = waiting.attempts
        named = first.table_uuids
        missing = [table for table in named if table not in tables]
        refused = _find_refusal(waiting, owners)
        if missing:
            answers.append(await explain_gone(tx, missing[0]))
        elif refused is not None:
            answers.append(refused)
        elif is_claimed(waiting.writer, waiting.by) and waiting.writer not in owners:
            answers.append(None)
        else:
            infos = tuple([tables[table] for table in named])
            answers.append(StagedAttempt(first.attempt_id, infos, tuple([attempt.attempt_id for attempt in further])))
            opened.append(waiting)
    if opened:
        await tx.insert_attempts([attempt for waiting in opened for attempt in waiting.attempts])
    return answers


async def _is_answered(tx: Transaction, attempt: Attempt) -> bool:
    """Whether an attempt was aborted because its commit is over: then the commit itself gives the result."""
    if attempt.state is not AttemptState.ABORTED or attempt.identifier is None:
        return False
    for table_uuid in attempt.table_uuids:
        found = await tx.find_sent_attempts(table_uuid, [attempt.attempt_id])
        if any(each.is_over for each in found.values()):
            return True
    return False


async def _find_owners(tx: Transaction, shared: Sequence[_Waiting]) -> dict[str, str]:
    """The owners of those names that have one."""
    checked = {waiting.writer: None for waiting in shared if is_checked(waiting.writer, waiting.by)}
    return await tx.find_writer_owners(list(checked)) if checked else {}


async def _claim_names(tx: Transaction, shared: Sequence[_Waiting]) -> dict[str, str]:
    """The owners of the names under which attempts are opened; a name without one belongs to its first user."""
    claims: dict[str, str] = {}
    for waiting in shared:
        if is_checked(waiting.writer, waiting.by):
            claims.setdefault(waiting.writer, waiting.by.name)
    return await tx.claim_writers(claims) if claims else {}


def _find_refusal(waiting: _Waiting, owners: Mapping[str, str]) -> PermissionDenied | None:
    try:
        if is_checked(waiting.writer, waiting.by):
            check_writer_owner(waiting.writer, owners, waiting.by)
    except PermissionDenied as error:
        return error
    return None


async def _find_tables(tx: Transaction, table_uuids: Sequence[str]) -> dict[str, TableInfo]:
    found = [await tx.find_table_by_uuid(table_uuid) for table_uuid in dict.fromkeys(table_uuids)]
    return {record.info.table_uuid: record.info for record in found if record is not None}


def attempt_not_found(attempt_id: str) -> NotFound:
    """The error for an unknown attempt id."""
    return NotFound(
        f"Attempt {attempt_id} is not known: it was never opened here, or was cleaned up before. Delete no files on "
        "this answer.",
        reason="ATTEMPT_NOT_FOUND",
        metadata={"attempt_id": attempt_id},
    )
