"""The files below tables' locations: what refers to them, and attempts that will never be committed.

This module deletes no file. A caller that does first has an attempt aborted, or asks what refers to a file after it saw
that the attempt was over: a file without references then never gets any (`lakelog.format.retention.table_files`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakelog.errors import InvalidArgument
from lakelog.format.commit.facts import AttemptState
from lakelog.format.retention.partition_expiry import PartitionPage
from lakelog.format.retention.table_files import (
    ABANDONED_MS,
    MAX_FILES_A_CALL,
    SETTLED_MS,
    AttemptAge,
    FoundFiles,
    UsedPage,
    find_attempt,
)
from lakelog.format.tables.paths import is_path

from ..ownership import Principal
from ..store.transaction import StoreUser, Transaction, run_transaction
from ..store.validation import check_number, check_text, check_uuid, invalid
from .lookup import find_head

MAX_AGE_MS: Final = 100 * 365 * 86_400_000
"""A hundred years; times before those of the database's calendar could not be computed."""


class TableFiles(StoreUser):
    """The use cases of files and of attempts that are over."""

    async def find_used_files(self, table_uuid: str, paths: Sequence[str]) -> FoundFiles:
        check_uuid("table_uuid", table_uuid)
        _check_count("paths", len(paths))
        for path in paths:
            if not is_path(path):
                raise invalid("paths", path[:200], "Give paths relative to the table's location.")
        attempt_ids = sorted({attempt for path in paths if (attempt := find_attempt(path))})

        async def find(tx: Transaction) -> FoundFiles:
            head = await find_head(tx, table_uuid)
            # SUBTLE: in this order. An attempt that is over by now has put all its files into the table, or none.
            attempts = await tx.find_attempts(table_uuid, attempt_ids)
            files = await tx.find_used_files(head.table_id, paths)
            return FoundFiles(tuple(files), tuple(attempts))

        return await run_transaction(self._store, find)

    async def list_used_files(self, table_uuid: str, cursor: str = "", limit: int = MAX_FILES_A_CALL) -> UsedPage:
        check_uuid("table_uuid", table_uuid)
        check_text("cursor", cursor, 0, 100)
        _check_count("limit", limit)

        async def load(tx: Transaction) -> UsedPage:
            head = await find_head(tx, table_uuid)
            try:
                return await tx.list_used_files(head.table_id, cursor, limit)
            except ValueError as error:
                raise invalid(
                    "cursor", cursor, "Leave it out for the first page, then give that of the page."
                ) from error

        return await run_transaction(self._store, load)

    async def list_partition_files(
        self, table_uuid: str, after: bytes | None = None, limit: int = MAX_FILES_A_CALL
    ) -> PartitionPage:
        check_uuid("table_uuid", table_uuid)
        _check_count("limit", limit)

        async def load(tx: Transaction) -> PartitionPage:
            # The head first: later commits may be seen, and callers notice them by the snapshot.
            head = await find_head(tx, table_uuid)
            if not head.partitioned:
                raise InvalidArgument(
                    f"Table {head.name} has no partitions.",
                    reason="NO_PARTITIONS",
                    metadata={"table": head.name, "table_uuid": table_uuid},
                )
            now_ms = await tx.now_ms()
            found = await tx.list_partition_files(head.table_id, after, limit)
            return PartitionPage(tuple(found), head.latest_snapshot_id, now_ms, len(found) < limit)

        return await run_transaction(self._store, load)

    async def list_unfinished_attempts(
        self, table_uuid: str, *, open_ms: int, aborted_ms: int, limit: int = MAX_FILES_A_CALL
    ) -> list[AttemptAge]:
        check_uuid("table_uuid", table_uuid)
        check_number("open_ms", open_ms, 0, MAX_AGE_MS)
        check_number("aborted_ms", aborted_ms, 0, MAX_AGE_MS)
        _check_count("limit", limit)

        async def load(tx: Transaction) -> list[AttemptAge]:
            await find_head(tx, table_uuid)
            return await tx.list_unfinished_attempts(table_uuid, open_ms, aborted_ms, limit)

        return await run_transaction(self._store, load)

    async def abort_attempts(
        self, table_uuid: str, attempt_ids: Sequence[str], open_ms: int, *, by: Principal
    ) -> list[str]:
        check_uuid("table_uuid", table_uuid)
        _check_attempts(attempt_ids)
        check_number("open_ms", open_ms, 0, MAX_AGE_MS)
        others_ms = open_ms if by.may_all else max(open_ms, ABANDONED_MS)

        async def abort(tx: Transaction) -> list[str]:
            await find_head(tx, table_uuid)
            await tx.abort_old_attempts(table_uuid, attempt_ids, open_ms, others_ms, by.name)
            found = await tx.find_attempts(table_uuid, attempt_ids)
            return [each.attempt_id for each in found if each.state is AttemptState.ABORTED]

        return await run_transaction(self._store, abort)

    async def forget_attempts(self, table_uuid: str, attempt_ids: Sequence[str], *, by: Principal) -> int:
        check_uuid("table_uuid", table_uuid)
        _check_attempts(attempt_ids)
        others_ms = 0 if by.may_all else SETTLED_MS
        return await run_transaction(
            self._store, lambda tx: tx.forget_attempts(table_uuid, attempt_ids, others_ms, by.name)
        )


def _check_attempts(attempt_ids: Sequence[str]) -> None:
    _check_count("attempt_ids", len(attempt_ids))
    for attempt_id in attempt_ids:
        check_uuid("attempt_ids", attempt_id)


def _check_count(field: str, count: int) -> None:
    if not 1 <= count <= MAX_FILES_A_CALL:
        raise invalid(field, count, f"Give 1 to {MAX_FILES_A_CALL} at once.")
