"""Dropped tables: listed, restored, purged.

    live -- drop --> dropped -- after a while --> purged --> files deleted --> rows deleted --> not known any more
      ^                 |
      +---- restore ----+

Postgres marks a table as purged before its first file is deleted, under the lock that restoring takes: a table that can
be restored is complete. It does so only when the table was kept for as long as the drop promised, whatever makes the
job due earlier. Each later step is safe to repeat, and the next holder of the job begins with the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from lakelog.errors import AlreadyExists, InvalidArgument, LakelogError, NotFound
from lakelog.format.commit.attachment import check_holder, job_not_found
from lakelog.format.commit.guards import table_gone
from lakelog.format.jobs.job import CHANGELOG, CHANGELOG_PRIORITY, PURGE, DueJob, Job, JobState
from lakelog.format.retention.dropped import DroppedTable, RestoredTable, dropped_error, how_to_restore, show_time
from lakelog.format.tables.table import TableName

from ..logs.topic_life import rejoin_log
from ..ownership import Principal, check_job_owner
from ..store.dropped import DroppedRecord
from ..store.transaction import Store, Transaction, run_transaction
from ..store.validation import check_name, check_number, check_uuid

_ROWS_A_CALL: Final = 20_000
"""Rows that one transaction deletes: some tenths of a second, in which no one waits for their locks."""

_MAX_LISTED: Final = 10_000
"""Dropped tables in one answer: some megabytes."""


class DroppedTables:
    """The use cases of dropped tables.

    Args:
        store: Where everything is stored.
        restored: Called with the uuid of each restored table.
    """

    def __init__(self, store: Store, restored: Callable[[str], None]) -> None:
        self._store = store
        self._restored = restored

    async def list_dropped_tables(self, database: str = "") -> list[DroppedTable]:
        if database:
            check_name("database", database)
        return await run_transaction(self._store, lambda tx: tx.list_dropped(database, "", _MAX_LISTED))

    async def restore_table(
        self, name: TableName, *, table_uuid: str = "", new_name: TableName | None = None
    ) -> RestoredTable:
        _check_table_name("", name)
        if table_uuid:
            check_uuid("table_uuid", table_uuid)
        if new_name is not None:
            _check_table_name("new_", new_name)
        target = new_name or name

        async def restore(tx: Transaction) -> RestoredTable:
            if not await tx.lock_database(target.database):
                if target.database != name.database:
                    raise NotFound(
                        f"Database '{target.database}' does not exist. Create it first, or restore the table under "
                        "another name.",
                        reason="DATABASE_NOT_FOUND",
                        metadata={"database": target.database},
                    )
                # It was dropped with its tables. If nothing is restored, no one may want the database: then this is
                # undone.
                await tx.insert_database(target.database, "")
                await tx.lock_database(target.database)
            known = await tx.list_dropped(name.database, name.name, _MAX_LISTED)
            chosen = await _choose(tx, known, name, table_uuid)
            taken = await tx.find_table(target)
            if taken is not None:
                raise AlreadyExists(
                    f"Table '{target}' exists, so that the dropped one cannot have its name. Give it another one: "
                    f"lakelog table restore {name} --as {target}_restored (in Python as_name=).",
                    reason="TABLE_EXISTS",
                    metadata={"table": str(target), "table_uuid": taken.info.table_uuid},
                )
            await tx.restore_table(chosen.table_id, target)
            head = (await tx.lock_heads([chosen.table.table_uuid]))[chosen.table.table_uuid]
            if head.first_pending_snapshot:
                # Readers wait for it.
                await tx.request_jobs([DueJob(head.table_id, CHANGELOG, priority=CHANGELOG_PRIORITY)])
            # Its jobs were deleted with it.
            await tx.request_planning(head.table_id)
            restored = await tx.find_table(target)
            assert restored is not None, "its head is shown again"
            await rejoin_log(tx, restored.info)
            others = sum(not each.is_purged for each in known) - 1
            return RestoredTable(restored.info, chosen.table.dropped_at_ms, others)

        restored = await run_transaction(self._store, restore)
        self._restored(restored.table.table_uuid)
        return restored

    async def begin_purge(self, job_id: int, epoch: int, *, by: Principal) -> DroppedTable:

        async def begin(tx: Transaction) -> DroppedTable:
            found = await _lock_for_purge(tx, job_id, epoch, by)
            await _check_kept(tx, found.table)
            await tx.mark_purged(found.table_id)
            return found.table

        return await run_transaction(self._store, begin)

    async def purge_rows(self, job_id: int, epoch: int, *, by: Principal) -> int:

        async def purge(tx: Transaction) -> int:
            found = await _lock_for_purge(tx, job_id, epoch, by)
            await _check_kept(tx, found.table)
            if not found.table.is_purged:
                raise InvalidArgument(
                    f"Table {found.table.name} can still be restored. Begin its purge first.",
                    reason="PURGE_NOT_BEGUN",
                    metadata={"job_id": str(job_id)},
                )
            return await tx.delete_rows(found.table_id, _ROWS_A_CALL)

        return await run_transaction(self._store, purge)


async def end_purge(tx: Transaction, job: Job, epoch: int, by: Principal, *, work_left: bool) -> bool:
    """Ends a job of the kind `purge`, and forgets the table if its rows are gone; returns whether it is due again.

    Raises:
        NotFound: There is no such job.
        Fenced: Another holder has the job.
        PermissionDenied: Another principal holds it.
    """
    found = await _lock_for_purge(tx, job.job_id, epoch, by)
    if not work_left and found.table.is_purged and not await tx.delete_rows(found.table_id, 1):
        await tx.forget_table(found.table_id)
        return False
    await tx.put_job(replace(job, state=JobState.DUE, attempts=0, reason=""), 0)
    return True


async def explain_gone(tx: Transaction, table_uuid: str) -> NotFound:
    """The error for a table uuid that names no table; for a dropped table it says how to restore it."""
    dropped = await tx.find_dropped(table_uuid)
    return table_gone(table_uuid) if dropped is None else dropped_error(dropped)


async def explain(tx: Transaction, error: LakelogError) -> LakelogError:
    """The error that callers see: if a table is gone, with what is known of the drop."""
    if isinstance(error, NotFound) and error.reason == "TABLE_NOT_FOUND" and "table_uuid" in error.metadata:
        return await explain_gone(tx, error.metadata["table_uuid"])
    return error


async def describe_dropped(tx: Transaction, name: TableName) -> str:
    """A sentence on the table of a name that was dropped last, after a space; empty when there is none."""
    known = await tx.list_dropped(name.database, name.name, 1)
    if not known:
        return ""
    return f" One of this name was dropped at {show_time(known[0].dropped_at_ms)}. {how_to_restore(known[0])}"


async def _choose(tx: Transaction, known: list[DroppedTable], name: TableName, table_uuid: str) -> DroppedRecord:
    wanted = [each for each in known if each.table_uuid == table_uuid] if table_uuid else known
    # Purged tables come after all others: the newest of them shows that it is too late.
    for each in sorted(wanted, key=lambda dropped: dropped.is_purged):
        locked = await tx.lock_dropped(each.table_uuid)
        if locked is None:
            continue
        if not locked.table.is_purged:
            return locked
        raise NotFound(
            f"Table {name} ({each.table_uuid}) was dropped at {show_time(each.dropped_at_ms)}, and is kept no longer: "
            "its files are being deleted, so that it cannot be restored.",
            reason="TABLE_PURGED",
            metadata={"table": str(name), "table_uuid": each.table_uuid},
        )
    if known:
        listed = ", ".join(each.table_uuid for each in known[:3])
        raise NotFound(
            f"No dropped table {name} has the uuid {table_uuid}; there is {listed}"
            f"{f' and {len(known) - 3} more' if len(known) > 3 else ''}. See lakelog table list {name.database} "
            "--dropped.",
            reason="TABLE_NOT_FOUND",
            metadata={"table": str(name), "table_uuid": table_uuid},
        )
    raise NotFound(
        f"There is no dropped table '{name}' that could be restored: none of this name was dropped, or it is kept no "
        f"longer. lakelog table list {name.database} --dropped shows those there are.",
        reason="TABLE_NOT_FOUND",
        metadata={"table": str(name)},
    )


async def _lock_for_purge(tx: Transaction, job_id: int, epoch: int, by: Principal) -> DroppedRecord:
    check_number("job_id", job_id, 1)
    check_number("epoch", epoch, 1)
    found = await tx.find_job(job_id)
    dropped = None if found is None else await tx.lock_dropped(found.table_uuid)
    # Restoring the table removed the job.
    job = check_holder(await tx.lock_job(job_id), job_id, epoch)
    check_job_owner(job, by)
    if dropped is None:
        raise job_not_found(job_id)
    if job.kind != PURGE:
        raise InvalidArgument(
            f"Job {job_id} is of the kind '{job.kind}'; only one of the kind '{PURGE}' purges a table.",
            metadata={"job_id": str(job_id), "kind": job.kind},
        )
    assert job.state is JobState.LEASED, "its holder has been checked"
    return dropped


async def _check_kept(tx: Transaction, dropped: DroppedTable) -> None:
    """Refuses to purge a table whose time is not over, by the store's clock."""
    if await tx.now_ms() < dropped.kept_until_ms:
        raise InvalidArgument(
            f"Table {dropped.name} ({dropped.table_uuid}) is kept until {show_time(dropped.kept_until_ms)}, so that it "
            "can be restored. Purge it after that. For tables that are dropped later, lower "
            "--dropped-table-retention of the metastore.",
            reason="TABLE_KEPT",
            metadata={"table_uuid": dropped.table_uuid, "kept_until_ms": str(dropped.kept_until_ms)},
        )


def _check_table_name(prefix: str, name: TableName) -> None:
    check_name(f"{prefix}database", name.database)
    check_name(f"{prefix}table", name.name)
