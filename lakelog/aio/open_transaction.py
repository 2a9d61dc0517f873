"""The life of a transaction in an event loop."""

from __future__ import annotations

from typing import Self, TypeVar

from lakelog.aio.scans import Scan
from lakelog.aio.wrapped import Wrapped
from lakelog.sdk.transaction import Transaction as BlockingTransaction

X = TypeVar("X", bound=BlockingTransaction)


class OpenTransaction(Wrapped[X]):
    """What a transaction does besides calling the blocking SDK."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        end = self._blocking.commit if kind is None else self._blocking.abandon
        await self._workers.change(end)

    def guard(self, scan: Scan) -> None:
        """Refuses the transaction if another commit changed what a scan has read; see `lakelog.Transaction.guard`.

        Args:
            scan: What was read: `seen = await table.scan(filter="k = 1")`.

        Raises:
            InvalidArgument: It is not a scan, is not planned yet, or shows changes and not the state of a table.
        """
        self._blocking.guard(scan.blocking if isinstance(scan, Scan) else scan)
