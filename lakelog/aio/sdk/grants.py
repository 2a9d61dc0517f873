"""Grants on databases and tables; `Catalog.grants` makes it.

`dev/aio_classes.py` writes this file from `lakelog.sdk.grants`; change that.
"""

from __future__ import annotations

import pyarrow as pa

from lakelog.aio.wrapped import Wrapped
from lakelog.sdk.grants import Grants as BlockingGrants


class Grants(Wrapped[BlockingGrants]):
    """Grants on databases and tables; `Catalog.grants` makes it."""

    async def grant(self, level: str, scope: str, to: str) -> bool:
        """Lets another caller read, write or own a table, or a database with all its tables, also later ones.

        See `lakelog.Grants.grant`.
        """
        return await self._workers.change(lambda: self._blocking.grant(level, scope, to))

    async def revoke(self, scope: str | None, from_: str, *, uuid: str | None = None) -> None:
        """Takes a grant back, within seconds also from what the caller has open.

        See `lakelog.Grants.revoke`.
        """
        await self._workers.change(lambda: self._blocking.revoke(scope, from_, uuid=uuid))

    async def list(self, scope: str | None = None, *, to: str | None = None, uuid: str | None = None) -> pa.Table:
        """Lists the grants on exactly one database or table, or those of one caller, also on dropped tables.

        See `lakelog.Grants.list`.
        """
        return await self._workers.read(lambda: self._blocking.list(scope, to=to, uuid=uuid))
