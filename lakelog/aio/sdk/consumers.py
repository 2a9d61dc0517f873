"""The consumers of a table; `Table.consumers` makes it.

`dev/aio_classes.py` writes this file from `lakelog.reads.streams.consumers`; change that.
"""

from __future__ import annotations

import pyarrow as pa

from lakelog.aio.wrapped import Wrapped
from lakelog.reads.streams.consumers import Consumers as BlockingConsumers


class Consumers(Wrapped[BlockingConsumers]):
    """The consumers of a table; `Table.consumers` makes it."""

    async def list(self) -> pa.Table:
        """Lists the consumers by id.

        See `lakelog.Consumers.list`.
        """
        return await self._workers.read(lambda: self._blocking.list())

    async def reset(self, consumer_id: str, snapshot_id: int) -> None:
        """Moves a consumer to a position after a snapshot, back or forth. Its reader is fenced.

        See `lakelog.Consumers.reset`.
        """
        await self._workers.change(lambda: self._blocking.reset(consumer_id, snapshot_id))

    async def delete(self, consumer_id: str) -> None:
        """Deletes a consumer, and releases what it retained. Its reader is fenced.

        See `lakelog.Consumers.delete`.
        """
        await self._workers.change(lambda: self._blocking.delete(consumer_id))
