"""A table inside a transaction. Its writes become visible with the transaction.

`dev/aio_classes.py` writes this file from `lakelog.sdk.transaction`; change that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakelog.aio.wrapped import Wrapped
from lakelog.annotations import Condition, Parameters, Rows, SnapshotLike, Value
from lakelog.format.tables.table import TableInfo
from lakelog.sdk.transaction import TransactionTable as BlockingTransactionTable
from lakelog.writes.row_changes.clauses import Assignments, Clause, RowCounts


class TransactionTable(Wrapped[BlockingTransactionTable]):
    """A table inside a transaction. Its writes become visible with the transaction."""

    @property
    def info(self) -> TableInfo:
        """The table as it was when it joined the transaction."""
        return self._blocking.info

    async def append(self, data: Rows, *, fill_missing: bool = False) -> None:
        """Adds rows; see `lakelog.Table.append`."""
        await self._workers.change(lambda: self._blocking.append(data, fill_missing=fill_missing))

    async def upsert(self, data: Rows, *, fill_missing: bool = False) -> None:
        """Adds rows, or replaces rows of the same key; see `lakelog.Table.upsert`."""
        await self._workers.change(lambda: self._blocking.upsert(data, fill_missing=fill_missing))

    async def delete(self, keys: Rows, *, latest: bool = False) -> None:
        """Deletes the rows of some keys; see `lakelog.Table.delete`."""
        await self._workers.change(lambda: self._blocking.delete(keys, latest=latest))

    async def delete_where(self, filter: Condition, *, params: Parameters | None = None) -> int:
        """Deletes the rows that fulfil a condition; see `lakelog.Table.delete_where`."""
        return await self._workers.change(lambda: self._blocking.delete_where(filter, params=params))

    async def write(self, data: Rows, *, fill_missing: bool = False) -> None:
        """Writes rows of all kinds; see `lakelog.Table.write`."""
        await self._workers.change(lambda: self._blocking.write(data, fill_missing=fill_missing))

    async def update(
        self, set: Assignments, where: Condition | None = None, *, params: Parameters | None = None
    ) -> int:
        """Gives columns of some rows new values; see `lakelog.Table.update`."""
        return await self._workers.change(lambda: self._blocking.update(set, where, params=params))

    async def merge(
        self, source: Rows, on: str | Sequence[str], *clauses: Clause, params: Parameters | None = None
    ) -> RowCounts:
        """Compares the table's rows with others; see `lakelog.Table.merge`, and for conflicts `update`."""
        return await self._workers.change(lambda: self._blocking.merge(source, on, *clauses, params=params))

    async def overwrite(
        self, data: Rows, partition: Mapping[str, Value] | str | None = None, *, fill_missing: bool = False
    ) -> None:
        """Replaces the table, or partitions of it; see `lakelog.Table.overwrite`."""
        await self._workers.change(lambda: self._blocking.overwrite(data, partition, fill_missing=fill_missing))

    async def rollback_to(self, snapshot_id_or_tag: SnapshotLike) -> None:
        """Restores an earlier state of the table; see `lakelog.Table.rollback_to`."""
        await self._workers.change(lambda: self._blocking.rollback_to(snapshot_id_or_tag))
