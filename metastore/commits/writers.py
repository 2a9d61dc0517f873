"""Writers and their progress, and attempts that are given up: what belongs to a commit but is none."""

from __future__ import annotations

from lakelog.errors import CommitConflict
from lakelog.format.commit.facts import AttemptState
from lakelog.format.commit.request import WriterProgress

from ..ownership import Principal, check_attempt_owner, check_registrable, check_writer_owner, is_claimed
from ..store.transaction import StoreUser, Transaction, run_transaction
from ..store.validation import check_uuid, check_writer
from ..tables.lookup import find_head
from .staging import attempt_not_found


class Writers(StoreUser):
    """The use cases of writers around their commits."""

    async def abandon_attempt(self, attempt_id: str, *, by: Principal) -> None:
        check_uuid("attempt_id", attempt_id)

        async def abandon(tx: Transaction) -> None:
            attempt = await tx.lock_attempt(attempt_id)
            if attempt is None:
                raise attempt_not_found(attempt_id)
            check_attempt_owner(attempt, by)
            if attempt.state is AttemptState.COMMITTED:
                raise CommitConflict(
                    f"Attempt {attempt_id} is committed, so its files are part of the table and must stay.",
                    reason="ATTEMPT_COMMITTED",
                    metadata={"attempt_id": attempt_id, "state": attempt.state.value, "retry": "never"},
                )
            if attempt.state is AttemptState.OPEN:
                await tx.set_attempt(attempt_id, AttemptState.ABORTED)

        await run_transaction(self._store, abandon)

    async def register_writer(self, writer: str, *, by: Principal) -> int:
        check_writer(writer)
        check_registrable(writer)

        async def register(tx: Transaction) -> int:
            # This comes before it waits for the commits under the name, so that other callers cannot delay these.
            check_writer_owner(writer, await tx.find_writer_owners([writer]), by)
            epoch = await tx.raise_writer_epoch(writer)
            if is_claimed(writer, by, registers=True):
                check_writer_owner(writer, await tx.claim_writers({writer: by.name}), by)
            await tx.abort_fenced_attempts(writer, epoch)
            return epoch

        return await run_transaction(self._store, register)

    async def release_writer(self, writer: str) -> str:
        check_writer(writer)
        return await run_transaction(self._store, lambda tx: tx.release_writer(writer))

    async def get_writer_progress(self, writer: str, table_uuid: str) -> WriterProgress:
        check_writer(writer)
        check_uuid("table_uuid", table_uuid)

        async def find(tx: Transaction) -> WriterProgress:
            head = await find_head(tx, table_uuid)
            return await tx.find_progress(head.table_id, writer)

        return await run_transaction(self._store, find)
