"""Writes that are committed together when the `async with` block ends, and aborted when it ends with an error.

`dev/aio_classes.py` writes this file from `lakelog.sdk.transaction`; change that.
"""

from __future__ import annotations

from lakelog.aio.open_transaction import OpenTransaction
from lakelog.aio.sdk.transaction_table import TransactionTable
from lakelog.results import TransactionResult
from lakelog.sdk.transaction import Transaction as BlockingTransaction


class Transaction(OpenTransaction[BlockingTransaction]):
    """Writes that are committed together when the `async with` block ends, and aborted when it ends with an error."""

    @property
    def result(self) -> TransactionResult | None:
        """What became of it; None until the `async with` block has ended."""
        return self._blocking.result

    async def table(
        self, name: str, *, if_snapshot: int | None = None, if_unchanged: int | None = None
    ) -> TransactionTable:
        """Returns a table to write to, or only to guard, by its full name `database.table`.

        See `lakelog.Transaction.table`.
        """
        return TransactionTable(
            await self._workers.read(
                lambda: self._blocking.table(name, if_snapshot=if_snapshot, if_unchanged=if_unchanged)
            ),
            self._workers,
        )

    async def commit(self) -> TransactionResult:
        """Commits; the end of a `with` block calls it by itself.

        See `lakelog.Transaction.commit`.
        """
        return await self._workers.change(lambda: self._blocking.commit())

    async def abandon(self) -> None:
        """Aborts the transaction: nothing becomes visible, and the files written are deleted. Idempotent.

        See `lakelog.Transaction.abandon`.
        """
        await self._workers.change(lambda: self._blocking.abandon())
