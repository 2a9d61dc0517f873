"""Attempts, writers and their progress: what stands around a commit."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.clock import Ids
from lakelog.errors import CommitConflict, NotFound
from lakelog.format.commit import StagedAttempt, WriterProgress
from lakelog.format.commit_facts import Attempt, AttemptState
from lakelog.format.commit_rules import table_gone
from lakelog.format.table import TableInfo

from .limits import Limits
from .requests import check_table_uuids, check_uuid, check_writer
from .store import Store, Transaction, run_transaction


class Writers:
    """The use cases of writers around their commits."""

    def __init__(self, store: Store, ids: Ids, limits: Limits) -> None:
        self._store = store
        self._ids = ids
        self._limits = limits

    async def stage_attempt(self, table_uuids: Sequence[str], writer: str, *, attempt_id: str = "") -> StagedAttempt:
        """Opens an attempt, which is not idempotent: one that is never committed costs a clean-up.

        Args:
            table_uuids: The tables it will write to.
            writer: Who writes.
            attempt_id: An open attempt that the tables join instead, which is idempotent.

        Raises:
            NotFound: A table or the attempt does not exist.
            CommitConflict: The attempt has ended.
        """
        check_table_uuids("table_uuids", table_uuids, self._limits.max_commit_tables)
        check_writer(writer)
        if attempt_id:
            check_uuid("attempt_id", attempt_id)
        staged_id = attempt_id or self._ids.new_id()

        async def stage(tx: Transaction) -> tuple[TableInfo, ...]:
            tables = []
            for table_uuid in table_uuids:
                found = await tx.find_table_by_uuid(table_uuid)
                if found is None:
                    raise table_gone(table_uuid)
                tables.append(found.info)
            if attempt_id:
                await self._join(tx, attempt_id, table_uuids)
            else:
                await tx.insert_attempts([Attempt(staged_id, AttemptState.OPEN, tuple(table_uuids))], [writer])
            return tuple(tables)

        return StagedAttempt(staged_id, await run_transaction(self._store, stage))

    async def _join(self, tx: Transaction, attempt_id: str, table_uuids: Sequence[str]) -> None:
        attempt = await tx.lock_attempt(attempt_id)
        if attempt is None:
            raise _attempt_not_found(attempt_id)
        if attempt.state is not AttemptState.OPEN:
            raise CommitConflict(
                f"Attempt {attempt_id} is {attempt.state.value} and no table can join it. Open a new one and write the "
                "files again.",
                reason="ATTEMPT_NOT_OPEN",
                metadata={"attempt_id": attempt_id, "state": attempt.state.value, "retry": "replan"},
            )
        joined = tuple(dict.fromkeys((*attempt.table_uuids, *table_uuids)))
        check_table_uuids("table_uuids", joined, self._limits.max_commit_tables)
        await tx.set_attempt_tables(attempt_id, joined)

    async def abandon_attempt(self, attempt_id: str) -> None:
        """Gives up an open attempt for good. Idempotent.

        Raises:
            CommitConflict: It is committed: its files are in use.
            NotFound: There is none.
        """
        check_uuid("attempt_id", attempt_id)

        async def abandon(tx: Transaction) -> None:
            attempt = await tx.lock_attempt(attempt_id)
            if attempt is None:
                raise _attempt_not_found(attempt_id)
            if attempt.state is AttemptState.COMMITTED:
                raise CommitConflict(
                    f"Attempt {attempt_id} is committed, so its files are part of the table and must stay.",
                    reason="ATTEMPT_COMMITTED",
                    metadata={"attempt_id": attempt_id, "state": attempt.state.value, "retry": "never"},
                )
            if attempt.state is AttemptState.OPEN:
                await tx.set_attempt(attempt_id, AttemptState.DOOMED)

        await run_transaction(self._store, abandon)

    async def register_writer(self, writer: str) -> int:
        """Takes a writer's identity and returns its new epoch."""
        check_writer(writer)
        return await run_transaction(self._store, lambda tx: tx.raise_writer_epoch(writer))

    async def get_writer_progress(self, writer: str, table_uuid: str) -> WriterProgress:
        """What a writer has committed last to a table."""
        check_writer(writer)
        check_uuid("table_uuid", table_uuid)

        async def find(tx: Transaction) -> WriterProgress:
            head = (await tx.find_heads([table_uuid])).get(table_uuid)
            if head is None:
                raise table_gone(table_uuid)
            return await tx.find_progress(head.table_id, writer)

        return await run_transaction(self._store, find)


def _attempt_not_found(attempt_id: str) -> NotFound:
    return NotFound(
        f"Attempt {attempt_id} is not known: it was never opened here, or was cleaned up before. Delete no files on "
        "this answer.",
        reason="ATTEMPT_NOT_FOUND",
        metadata={"attempt_id": attempt_id},
    )
