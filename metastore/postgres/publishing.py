"""How far external logs are published, in Postgres."""

from __future__ import annotations

from typing import Final

from lakelog.format.snapshot import LogContent

from .session import Session

_SET_LOG: Final = "UPDATE table_head SET log = %s WHERE table_id = %s"


class PostgresPublishing:
    """See `metastore.publish_store.PublishTransaction`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def set_log(self, table_id: int, log: LogContent) -> None:
        """Changes what the commits to a table must bring to its log."""
        await self._session.write(_SET_LOG, (None if log is LogContent.NONE else log.value, table_id))
