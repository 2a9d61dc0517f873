"""The tags of a table; `Table.tags` makes it.

`dev/aio_classes.py` writes this file from `lakelog.sdk.maintenance.tags`; change that.
"""

from __future__ import annotations

import pyarrow as pa

from lakelog.aio.wrapped import Wrapped
from lakelog.annotations import TimeLike
from lakelog.sdk.maintenance.tags import Tags as BlockingTags


class Tags(Wrapped[BlockingTags]):
    """The tags of a table; `Table.tags` makes it."""

    async def create(self, name: str, snapshot_id: int | None = None, *, timestamp: TimeLike | None = None) -> int:
        """Gives a snapshot a name, by which it can be read at any later time.

        See `lakelog.Tags.create`.
        """
        return await self._workers.change(lambda: self._blocking.create(name, snapshot_id, timestamp=timestamp))

    async def list(self) -> pa.Table:
        """Lists the tags by name.

        See `lakelog.Tags.list`.
        """
        return await self._workers.read(lambda: self._blocking.list())

    async def delete(self, name: str) -> None:
        """Deletes a tag; its snapshot can then expire, unless something else retains it.

        See `lakelog.Tags.delete`.
        """
        await self._workers.change(lambda: self._blocking.delete(name))
